"""Waits for servers that are no runs of ours: each has a folder of its own with its record, `<state>/waits/<id>`."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import secrets
import shutil
import threading
import time
from typing import Any, Callable, Dict, List, Optional

from sglfab.hostside.state import folder_bytes, private_dir, refused, state_dir

Json = Dict[str, Any]

FILE = "watch.jsonl"
KEPT = 20
_ID = re.compile(r"\d{8}-\d{6}-[0-9a-f]{4}")
_STARTING_S = 60.0  # an empty folder younger than this may be about to get its record


def waits(request: Json, emit: Callable[[Json], None], stdin_closed: threading.Event) -> Json:
    """The recorded waits, newest first."""
    found = _folders(state_dir(request))
    return {"waits": [{"id": os.path.basename(folder), "path": os.path.join(folder, FILE)} for folder in found]}


def folder_of(state: str, wait_id: Optional[str]) -> str:
    """The folder of that wait, which a lost connection interrupted; else a new one, in the place of the oldest.

    Raises HostError state-dir-unusable, disk-full.
    """
    parent = private_dir(os.path.join(state, "waits"))
    if wait_id and _ID.fullmatch(wait_id):
        return os.path.join(parent, wait_id)
    prune_waits(state, keep=KEPT - 1)
    while True:
        folder = os.path.join(parent, "%s-%s" % (time.strftime("%Y%m%d-%H%M%S"), secrets.token_hex(2)))
        try:
            os.mkdir(folder, 0o700)
            return folder
        except FileExistsError:
            continue
        except OSError as error:
            raise refused(error, folder) from error


def prune_waits(state: str, *, keep: int, dry: bool = False) -> Json:
    """All but the newest `keep`, and those that are being written; as `prune_runs` answers."""
    doomed = [folder for folder in reversed(_folders(state)[keep:]) if not _in_use(folder)]
    freed = sum(folder_bytes(folder) for folder in doomed)
    if not dry:
        for folder in doomed:
            shutil.rmtree(folder, ignore_errors=True)
    return {"removed": [os.path.basename(folder) for folder in doomed], "freed_bytes": freed}


def hold(fd: int) -> None:
    """Mark an open record as being written, until it is closed; where files cannot be locked, its age protects it."""
    with contextlib.suppress(OSError):
        fcntl.flock(fd, fcntl.LOCK_SH)


def _folders(state: str) -> List[str]:
    """Newest first."""
    parent = os.path.join(state, "waits")
    try:
        names = [entry.name for entry in os.scandir(parent) if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []
    return [os.path.join(parent, name) for name in sorted(names, reverse=True) if _ID.fullmatch(name)]


def _in_use(folder: str) -> bool:
    young = False
    try:
        young = time.time() - os.stat(folder).st_mtime < _STARTING_S
        fd = os.open(os.path.join(folder, FILE), os.O_RDWR)  # LOCK_EX on NFS wants a file that can be written
    except FileNotFoundError:
        return young
    except OSError:
        return True
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.fstat(fd).st_size == 0 and young  # opened, not locked yet
    except OSError:
        return True
    finally:
        os.close(fd)
