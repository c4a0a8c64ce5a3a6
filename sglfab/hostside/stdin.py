"""The operator's side, as an operation sees it: still there or gone, and what it asked for meanwhile."""

from __future__ import annotations

import json
import os
import queue
import threading
from typing import List, Optional

_LINE_MAX = 65536


class Stdin(threading.Event):
    """Set when the operator's side went away."""

    def __init__(self) -> None:
        super().__init__()
        self._asked: "queue.SimpleQueue[str]" = queue.SimpleQueue()

    def asked(self) -> List[str]:
        """What was asked for since the last call: the `ask` of every line after the request."""
        found = []
        while not self._asked.empty():
            found.append(self._asked.get())
        return found

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
                what = _ask(line)
                if what is not None:
                    self._asked.put(what)


def _ask(line: bytes) -> Optional[str]:
    try:
        value = json.loads(line.decode("utf-8"))
    except ValueError:
        return None
    return value["ask"] if isinstance(value, dict) and isinstance(value.get("ask"), str) else None


def _read_some() -> bytes:
    try:
        return os.read(0, _LINE_MAX)
    except OSError:
        return b""
