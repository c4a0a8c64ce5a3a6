"""`ping`: proves the pipe, in both directions and at any size."""

from __future__ import annotations

import os
import sys
import threading
from typing import Any, Callable, Dict

Json = Dict[str, Any]


def ping(request: Json, emit: Callable[[Json], None], stdin_closed: threading.Event) -> Json:
    """Echo `echo`; before it, `events` events of `size_bytes` text each; with `hold`, stay until stdin ends."""
    text = "x" * int(request.get("size_bytes") or 0)
    for number in range(int(request.get("events") or 0)):
        if stdin_closed.is_set():
            break
        emit({"n": number, "text": text})
    if request.get("hold"):
        emit({"holding": os.getpid()})
        stdin_closed.wait()
    return {"echo": request.get("echo"), "pid": os.getpid(), "python": "%d.%d.%d" % sys.version_info[:3]}
