"""watch.jsonl: every observation of a wait, so that it can be judged again."""

from __future__ import annotations

import errno
import json
import os
import time
from typing import Any, Dict, Optional


class Recorder:
    """Appends observations, each with `watch`, the id of its wait: waits at the same time mix in one file."""

    def __init__(self, run_dir: Optional[str]) -> None:
        self._fd: Optional[int] = None
        self._trouble: Optional[str] = None
        self._watch = "%d-%d" % (time.time(), os.getpid())
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
            line = json.dumps({**observation, "watch": self._watch}, separators=(",", ":"))
            self._append(line.encode("ascii") + b"\n")
        trouble, self._trouble = self._trouble, None
        return trouble

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
