"""The kernel's own count of memory kills in a process's cgroup, v1 and v2."""

from __future__ import annotations

import os
from typing import Any, Dict, Optional

_ROOT = "/sys/fs/cgroup"


def oom_counter(pid: int, *, root: str = _ROOT, proc: str = "/proc") -> Optional[Dict[str, Any]]:
    """{"path": counter file, "count": its value now}; None where no cgroup of the process has one that we can read.

    Whichever group's limit was hit, the kernel counts the kill in the group of the killed process (v2: and above it).
    """
    for path in _candidates(pid, root, proc):
        count = oom_kills(path)
        if count is not None:
            return {"path": path, "count": count}
    return None


def oom_kills(path: str) -> Optional[int]:
    """The `oom_kill N` line of memory.events (v2) or memory.oom_control (v1)."""
    try:
        with open(path, encoding="ascii") as file:
            words = [line.split() for line in file]
    except (OSError, ValueError):
        return None
    return next((int(w[1]) for w in words if len(w) == 2 and w[0] == "oom_kill"), None)


def _candidates(pid: int, root: str, proc: str) -> "list[str]":
    try:
        with open("%s/%d/cgroup" % (proc, pid), encoding="utf-8", errors="surrogateescape") as file:
            lines = [line.rstrip("\n").split(":", 2) for line in file]
    except OSError:
        return []
    found = []
    for _, controllers, path in (line for line in lines if len(line) == 3):
        if controllers == "":
            mounts = [root, root + "/unified"]  # the second where v1 and v2 are mounted side by side
            name = "/memory.events"
        elif "memory" in controllers.split(","):
            mounts, name = [root + "/memory"], "/memory.oom_control"
        else:
            continue
        # In a container the path is often the host's, while the mount shows our own group as its root.
        found += [mount + group + name for mount in mounts for group in (path, "")]
    return [os.path.normpath(path) for path in found]
