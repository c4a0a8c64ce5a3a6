"""argv on a host, over SSH."""

from __future__ import annotations

import contextlib
import logging
import shlex
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import fabric
import paramiko

from sglfab.errors import UnreachableError
from sglfab.transports.base import Channel, ChannelIdle, ChannelLost
from sglfab.transports.lines import LineBuffer
from sglfab.transports.ssh_address import Address, parse_address
from sglfab.transports.ssh_connection import CHANNEL_S, ConnectFailed, Link, Route, connect_link, plan_route
from sglfab.transports.ssh_errors import explained
from sglfab.transports.ssh_features import Note
from sglfab.transports.ssh_pulse import Pulse

_END_S, _DRAIN_S, _SLICE_S, _SEND_S = 5.0, 0.5, 1.0, 60.0
_MOST_CONNECTIONS = 4  # for hosts whose MaxSessions is small


def connect(host_string: str, config: Any = None, *, label: str | None = None) -> SshTransport:
    """The transport to `[user@]host[:port]`; nothing is contacted before the first `open`.

    config: the fabric (or invoke) Config of the task: `-i`, `-S`, `-t` and the prompted passwords are in it.
    label: how the operator named the host; default host_string. Raises InputError for a bad name or ssh config.
    """
    # Without a handler Python's last resort prints paramiko's own tracebacks on the operator's screen.
    logging.getLogger("paramiko").addHandler(logging.NullHandler())
    config = _fabric_config(config)
    return SshTransport(plan_route(parse_address(host_string), config), config, label=label or host_string)


def from_connection(connection: fabric.Connection) -> SshTransport:
    """The transport to the host of a Connection that Fabric made (`fab -H`), as `connect` would reach it."""
    config, ssh_config = connection.config, connection.ssh_config
    user = connection.user if connection.user != ssh_config.get("user", config.user) else None
    port = connection.port if connection.port != int(ssh_config.get("port", config.port)) else None
    return connect(str(Address(connection.original_host, user, port)), config, label=connection.original_host)


def _fabric_config(config: Any) -> fabric.Config:
    if config is None:
        return fabric.Config()
    return config if isinstance(config, fabric.Config) else config.clone(into=fabric.Config)


class SshTransport:
    """One host over SSH: connected at the first `open`, and again at the first one after a loss."""

    def __init__(
        self, route: Route, config: fabric.Config, *, label: str, pulse: Callable[[Any], Pulse] = Pulse
    ) -> None:
        self.label, self._route, self._config, self._pulse = label, route, config, pulse
        self._lock = threading.Lock()
        self._lines: list[tuple[Link, Pulse]] = []

    @property
    def notes(self) -> tuple[Note, ...]:
        """What the operator's ssh config asks for and does not get."""
        return self._route.notes

    def open(self, argv: Sequence[str]) -> Channel:
        """Run argv through the login shell (`~/` in argv[0] is the home there). Raises UnreachableError, InputError."""
        channel, pulse = self._session()
        try:
            channel.exec_command(command_line(argv))
        except (paramiko.SSHException, OSError, EOFError) as why:
            channel.close()
            raise ChannelLost(str(why) if pulse.alive else pulse.why(), where=self.label) from None
        return SshChannel(channel, pulse, where=self.label)

    def _session(self) -> tuple[paramiko.Channel, Pulse]:
        """A channel on one of our connections, or on a further one when the host allows no more on those."""
        with self._lock:
            self._drop_dead()
            for link, pulse in self._lines:
                channel = _try_session(link)
                if channel is not None:
                    return channel, pulse
            if len(self._lines) == _MOST_CONNECTIONS:
                raise UnreachableError(
                    "ssh-no-session",
                    f"{self.label} takes no further session",
                    where=self.label,
                    try_="MaxSessions in its sshd_config",
                )
            link, pulse = self._connect()
            channel = _try_session(link)
        if channel is None:
            raise UnreachableError("ssh-no-session", f"{self.label} opens no session", where=self.label, try_="ssh -v")
        return channel, pulse

    def _drop_dead(self) -> None:
        dead = [line for line in self._lines if not line[1].alive]
        self._lines = [line for line in self._lines if line[1].alive]
        for link, _ in dead:
            link.close()

    def _connect(self) -> tuple[Link, Pulse]:
        try:
            link = connect_link(self._route, self._config)
        except ConnectFailed as failed:
            error = explained(failed.error, failed.route)
            if failed.route.address != self._route.address:
                error.where += f", on the way to {self.label}"
            raise error from None
        line = (link, self._pulse(link.connection.transport))
        self._lines.append(line)
        return line

    def close(self) -> None:
        """Drop every connection; channels that are still open on them end as lost."""
        with self._lock:
            lines, self._lines = self._lines, []
        for link, pulse in lines:
            pulse.stop()
            link.close()


def _try_session(link: Link) -> paramiko.Channel | None:
    try:
        return link.connection.transport.open_session(timeout=CHANNEL_S)
    except (paramiko.SSHException, OSError, EOFError):
        return None


def command_line(argv: Sequence[str]) -> str:
    """argv for any login shell. Only a leading `~/` stays open to the shell: it is the host's home."""
    program, *rest = argv
    quoted = "~/" + shlex.quote(program[2:]) if program.startswith("~/") else shlex.quote(program)
    return " ".join([quoted, *map(shlex.quote, rest)])


class SshChannel:
    """One remote program: binary, no terminal."""

    def __init__(self, channel: paramiko.Channel, pulse: Pulse, *, where: str) -> None:
        self._channel, self._pulse, self._where = channel, pulse, where
        self._buffer, self._stderr, self._closed = LineBuffer(), b"", False

    def send(self, data: bytes) -> None:
        self._channel.settimeout(_SEND_S)
        try:
            self._channel.sendall(data)
        except TimeoutError:
            raise ChannelIdle(f"the host took no data for {_SEND_S:g} s", where=self._where) from None
        except OSError as why:
            raise self._lost(str(why)) from None

    def lines(self, *, idle_s: float) -> Iterator[bytes]:
        return self._buffer.read(lambda: self._read(idle_s))

    def _read(self, idle_s: float) -> bytes:
        """The next bytes of stdout; b"" only when the program closed it."""
        deadline = time.monotonic() + idle_s
        while True:
            data = self._receive(min(_SLICE_S, max(0.001, deadline - time.monotonic())))
            if data:
                return data
            if data is not None:
                return self._end()
            if time.monotonic() >= deadline:
                raise ChannelIdle(f"nothing came for {idle_s:g} s", where=self._where)

    def _receive(self, timeout_s: float) -> bytes | None:
        self._keep_stderr()
        self._channel.settimeout(timeout_s)
        try:
            data: bytes = self._channel.recv(65536)
        except TimeoutError:
            return None
        except OSError as why:
            raise self._lost(str(why)) from None
        return data

    def _end(self) -> bytes:
        """b"" for the end of a program, ChannelLost where paramiko's end of file is that of the connection."""
        if self._closed:
            raise ChannelLost("the channel was closed on this side", where=self._where)
        self.wait(timeout_s=_END_S)
        return b""

    def wait(self, *, timeout_s: float) -> int:
        deadline = time.monotonic() + timeout_s
        while not self._channel.status_event.wait(min(_SLICE_S, max(0.0, deadline - time.monotonic()))):
            if time.monotonic() >= deadline:
                raise ChannelIdle(f"the program did not end within {timeout_s:g} s", where=self._where)
        self._keep_stderr()
        status: int = self._channel.exit_status
        if status < 0:
            raise self._lost("the program on the host was killed" if self._pulse.alive else self._pulse.why())
        return status

    def _lost(self, why: str) -> ChannelLost:
        return ChannelLost(why, where=self._where)

    def _keep_stderr(self) -> None:
        while self._channel.recv_stderr_ready():
            data = self._channel.recv_stderr(65536)
            if not data:
                return
            self._stderr = (self._stderr + data)[-4096:]

    def stderr_tail(self) -> str:
        self._keep_stderr()
        return self._stderr.decode("utf-8", "replace")

    def close(self) -> None:
        """Close stdin, give the program a moment to end (it may hold a lock that the next call wants), close."""
        if self._closed:
            return
        self._closed = True
        with contextlib.suppress(OSError, EOFError, paramiko.SSHException):
            self._channel.shutdown_write()
            self._drain_until(time.monotonic() + _END_S)
        with contextlib.suppress(OSError, EOFError, paramiko.SSHException):
            self._channel.close()

    def _drain_until(self, deadline: float) -> None:
        """Read on while it ends: a program that is blocked on a full window never sees that its stdin is closed.

        Who goes on writing for longer writes into a closed channel.
        """
        patience = time.monotonic() + _DRAIN_S
        self._channel.settimeout(0.1)
        while not self._channel.exit_status_ready() and time.monotonic() < deadline and self._pulse.alive:
            with contextlib.suppress(TimeoutError):
                if not self._channel.recv(65536):
                    self._channel.status_event.wait(max(0.0, deadline - time.monotonic()))
                    return
                if time.monotonic() > patience:
                    return
