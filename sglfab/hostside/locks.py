"""Operation locks: one holder per port and per install path, for all users of the host.

The lock itself is flock on a file of a sticky, world-writable, local folder: the kernel drops it with its holder, so
none can go stale. The record in the file names the holder; it is believed only while its pid, start time and boot id
are alive.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import stat
import threading
import time
from typing import Any, Callable, Dict, List, Optional

from sglfab.hostside.failure import HostError
from sglfab.hostside.processes import boot_id, ident_from, living, look
from sglfab.hostside.state import read_json

Json = Dict[str, Any]
_PLACES = ("/run/lock/sglfab", "/tmp/sglfab-locks")
_SETTLE_S = 1.0


def hold_locks(request: Json, emit: Callable[[Json], None], stdin_closed: threading.Event) -> Json:
    """Take all or none, say so, keep them until stdin ends. Raises HostError locked (exit 9) that names the holder."""
    folder = lock_folder()
    record = _record(request)
    held: List[int] = []
    try:
        for name in sorted(lock_names(request)):
            held.append(take(os.path.join(folder, name), record))
        emit({"held": sorted(lock_names(request)), "folder": folder})
        stdin_closed.wait()
    finally:
        for fd in held:
            _release(fd)
    return {"released": True}


def lock_names(request: Json) -> List[str]:
    """The files of the locks that a request for `port` and `install` is about."""
    names = []
    if request.get("port"):
        names.append("port-%d.json" % int(request["port"]))
    if request.get("install"):
        names.append(install_lock(request["install"]))
    return names


def install_lock(path: str) -> str:
    return (
        "install-%s.json" % hashlib.sha256(os.path.realpath(path).encode("utf-8", "surrogateescape")).hexdigest()[:16]
    )


def _record(request: Json) -> Json:
    me = look(os.getpid())
    return {
        "operator": request.get("operator"),
        "laptop": request.get("laptop"),
        "pid": os.getpid(),
        "start": me.start if me else 0,
        "boot_id": boot_id(),
        "since": time.time(),
        "what": request.get("what"),
    }


def lock_folder() -> str:
    """The first usable of /run/lock/sglfab and /tmp/sglfab-locks, mode 1777. $SGLFAB_LOCK_DIR replaces both."""
    own = os.environ.get("SGLFAB_LOCK_DIR")
    for path in (own,) if own else _PLACES:
        if _usable(path):
            return path
    what = "no folder for locks that every user can write"
    raise HostError("lock-folder-unusable", what, where=", ".join(_PLACES), try_="mkdir -m 1777 /run/lock/sglfab")


def _usable(path: str) -> bool:
    try:
        os.mkdir(path)
        os.chmod(path, 0o1777)
    except FileExistsError:
        pass
    except OSError:
        return False
    mode = os.lstat(path).st_mode  # lstat: in /tmp somebody could have put a link there
    return stat.S_ISDIR(mode) and os.access(path, os.W_OK | os.X_OK)


def take(path: str, record: Json) -> int:
    """The locked descriptor. Raises HostError locked."""
    until = time.monotonic() + _SETTLE_S
    while True:
        fd = _open(path)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(fd)
            if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                raise
            holder = _holder(path)
            # Between a holder's lock and its record (or its end) lie milliseconds: look again before blaming nobody.
            if (holder is None or not is_live(holder)) and time.monotonic() < until:
                time.sleep(0.02)
                continue
            raise _locked(path, holder) from error
        if _still_there(path, fd):
            _write(fd, record)
            return fd
        os.close(fd)


def _open(path: str) -> int:
    """Raises HostError lock-unusable: a link in its place, or a file that its owner closed to others."""
    try:
        return _open_or_make(path)
    except OSError as error:
        what = "the lock cannot be opened: %s" % error.strerror
        raise HostError("lock-unusable", what, where=path, try_="ls -l %s" % path) from error


def _open_or_make(path: str) -> int:
    """Without O_CREAT first: fs.protected_regular forbids O_CREAT on another user's file in a sticky folder."""
    while True:
        try:
            return os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            pass
        try:
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        except FileExistsError:
            continue
        os.fchmod(fd, 0o666)
        return fd


def _still_there(path: str, fd: int) -> bool:
    try:
        return os.stat(path).st_ino == os.fstat(fd).st_ino
    except FileNotFoundError:
        return False


def _write(fd: int, record: Json) -> None:
    os.ftruncate(fd, 0)
    os.pwrite(fd, json.dumps(record).encode("ascii"), 0)


def _release(fd: int) -> None:
    """Emptied, never unlinked: in a sticky folder only the owner could, and an unlinked lock can be held twice."""
    os.ftruncate(fd, 0)
    os.close(fd)


def _holder(path: str) -> Optional[Json]:
    record = read_json(path)
    return record if isinstance(record, dict) else None


def _locked(path: str, holder: Optional[Json]) -> HostError:
    who = holder or {}
    name = "%s (%s)" % (who.get("operator") or "somebody", who.get("laptop") or "unknown machine")
    what = "%s holds %s for `%s`" % (name, os.path.basename(path)[: -len(".json")], who.get("what") or "?")
    since = time.strftime("%H:%M:%S", time.localtime(who["since"])) if isinstance(who.get("since"), float) else "?"
    where = "%s, pid %s on the host, since %s" % (path, who.get("pid") or "?", since)
    return HostError("locked", what, where=where, try_="ask them, or wait until it is done", exit_code=9)


def live_locks() -> List[Json]:
    """Every lock whose holder lives: its record plus `name`."""
    try:
        folder = lock_folder()
        names = sorted(os.listdir(folder))
    except (OSError, HostError):
        return []
    found = [
        {"name": name[: -len(".json")], **record}
        for name in names
        for record in [_holder(os.path.join(folder, name))]
        if record
    ]
    return [record for record in found if is_live(record)]


def is_live(record: Json) -> bool:
    """Its boot is this one, and its pid with that start time lives."""
    return record.get("boot_id") == boot_id() and living(ident_from(record)) is not None
