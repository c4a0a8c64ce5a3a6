"""HTTP from the operator's side, for `wait-health --url`: the only place where requests is used."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit

import requests

from sglfab.errors import UnreachableError
from sglfab.flows.clock import Clock
from sglfab.flows.web_address import CONNECT_S, checked_url, is_loopback, silent
from sglfab.model import Json

EVERY_S = 0.2
BODY_MAX = 4000  # bytes


class DirectProbe:
    """Asks /health of one URL, then for one token; gives the data of `http` observations as the host's watcher does.

    reconnect_s: how long a name that is not known, or a failing TLS, may stand in the way before UnreachableError.
    """

    def __init__(
        self, url: str, *, api_key: str | None, probe_timeout_s: float, reconnect_s: float, clock: Clock
    ) -> None:
        self.base = checked_url(url)
        self._here = is_loopback(self.base)
        self._session = requests.Session()
        # A proxy in the environment must never see a loopback probe; for other hosts it is the operator's choice.
        self._session.trust_env = not self._here
        if api_key:
            self._session.headers["Authorization"] = f"Bearer {api_key}"
        self._timeout = (CONNECT_S, probe_timeout_s)
        self._way = _Way(self.base, reconnect_s)
        self._clock = clock
        self._due_s = 0.0

    def __call__(self) -> Iterator[Json]:
        """One look; nothing until as much time has passed as the last look took, at least EVERY_S.

        So a server that does not answer holds up what the host tells for half of the time at most.
        Raises UnreachableError.
        """
        began = self._clock.now_s()
        if began >= self._due_s:
            yield from self._look()
            now = self._clock.now_s()
            self._due_s = now + max(EVERY_S, now - began)

    def _look(self) -> Iterator[Json]:
        if self._here and silent(self.base):
            yield _seen("health", state="refused", detail="nobody listens")
            return
        health = self._get("health", "/health")
        yield health
        if health["state"] == "200":
            yield from self._one_token()

    def _one_token(self) -> Iterator[Json]:
        info = self._get("model_info", "/model_info")
        if info["status"] == 404:  # before 0.5.6
            info = self._get("model_info", "/get_model_info")
        yield info
        if isinstance(info.get("body"), dict) and info["body"].get("is_generation") is False:
            return
        body = {"text": "Hi", "sampling_params": {"max_new_tokens": 1, "temperature": 0}}
        yield self._ask("generate", "POST", "/generate", body)

    def _get(self, what: str, path: str) -> Json:
        return self._ask(what, "GET", path, None)

    def _ask(self, what: str, method: str, path: str, body: Json) -> Json:
        began = self._clock.now_s()
        seen = _seen(what)
        try:
            reply = self._session.request(method, self.base + path, json=body, timeout=self._timeout)
            seen |= {"status": reply.status_code, "state": _state(reply.status_code)}
            if what != "health":
                seen["body"] = _json_body(reply)
            self._way.open()
        except requests.exceptions.Timeout:
            seen["state"] = "timeout"
            self._way.open()
        except requests.exceptions.RequestException as why:
            seen |= self._failed(why)
        seen["ms"] = round(1000 * (self._clock.now_s() - began))
        return seen

    def _failed(self, why: requests.exceptions.RequestException) -> Json:
        block = _block(why, self.base)
        if block:
            self._way.blocked(block, now_s=self._clock.now_s())
            return {"detail": block.what}
        self._way.open()
        refused = _cause(why, ConnectionRefusedError) is not None
        return {"state": "refused" if refused else "other", "detail": str(why)[:200]}


class _Way:
    """Whether the server can be asked at all. What never worked ends the wait at once: it was typed wrong."""

    def __init__(self, base: str, reconnect_s: float) -> None:
        self._base, self._reconnect_s = base, reconnect_s
        self._was_open = False
        self._since_s: float | None = None

    def open(self) -> None:
        self._was_open, self._since_s = True, None

    def blocked(self, block: _Block, *, now_s: float) -> None:
        """Raises UnreachableError url-unreachable, unless it may pass in the time that is left."""
        self._since_s = now_s if self._since_s is None else self._since_s
        may_pass = self._was_open or block.passing
        if not may_pass or now_s - self._since_s >= self._reconnect_s:
            raise UnreachableError("url-unreachable", block.what, where=self._base, try_=block.try_)


@dataclass(frozen=True)
class _Block:
    """What keeps us from asking at all. passing: it may pass, though it never worked."""

    what: str
    try_: str
    passing: bool = False


def _block(why: BaseException, base: str) -> _Block | None:
    """Of a name that is not known, and of a failing TLS; None for others."""
    parts = urlsplit(base)
    unknown = _cause(why, socket.gaierror)
    if isinstance(unknown, socket.gaierror):
        what = f"the name {parts.hostname} is not known here ({unknown.strerror})"
        return _Block(what, f"getent hosts {parts.hostname}", passing=unknown.errno == socket.EAI_AGAIN)
    if isinstance(why, requests.exceptions.SSLError):
        return _Block(f"TLS fails: {_innermost(why)}", f"--url http://{parts.netloc}, or curl -v {base}/health")
    return None


def _cause(why: BaseException | None, kind: type[BaseException]) -> BaseException | None:
    """The first exception of that kind among those that led to `why`."""
    while why is not None and not isinstance(why, kind):
        why = why.__cause__ or why.__context__
    return why


def _innermost(why: BaseException) -> BaseException:
    while cause := why.__cause__ or why.__context__:
        why = cause
    return why


def _seen(what: str, *, state: str = "other", detail: str = "") -> Json:
    return {"what": what, "state": state, "status": None, "detail": detail, "ours": None, "ms": 0}


def _state(status: int) -> str:
    return str(status) if status in (200, 503) else "other"


def _json_body(reply: requests.Response) -> Json:
    try:
        return reply.json() if len(reply.content) <= BODY_MAX else None
    except ValueError:
        return None
