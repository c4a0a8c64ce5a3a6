"""watch.jsonl: every observation of a wait, so that it can be judged again."""

from __future__ import annotations

import errno
import json
import os
import time
from typing import Any, Dict, Optional, Sequence


class Recorder:
    """Appends observations, each with `watch`, the id of its wait: waits at the same time mix in one file."""

    def __init__(self, run_dir: Optional[str], hide: Sequence[str] = ()) -> None:
        """hide: secrets that the server may print; they do not get into a file of ours."""
        self._fd: Optional[int] = None
        self._trouble: Optional[str] = None
        self._watch = "%d-%d" % (time.time(), os.getpid())
        self._hide = sorted((value for value in hide if value), key=len, reverse=True)
        if run_dir:
            self._open(os.path.join(run_dir, "watch.jsonl"))

    def _open(self, path: str) -> None:
        try:
            self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        except OSError as error:
            self._trouble = "record: %s" % error.strerror

    def write(self, observation: Dict[str, Any]) -> Optional[str]:
        """Append one; returns, once, why recording ended. Never raises."""
        if self._fd is not None:
            line = json.dumps({**self._hidden(observation), "watch": self._watch}, separators=(",", ":"))
            self._append(line.encode("ascii") + b"\n")
        trouble, self._trouble = self._trouble, None
        return trouble

    def _hidden(self, observation: Dict[str, Any]) -> Dict[str, Any]:
        """The log with as many stars as a secret has bytes: the offsets of what follows stay true."""
        text = observation["data"].get("data") if observation["kind"] == "log" else None
        if not text or not any(value in text for value in self._hide):
            return observation
        for value in self._hide:
            text = text.replace(value, "*" * len(value.encode("utf-8", "surrogateescape")))
        return {**observation, "data": {**observation["data"], "data": text}}

    def _append(self, line: bytes) -> None:
        assert self._fd is not None
        try:
            if os.write(self._fd, line) != len(line):  # one write a line, so that lines of two waits stay whole
                raise OSError(errno.ENOSPC, "the disk is full")
        except OSError as error:
            self._trouble = "record: watch.jsonl ends here: %s" % error.strerror
            self.close()

    def close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
        self._fd = None
