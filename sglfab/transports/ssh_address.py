"""Host as the operator names it: `[user@]host[:port]`, `ssh://…`, or an IPv6 address in brackets."""

from __future__ import annotations

import re
from dataclasses import dataclass

from sglfab.errors import InputError

_HOST = re.compile(r"[A-Za-z0-9_:][^\s@/\\'\"`$;&|<>()\[\]]*")


@dataclass(frozen=True)
class Address:
    """user and port are None where the operator left them to the ssh config."""

    host: str
    user: str | None = None
    port: int | None = None

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host and self.port else self.host
        return f"{self.user + '@' if self.user else ''}{host}{f':{self.port}' if self.port else ''}"


def parse_address(text: str) -> Address:
    """Raises InputError `bad-host`: a name that starts with a dash would be an option of ssh."""
    user, _, rest = text.removeprefix("ssh://").rstrip("/").rpartition("@")
    host, port = _split_port(rest)
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    if not _HOST.fullmatch(host) or (port and not _is_port(port)) or user.startswith("-"):
        raise InputError("bad-host", f"{text!r} names no host", where="-H / hosts:", try_="[user@]host[:port]")
    return Address(host, user or None, int(port) if port else None)


def _split_port(text: str) -> tuple[str, str]:
    if text.startswith("[") or text.count(":") == 1:
        host, colon, port = text.rpartition(":")
        if colon and not port.endswith("]"):
            return host, port or "none"
    return text, ""


def _is_port(text: str) -> bool:
    return text.isascii() and text.isdigit() and 0 < int(text) < 65536
