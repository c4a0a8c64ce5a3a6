"""HTTP from the operator's side, for `wait-health --url`: the only place where requests is used."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from urllib.parse import urlsplit

import requests

from sglfab.errors import InputError
from sglfab.flows.clock import Clock
from sglfab.model import Json, Observation

EVERY_S = 0.25
CONNECT_S = 5.0


class DirectProbe:
    """Asks /health of one URL, then for one token; gives `http` observations as the host's watcher does."""

    def __init__(self, url: str, *, api_key: str | None, probe_timeout_s: float, clock: Clock) -> None:
        self.base = checked_url(url)
        self._session = requests.Session()
        # A proxy in the environment must never see a loopback probe; for other hosts it is the operator's choice.
        self._session.trust_env = not _is_loopback(self.base)
        if api_key:
            self._session.headers["Authorization"] = f"Bearer {api_key}"
        self._timeout = (CONNECT_S, probe_timeout_s)
        self._clock = clock

    def __call__(self, now_s: float) -> Iterator[Observation]:
        """Observations of one look, stamped now_s plus the time that they took."""
        began = self._clock.now_s()
        health = self._get("health", "/health")
        yield Observation(now_s + self._clock.now_s() - began, "http", health)
        if health["state"] == "200":
            generate = self._one_token()
            yield Observation(now_s + self._clock.now_s() - began, "http", generate)

    def observations(self) -> Iterator[Observation]:
        """Endless looks, EVERY_S apart, for a URL alone."""
        began = self._clock.now_s()
        yield Observation(0.0, "start", {"wall": self._clock.wall_s(), "run": None, "started_wall": None, "main": None})
        while True:
            yield from self(self._clock.now_s() - began)
            yield Observation(self._clock.now_s() - began, "tick", {})
            self._clock.sleep(EVERY_S)

    def _one_token(self) -> Json:
        info = self._get("model_info", "/get_model_info")
        if isinstance(info.get("body"), dict) and info["body"].get("is_generation") is False:
            return info
        body = {"text": "Hi", "sampling_params": {"max_new_tokens": 1, "temperature": 0}}
        return self._ask("generate", "POST", "/generate", body)

    def _get(self, what: str, path: str) -> Json:
        return self._ask(what, "GET", path, None)

    def _ask(self, what: str, method: str, path: str, body: Json) -> Json:
        began = self._clock.now_s()
        seen: dict[str, Json] = {"what": what, "state": "other", "status": None, "detail": "", "ours": None}
        try:
            reply = self._session.request(method, self.base + path, json=body, timeout=self._timeout)
            seen |= {"status": reply.status_code, "state": _state(reply.status_code)}
            if what != "health":
                seen["body"] = _json_body(reply)
        except requests.exceptions.ConnectTimeout:
            seen["state"] = "timeout"
        except requests.exceptions.ReadTimeout:
            seen["state"] = "timeout"
        except requests.exceptions.RequestException as why:
            seen |= {"state": "refused" if "refused" in str(why).lower() else "other", "detail": str(why)[:200]}
        seen["ms"] = round(1000 * (self._clock.now_s() - began))
        return seen


def checked_url(url: str) -> str:
    """scheme://host[:port] without a trailing slash or path. Raises InputError bad-url."""
    parts = urlsplit(url if "//" in url else "http://" + url)
    try:
        port_ok = parts.port is None or 0 < parts.port < 65536
    except ValueError:
        port_ok = False
    if parts.scheme not in ("http", "https") or not parts.hostname or not port_ok:
        raise InputError("bad-url", f"not an HTTP address: {url}", where="--url", try_="--url http://127.0.0.1:30000")
    return f"{parts.scheme}://{parts.netloc}"


def _is_loopback(base: str) -> bool:
    host = urlsplit(base).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _state(status: int) -> str:
    return str(status) if status in (200, 503) else "other"


def _json_body(reply: requests.Response) -> Json:
    try:
        return reply.json()
    except ValueError:
        return None
