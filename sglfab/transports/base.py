"""The one interface through which argv reaches a host."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from sglfab.errors import UnreachableError


class ChannelLost(UnreachableError):
    """The pipe to the host broke (network, killed sshd …). What ran there may live on: its state is unknown."""

    def __init__(self, what: str, *, where: str = "") -> None:
        try_ = "run the command again; `fab status` tells what runs there"
        super().__init__("connection-lost", what, where=where, try_=try_)


class ChannelIdle(UnreachableError):
    """Nothing came for as long as the caller allowed."""

    def __init__(self, what: str, *, where: str = "") -> None:
        try_ = "look at the load of the host, then run the command again"
        super().__init__("host-silent", what, where=where, try_=try_)


class Channel(Protocol):
    """One running program on a host. Closing it closes its stdin, at which every program of ours ends."""

    def send(self, data: bytes) -> None: ...

    def lines(self, *, idle_s: float) -> Iterator[bytes]:
        """Lines of stdout without the newline, until EOF. Raises ChannelIdle, ChannelLost."""
        ...

    def wait(self, *, timeout_s: float) -> int:
        """The exit status. Raises ChannelIdle, ChannelLost."""
        ...

    def stderr_tail(self) -> str:
        """At most the last 4 KiB of stderr so far."""
        ...

    def close(self) -> None:
        """Close stdin and the channel; never raises; a local program that does not end within 5 s is killed."""
        ...


class Transport(Protocol):
    """How argv gets to one host."""

    label: str  # "local", or the host as the operator named it

    def open(self, argv: Sequence[str]) -> Channel:
        """Start argv. Raises UnreachableError with a code that tells why (host-key-mismatch, auth-failed, …)."""
        ...

    def close(self) -> None: ...
