"""Who listens on a TCP port of this host."""

from __future__ import annotations

import errno
import os
import socket
from typing import Any, Dict, Iterable, List, Optional, Set, Tuple

from sglfab.hostside import sockdiag
from sglfab.hostside.processes import pids, shown, title, user_name, user_of
from sglfab.hostside.sockdiag import Listener

_LISTEN = "0A"


def listeners(port: int = 0) -> List[Listener]:
    """Every listening TCP socket of our network namespace, or those on one port."""
    return _known(port) or []


def _known(port: int) -> Optional[List[Listener]]:
    """None where neither the kernel's answer nor its table can be read."""
    found = sockdiag.listening(port)
    return table(port) if found is None else found


def table(port: int = 0) -> Optional[List[Listener]]:
    """The same from /proc/net/tcp, for a kernel without sock_diag; None where that cannot be read."""
    found, readable = [], False
    for path in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            with open(path, encoding="ascii") as file:
                found += [_listener(line.split()) for line in list(file)[1:] if line.split(None, 4)[3] == _LISTEN]
        except OSError:
            continue
        readable = True
    return [one for one in found if port in (0, one.port)] if readable else None


def _listener(fields: List[str]) -> Listener:
    address, port = fields[1].split(":")
    return Listener(inode=int(fields[9]), host=_host(address), port=int(port, 16), uid=int(fields[7]))


def _host(text: str) -> str:
    """The kernel prints addresses as 32-bit words in host byte order."""
    raw = b"".join(bytes.fromhex(text[i : i + 8])[::-1] for i in range(0, len(text), 8))
    return socket.inet_ntop(socket.AF_INET if len(raw) == 4 else socket.AF_INET6, raw)


def silent(port: int) -> bool:
    """Whether surely nobody listens there."""
    return _known(port) == []


def holders(inodes: Set[int], candidates: Optional[Iterable[int]] = None) -> Dict[int, int]:
    """pid → inode of those of `candidates` (default: all whose descriptors we may read) that hold such a socket."""
    wanted = {"socket:[%d]" % inode: inode for inode in inodes}
    found: Dict[int, int] = {}
    for pid in pids() if candidates is None else candidates:
        for link in _links(pid):
            if link in wanted:
                found[pid] = wanted[link]
                break
    return found


def ports_of(pid: int) -> List[int]:
    """The ports that the process listens on."""
    links = set(_links(pid))
    return sorted({listener.port for listener in listeners() if "socket:[%d]" % listener.inode in links})


def _links(pid: int) -> List[str]:
    folder = "/proc/%d/fd" % pid
    try:
        names = os.listdir(folder)
    except OSError:
        return []
    found = []
    for name in names:
        try:
            found.append(os.readlink(folder + "/" + name))
        except OSError:
            continue
    return found


def owner(port: int) -> Optional[Dict[str, Any]]:
    """{"pid","cmdline","user"} of the holder, pid None if another user's descriptors are closed to us; None: free."""
    found = listeners(port)
    if not found:
        return None
    pids_ = sorted(holders({listener.inode for listener in found}))
    if not pids_:
        return {"pid": None, "cmdline": None, "user": user_name(found[0].uid)}
    return {"pid": pids_[0], "cmdline": shown(title(pids_[0])), "user": user_of(pids_[0])}


def can_bind(host: str, port: int) -> Tuple[bool, Optional[str]]:
    """(could a server bind there, the reason why not); TIME_WAIT leftovers do not count, as for uvicorn."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port))
            probe.listen(1)
    except OSError as error:
        return False, None if error.errno == errno.EADDRINUSE else str(error.strerror or error)
    return True, None


def loopback(http_host: Optional[str]) -> str:
    """The address to probe a server on that was told to bind `http_host`."""
    if http_host in (None, "", "0.0.0.0", "localhost"):
        return "127.0.0.1"
    return "::1" if http_host == "::" else str(http_host)
