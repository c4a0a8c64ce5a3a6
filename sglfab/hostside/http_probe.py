"""HTTP to a server on this host: a fresh connection each time, never through a proxy."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import threading
import time
from dataclasses import dataclass
from typing import Any, Callable, Dict, Optional

from sglfab.hostside.failure import HostError
from sglfab.hostside.ports import loopback

Json = Dict[str, Any]
_BODY_MAX = 32 << 20


@dataclass(frozen=True)
class Answer:
    """error: refused, timeout, reset, other; None where a status came. detail: what the error says."""

    status: Optional[int]
    body: str
    ms: float
    error: Optional[str] = None
    detail: str = ""

    @property
    def state(self) -> str:
        """The HTTP states of product.md: refused, 503, 200, timeout, other."""
        if self.error in ("refused", "timeout"):
            return str(self.error)
        return str(self.status) if self.status in (200, 503) else "other"


def request(request: Json, emit: Callable[[Json], None], stdin_closed: threading.Event) -> Json:
    """One HTTP request to a port of this host."""
    port = request.get("port")
    if not isinstance(port, int) or not 0 < port < 65536:
        raise HostError("port-invalid", "a port is a number from 1 to 65535", where=repr(port), try_="--port 30000")
    answer = ask(
        request.get("method") or "GET",
        request["path"],
        host=loopback(request.get("http_host")),
        port=port,
        headers=request.get("headers") or {},
        body=request.get("body"),
        timeout_s=float(request.get("timeout_s") or 25.0),
    )
    return {
        "status": answer.status,
        "body": answer.body,
        "ms": answer.ms,
        "error": answer.error,
        "detail": answer.detail,
    }


def ask(
    method: str,
    path: str,
    *,
    host: str,
    port: int,
    headers: Optional[Dict[str, str]] = None,
    body: Optional[object] = None,
    timeout_s: float,
) -> Answer:
    """One request over a fresh connection; never raises. timeout_s bounds the whole of it."""
    began = time.monotonic()
    connection = http.client.HTTPConnection(host, port, timeout=timeout_s)
    data = None if body is None else json.dumps(body).encode("utf-8")
    sent = {"Connection": "close", **({"Content-Type": "application/json"} if data else {}), **(headers or {})}
    late = threading.Event()
    alarm: Optional[threading.Timer] = None
    try:
        connection.connect()
        # The socket's own time-out counts between bytes only: a trickle would never end.
        alarm = threading.Timer(timeout_s, _cut, [connection.sock, late])
        alarm.daemon = True
        alarm.start()
        connection.request(method, path, body=data, headers=sent)
        reply = connection.getresponse()
        text = reply.read(_BODY_MAX).decode("utf-8", "replace")
        if late.is_set():  # a cut connection looks to read() like the end of a short body
            raise socket.timeout("the answer did not end in %g s" % timeout_s)
        return Answer(reply.status, text, _ms(began))
    except (OSError, http.client.HTTPException, ValueError) as error:
        kind = "timeout" if late.is_set() else _kind(error)
        return Answer(None, "", _ms(began), kind, "%s: %s" % (type(error).__name__, error))
    finally:
        if alarm is not None:
            alarm.cancel()
        connection.close()


def _cut(sock: socket.socket, late: threading.Event) -> None:
    late.set()
    with contextlib.suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)


def _kind(error: Exception) -> str:
    if isinstance(error, ConnectionRefusedError):
        return "refused"
    if isinstance(error, socket.timeout):
        return "timeout"
    return "reset" if isinstance(error, (ConnectionError, http.client.RemoteDisconnected)) else "other"


def _ms(began: float) -> float:
    return round((time.monotonic() - began) * 1000, 1)
