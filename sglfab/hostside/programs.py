"""Our own programs in <state>/bin: one for each version that was ever sent here."""

from __future__ import annotations

import contextlib
import os
import re
import time
from typing import List

from sglfab.hostside.processes import pids, title

_PROGRAM = re.compile(r"hostside-[0-9a-f]{64}\.pyz")
KEEP = 4
OLD_S = 7 * 86400.0  # a home may be shared: what other hosts run is not seen, and nothing of ours asks for so long


def drop_old(own: str) -> List[str]:
    """Delete all but the newest KEEP, those used within OLD_S and those that run here; returns the paths.

    own: the program that runs now, marked as used by this. From a checkout, or from memory, there is nothing to drop.
    """
    folder, name = os.path.split(os.path.abspath(own))
    if not _PROGRAM.fullmatch(name):
        return []
    with contextlib.suppress(OSError):  # of somebody else, or on a disk that takes nothing
        os.utime(own)
    paths = [os.path.join(folder, other) for other in os.listdir(folder) if _PROGRAM.match(other)]
    newest_first = sorted(paths, key=_used, reverse=True)
    old = [path for path in newest_first[KEEP:] if time.time() - _used(path) > OLD_S]
    running = " ".join(title(pid) for pid in pids()) if old else ""
    doomed = [path for path in old if os.path.basename(path) not in running]
    for path in doomed:
        with contextlib.suppress(OSError):
            os.unlink(path)
    return doomed


def _used(path: str) -> float:
    try:
        return os.stat(path).st_mtime
    except OSError:
        return 0.0
