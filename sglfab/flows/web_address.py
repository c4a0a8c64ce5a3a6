"""What stands behind `--url`: whether it is an address at all, and whether anybody listens on one of this machine."""

from __future__ import annotations

import errno
import ipaddress
import re
import socket
from typing import Any
from urllib.parse import urlsplit

from sglfab.errors import InputError

CONNECT_S = 5.0


def checked_url(url: str) -> str:
    """scheme://host[:port] without a trailing slash or path. Raises InputError bad-url."""
    try:
        parts = urlsplit(url if "//" in url else "http://" + url)
        known = parts.scheme in ("http", "https") and parts.port != 0 and _names_a_host(parts.hostname or "")
    except ValueError:  # a port that is none, brackets that do not close
        known = False
    if not known:
        what = f"not an HTTP address: {url!r}"
        raise InputError("bad-url", what, where="--url", try_="--url http://127.0.0.1:30000")
    return f"{parts.scheme}://{parts.netloc}"


def without_user(base: str) -> str:
    """The address without the name and password before its @, which are no part of a verdict nor of a record."""
    parts = urlsplit(base)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def _names_a_host(name: str) -> bool:
    """A number alone would be taken for an IPv4 address: whoever types `--url 30000` means a port."""
    if name.isdecimal():
        return False
    try:
        ipaddress.ip_address(name.partition("%")[0])
        return True
    except ValueError:
        pass
    try:
        plain = name.encode("idna").decode("ascii")
    except UnicodeError:
        return False
    return bool(re.fullmatch(r"[\w.-]+", plain))


def is_loopback(base: str) -> bool:
    host = urlsplit(base).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def silent(base: str) -> bool:
    """Whether surely nobody listens on an address of this machine.

    Asked from a port that is not the one asked for. A connection from a port to itself succeeds where nobody listens;
    asked often enough, one whose own port the kernel picks would reach itself, and keep the server from binding.
    """
    parts = urlsplit(base)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        found = socket.getaddrinfo(parts.hostname, port, type=socket.SOCK_STREAM)
    except OSError:
        return False
    return all(_refuses(family, address) for family, _, _, _, address in found)


def _refuses(family: int, address: tuple[Any, ...]) -> bool:
    try:
        with _another_port(family, address) as probe:
            probe.connect(address)
    except ConnectionRefusedError:
        return True
    except OSError as why:  # a machine without IPv6 still calls ::1 localhost
        return why.errno in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)
    return False


def _another_port(family: int, address: tuple[Any, ...]) -> socket.socket:
    """A socket bound to any port but that of the address; it keeps no server from binding its own."""
    probe = socket.socket(family, socket.SOCK_STREAM)
    probe.settimeout(CONNECT_S)
    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    probe.bind((address[0], 0))
    if probe.getsockname()[1] != address[1]:
        return probe
    with probe:
        return _another_port(family, address)
