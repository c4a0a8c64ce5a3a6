"""argv on this machine."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import IO

from sglfab.transports.base import Channel, ChannelIdle, ChannelLost
from sglfab.transports.lines import LineBuffer

_END_S, _DRAIN_S = 5.0, 0.5


class LocalTransport:
    """Programs on this machine, with the operator's environment, out of reach of the terminal's Ctrl-C."""

    label = "local"

    def __init__(self, *, end_s: float = _END_S) -> None:
        """end_s: how long a program may take to end by itself once its channel is closed."""
        self._end_s = end_s

    def open(self, argv: Sequence[str]) -> Channel:
        """Start argv (`~/` in argv[0] is the home). What cannot be started ends with 126 or 127, as in a shell."""
        try:
            return LocalChannel((os.path.expanduser(argv[0]), *argv[1:]), end_s=self._end_s)
        except OSError as why:
            status = 127 if isinstance(why, (FileNotFoundError, NotADirectoryError)) else 126
            return Unstarted(status, f"{argv[0]}: {why.strerror}")

    def close(self) -> None:
        """Nothing is kept open between programs."""


class Unstarted:
    """The channel of a program that could not be started."""

    def __init__(self, status: int, stderr: str) -> None:
        self._status, self._stderr = status, stderr

    def send(self, data: bytes) -> None:
        raise ChannelLost(self._stderr)

    def lines(self, *, idle_s: float) -> Iterator[bytes]:
        return iter(())

    def wait(self, *, timeout_s: float) -> int:
        return self._status

    def stderr_tail(self) -> str:
        return self._stderr

    def close(self) -> None:
        """There is nothing to close."""


class LocalChannel:
    """A child of ours in a session of its own: Ctrl-C in the terminal must not kill an operation half way."""

    def __init__(self, argv: Sequence[str], *, end_s: float) -> None:
        self._end_s = end_s
        # stderr in a file needs no reader: the child can never block on it.
        self._stderr: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 – lives as long as the channel
        self._buffer, self._reading, self._closed = LineBuffer(), threading.Lock(), False
        try:
            self._process = subprocess.Popen(
                argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._stderr,
                bufsize=0,
                start_new_session=True,
            )
        except BaseException:
            self._stderr.close()
            raise
        self._wake_out, self._wake_in = os.pipe()

    def send(self, data: bytes) -> None:
        assert self._process.stdin is not None
        view = memoryview(data)
        try:
            while view:
                view = view[self._process.stdin.write(view) :]
        except (OSError, ValueError) as why:
            raise ChannelLost(f"the program on this machine is gone: {why}") from None

    def lines(self, *, idle_s: float) -> Iterator[bytes]:
        return self._buffer.read(lambda: self._read(idle_s))

    def _read(self, idle_s: float) -> bytes:
        with self._reading:
            if self._closed:
                raise ChannelLost("the channel was closed on this side")
            assert self._process.stdout is not None
            out = self._process.stdout.fileno()
            ready, _, _ = select.select([out, self._wake_out], [], [], idle_s)
            if self._wake_out in ready:
                raise ChannelLost("the channel was closed on this side")
            if not ready:
                raise ChannelIdle(f"nothing came from this machine for {idle_s:g} s")
            return os.read(out, 65536)

    def wait(self, *, timeout_s: float) -> int:
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise ChannelIdle(f"the program did not end within {timeout_s:g} s") from None

    def stderr_tail(self) -> str:
        if self._stderr.closed:
            return ""
        # pread: the child shares the file's offset with us.
        size = os.fstat(self._stderr.fileno()).st_size
        return os.pread(self._stderr.fileno(), 4096, max(0, size - 4096)).decode("utf-8", "replace")

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        os.write(self._wake_in, b"x")
        try:
            self._end()
        finally:
            with self._reading:
                self._free()

    def _end(self) -> None:
        """Close stdin, let it end by itself, kill it when it does not."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        try:
            self._drain_until(time.monotonic() + min(_DRAIN_S, self._end_s))
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(self._end_s)
        finally:
            if self._process.poll() is None:
                self._process.kill()
                self._process.wait()

    def _drain_until(self, deadline: float) -> None:
        """Read on while it ends: a program that is blocked on a full pipe never sees that its stdin is closed.

        Who goes on writing after that writes into a closed pipe.
        """
        assert self._process.stdout is not None
        out = self._process.stdout
        with self._reading, out:
            while self._process.poll() is None and time.monotonic() < deadline:
                ready, _, _ = select.select([out], [], [], 0.05)
                if ready and not os.read(out.fileno(), 65536):
                    return

    def _free(self) -> None:
        self._stderr.close()
        os.close(self._wake_out)
        os.close(self._wake_in)


@dataclass(frozen=True)
class Output:
    """What a short program said. status 127: it is not installed."""

    status: int
    stdout: str
    stderr: str


def output(argv: Sequence[str], *, timeout_s: float) -> Output:
    """Run a program of the operator's machine that asks nothing and ends soon; status -1 when it does not."""
    channel = LocalTransport().open(argv)
    try:
        lines = [line.decode("utf-8", "replace") for line in channel.lines(idle_s=timeout_s)]
        return Output(channel.wait(timeout_s=timeout_s), "\n".join(lines), channel.stderr_tail())
    except ChannelIdle as why:
        return Output(-1, "", str(why))
    finally:
        channel.close()


class PipedProgram:
    """A shell command line whose stdin and stdout are one socket of ours: how OpenSSH runs a ProxyCommand.

    Out of reach of the terminal, so that it can neither be killed by Ctrl-C nor stop at a prompt.
    """

    def __init__(self, command: str) -> None:
        self.socket, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                ["/bin/sh", "-c", "exec " + command],
                stdin=theirs.fileno(),
                stdout=theirs.fileno(),
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )

    def close(self) -> None:
        self.socket.close()
        self._process.terminate()
        try:
            self._process.wait(1.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
