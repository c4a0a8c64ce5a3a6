"""The server's HTTP side: /health again and again, whose socket it is, and one token when it first answers 200."""

from __future__ import annotations

import json
import threading
import time
from typing import Any, Callable, Dict, Optional

from sglfab.hostside.family import Server, members
from sglfab.hostside.http_probe import Answer, ask
from sglfab.hostside.ports import holders, listeners, owner, silent
from sglfab.hostside.processes import living

Json = Dict[str, Any]
Put = Callable[[str, Json], None]

_LOADING_S = 0.1  # between probes while it does not answer 200
_SERVING_S = 2.0  # between probes after a 200
_REPEAT_S = 2.0  # an unchanged answer is told at most this often
_RETRY_S, _RETRY_MAX_S = 1.0, 30.0  # between attempts at the first token
_BODY_MAX = 4000


class Identity:
    """Whose server is on the port: port → socket → pid in our server's processes."""

    def __init__(self, port: int, server: Optional[Server]) -> None:
        self._port, self._server = port, server
        self.local = server is not None  # a process of this host: elsewhere (a container's port) no table shows it
        self._inodes: "frozenset[int]" = frozenset()
        self._ours: Optional[bool] = None
        self.owner: Optional[Json] = None
        self._holder_lives: Callable[[], bool] = lambda: False

    def look(self) -> Optional[bool]:
        """True: a process of our server listens there; False: somebody else; None: nobody, or it can't be told."""
        inodes = frozenset(listener.inode for listener in listeners(self._port))
        if inodes != self._inodes or (self._ours and not self._holder_lives()):
            self._inodes = inodes
            self._ours = self._decide(inodes) if inodes and self._server else None
            self.owner = owner(self._port) if inodes and not self._ours else None
            if self._ours is None and self.owner and self.owner["pid"] and self._server:
                self._ours = False
        return self._ours

    def _decide(self, inodes: "frozenset[int]") -> Optional[bool]:
        assert self._server is not None
        ours = members(self._server)
        found = holders(set(inodes), ours)
        idents = [ours[pid].ident for pid in found]
        self._holder_lives = lambda: any(living(ident) for ident in idents)
        return True if found else None


class HttpWatch:
    """Probes in a thread of its own; the first token is asked for in another, so that neither delays the other."""

    def __init__(
        self,
        host: str,
        port: int,
        *,
        identity: Identity,
        put: Put,
        closed: threading.Event,
        api_key: Optional[str],
        timeout_s: float,
        generate: bool,
    ) -> None:
        self._host, self._port, self._identity = host, port, identity
        self._put, self._closed = put, closed
        self._timeout_s, self._generate = timeout_s, generate
        self._headers = {"Authorization": "Bearer " + api_key} if api_key else {}
        self._told: Optional[Json] = None
        self._told_at = 0.0
        self._told_owner: Optional[Json] = None
        self._first_token: Optional[threading.Thread] = None
        self._served = False

    def run(self) -> None:
        while not self._closed.is_set():
            answer = self._health()
            ours = self._identity.look() if answer.error != "refused" else None
            self._tell_owner(ours)
            self._tell_health(answer, ours)
            if answer.state == "200" and ours is not False:
                self._begin_first_token(ours)
            # /health makes the server generate a token each time, so a server that answers is asked less often.
            self._closed.wait(_SERVING_S if self._served or answer.state == "200" else _LOADING_S)

    def _health(self) -> Answer:
        """Never a connection to a port on which nobody listens: asked often enough, one whose own port the kernel picks
        from the same range would reach itself, and keep the server from binding."""
        if self._identity.local and silent(self._port):
            return Answer(None, "", 0.0, "refused", "nobody listens")
        return self._ask("GET", "/health", timeout_s=self._timeout_s)

    def _ask(self, method: str, path: str, *, timeout_s: float, body: Optional[object] = None) -> Answer:
        return ask(
            method, path, host=self._host, port=self._port, headers=self._headers, body=body, timeout_s=timeout_s
        )

    def _tell_health(self, answer: Answer, ours: Optional[bool]) -> None:
        data = _shape("health", answer, ours)
        now = time.monotonic()
        same = self._told is not None and all(data[k] == self._told[k] for k in ("state", "status", "ours"))
        if not same or now - self._told_at >= _REPEAT_S:
            self._told, self._told_at = data, now
            self._put("http", data)

    def _tell_owner(self, ours: Optional[bool]) -> None:
        """Told when it changes: a port that somebody else holds, or that became ours."""
        data = {"owner": self._identity.owner, "ours": ours}
        if data != self._told_owner and (ours is not None or self._identity.owner or self._told_owner):
            self._put("port", data)
            self._told_owner = data

    def _begin_first_token(self, ours: Optional[bool]) -> None:
        if self._first_token is None and self._generate:
            self._first_token = threading.Thread(
                target=self._try_first_token, args=(ours,), name="generate", daemon=True
            )
            self._first_token.start()
        elif not self._generate:
            self._served = True

    def _try_first_token(self, ours: Optional[bool]) -> None:
        """Until one attempt succeeds: a 200 of /health alone does not say that requests are served."""
        pause_s = _RETRY_S
        while not self._closed.is_set():
            if self._skips_generation(ours) or self._one_token(ours):
                self._served = True
                return
            self._closed.wait(pause_s)
            pause_s = min(pause_s * 2, _RETRY_MAX_S)

    def _skips_generation(self, ours: Optional[bool]) -> bool:
        """An embedding or reward model has no /generate; its /model_info says so."""
        answer = self._ask("GET", "/model_info", timeout_s=self._timeout_s)
        if answer.status == 404:  # before 0.5.6
            answer = self._ask("GET", "/get_model_info", timeout_s=self._timeout_s)
        data = _shape("model_info", answer, ours)
        data["body"] = _body(answer)
        self._put("http", data)
        return data["body"].get("is_generation") is False

    def _one_token(self, ours: Optional[bool]) -> bool:
        body = {"text": "Hi", "sampling_params": {"max_new_tokens": 1, "temperature": 0}}
        answer = self._ask("POST", "/generate", timeout_s=max(self._timeout_s, 60.0), body=body)
        data = _shape("generate", answer, ours)
        data["body"] = _body(answer)
        self._put("http", data)
        return answer.status == 200


def _shape(what: str, answer: Answer, ours: Optional[bool]) -> Json:
    return {
        "what": what,
        "state": answer.state,
        "status": answer.status,
        "ms": answer.ms,
        "detail": answer.detail,
        "ours": ours,
    }


def _body(answer: Answer) -> Json:
    """The JSON object of the answer; {"text"} of anything else, cut."""
    try:
        value = json.loads(answer.body)
    except ValueError:
        value = None
    return value if isinstance(value, dict) and len(answer.body) <= _BODY_MAX else {"text": answer.body[:_BODY_MAX]}
