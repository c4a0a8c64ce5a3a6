"""The operator's side, as an operation sees it: still there or gone, and what it asked for or told meanwhile."""

from __future__ import annotations

import json
import os
import queue
import threading
from typing import Any, Dict, List, Tuple

Json = Dict[str, Any]

_LINE_MAX = 65536


class Stdin(threading.Event):
    """Set when the operator's side went away."""

    def __init__(self) -> None:
        super().__init__()
        self._asked: "queue.SimpleQueue[str]" = queue.SimpleQueue()
        self._told: "queue.SimpleQueue[Tuple[str, Json]]" = queue.SimpleQueue()

    def asked(self) -> List[str]:
        """What was asked for since the last call: the `ask` of every line after the request."""
        return _all(self._asked)

    def told(self) -> List[Tuple[str, Json]]:
        """(kind, data) of what the operator's side itself has seen since the last call: the `tell` of every line."""
        return _all(self._told)

    def follow(self) -> None:
        """Read until the end of stdin."""
        rest = b""
        while True:
            data = _read_some()
            if not data:
                self.set()
                return
            lines = (rest + data).split(b"\n")
            rest = lines.pop()[-_LINE_MAX:]
            for line in lines:
                self._take(line)

    def _take(self, line: bytes) -> None:
        try:
            value = json.loads(line.decode("utf-8"))
        except ValueError:
            return
        if not isinstance(value, dict):
            return
        if isinstance(value.get("ask"), str):
            self._asked.put(value["ask"])
        if isinstance(value.get("tell"), dict):
            self._told.put((value["tell"]["kind"], value["tell"]["data"]))


def _all(waiting: "queue.SimpleQueue[Any]") -> List[Any]:
    found = []
    while not waiting.empty():
        found.append(waiting.get())
    return found


def _read_some() -> bytes:
    try:
        return os.read(0, _LINE_MAX)
    except OSError:
        return b""
