"""How much of /dev/shm is free, in the server's own view: NCCL and torch pass tensors through it."""

from __future__ import annotations

import os
from typing import Any, Callable, Dict, Optional

Put = Callable[[str, Dict[str, Any]], None]
PATH = "/dev/shm"
_STEP = 0.02  # of its size: a smaller change is not told


class ShmWatch:
    """Puts `shm` at first and when the free space has changed; one `gap` while it cannot be asked."""

    def __init__(self, main: Optional[int], put: Put, *, path: str = PATH) -> None:
        """main: the server's pid; None: our own view, which is that of any server outside containers."""
        self._put, self._path = put, path
        self._views = ["/proc/%d/root%s" % (main, path)] if main else []
        self._told: Optional[float] = None
        self._said_gap = False

    def poll(self) -> None:
        try:
            stats = self._stat()
        except OSError as error:
            if not self._said_gap:
                self._put("gap", {"text": "shm: %s: %s" % (self._path, error.strerror)})
            self._said_gap = True
            return
        free, total = (blocks * stats.f_frsize / 1e6 for blocks in (stats.f_bavail, stats.f_blocks))
        if self._told is None or abs(free - self._told) > _STEP * total:
            self._told = free
            self._put("shm", {"path": self._path, "total_mb": round(total, 1), "free_mb": round(free, 1)})

    def _stat(self) -> os.statvfs_result:
        for view in self._views:
            try:
                return os.statvfs(view)
            except OSError:
                continue  # another user's process, or one that is gone
        return os.statvfs(self._path)
