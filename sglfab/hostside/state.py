"""The state folder on the host, and the only ways in which we write into it."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import socket
import tempfile
from typing import Any, Dict, Optional

from sglfab.hostside.failure import HostError

FULL_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def machine_id() -> str:
    """/etc/machine-id, else one made of the host name: homes are often shared between hosts, state must not be."""
    for path in ("/etc/machine-id", "/var/lib/dbus/machine-id"):
        try:
            with open(path, encoding="ascii", errors="replace") as file:
                text = file.read().strip()
        except OSError:
            continue
        if text:
            return text
    return "host-" + hashlib.sha256(socket.gethostname().encode()).hexdigest()[:24]


def state_dir(request: Dict[str, Any]) -> str:
    """The request's `state_dir`, else $SGLFAB_STATE_DIR, else ~/.sglfab/<machine-id>; absolute, not created.

    Raises HostError for a relative one: it would be another folder for each folder that `fab` is called in.
    """
    given = request.get("state_dir") or os.environ.get("SGLFAB_STATE_DIR") or os.path.join("~", ".sglfab", machine_id())
    path = os.path.expanduser(given)
    if not os.path.isabs(path):
        what = "the state folder is no absolute path"
        raise HostError("state-dir-unusable", what, where=given, try_="SGLFAB_STATE_DIR=/a/folder/of/your/own")
    return os.path.abspath(path)


def private_dir(path: str) -> str:
    """Make the folder and its missing parents, 0700."""
    try:
        os.makedirs(path, mode=0o700, exist_ok=True)
    except OSError as error:
        raise refused(error, path) from error
    return path


def refused(error: OSError, path: str) -> HostError:
    """The error for a part of the state folder that cannot be made."""
    if error.errno in FULL_DISK:
        return disk_full(path)
    what = "the state folder cannot be made: %s" % error.strerror
    return HostError("state-dir-unusable", what, where=path, try_="set SGLFAB_STATE_DIR to a folder of your own")


def disk_full(path: str) -> HostError:
    return HostError("disk-full", "no space left on the host", where=path, try_="df -h %s" % path)


def write_atomic(path: str, data: bytes, mode: int = 0o600) -> None:
    """Replace the file as a whole or not at all. Raises OSError, with nothing left behind."""
    fd, temporary = tempfile.mkstemp(prefix=".new-", dir=os.path.dirname(path))
    try:
        with os.fdopen(fd, "wb") as file:
            os.fchmod(fd, mode)
            file.write(data)
            file.flush()
            os.fsync(fd)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
    sync_dir(os.path.dirname(path))


def sync_dir(path: str) -> None:
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    except OSError:
        pass  # some network file systems cannot sync a folder; the file itself is synced
    finally:
        os.close(fd)


def write_json(path: str, value: Any, mode: int = 0o600) -> None:
    write_atomic(path, json.dumps(value, indent=1).encode("ascii") + b"\n", mode)


def read_json(path: str, max_bytes: int = 16 << 20) -> Optional[Any]:
    """The value, or None where the file is missing, unreadable, too large or no JSON."""
    try:
        with open(path, "rb") as file:
            data = file.read(max_bytes + 1)
        return json.loads(data.decode("utf-8", "surrogateescape")) if len(data) <= max_bytes else None
    except (OSError, ValueError):
        return None


def free_mb(path: str) -> Optional[int]:
    """Free MiB for us on the file system that holds or would hold the path."""
    while not os.path.exists(path) and path != "/":
        path = os.path.dirname(path)
    try:
        stats = os.statvfs(path)
    except OSError:
        return None
    return stats.f_bavail * stats.f_frsize >> 20


def folder_bytes(folder: str) -> int:
    """What the files of a folder hold."""
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(os.path.join(parent, name)).st_size
            except OSError:
                continue
    return total
