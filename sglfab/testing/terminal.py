"""A pseudo-terminal with a program in it, as an operator sits in front of it."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import subprocess
import termios
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

CONTROL = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07]*\x07|\r")
CTRL_C = b"\x03"


class Terminal:
    """Runs argv as the foreground job of a terminal of its own. `screen` is what it printed, without control codes."""

    def __init__(self, argv: Sequence[str], *, cwd: Path, env: Mapping[str, str]) -> None:
        self._master, self._slave = pty.openpty()
        self.before = self.settings()
        self._raw = b""
        self.process = subprocess.Popen(
            argv,
            cwd=cwd,
            env={**env, "TERM": "xterm-256color", "COLUMNS": "120", "LINES": "40"},
            stdin=self._slave,
            stdout=self._slave,
            stderr=self._slave,
            start_new_session=True,
            preexec_fn=self._take_terminal,  # noqa: PLW1509 – the child must make the terminal its own before exec
        )

    @staticmethod
    def _take_terminal() -> None:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    def settings(self) -> list[object]:
        """What `stty -a` shows."""
        return termios.tcgetattr(self._slave)

    @property
    def raw(self) -> bytes:
        return self._raw

    @property
    def screen(self) -> str:
        return CONTROL.sub(b"", self._raw).decode("utf-8", "replace")

    def cursor_visible(self) -> bool:
        """Whether the last word about the cursor was to show it."""
        return self._raw.rfind(b"\x1b[?25h") >= self._raw.rfind(b"\x1b[?25l")

    def _pump(self, timeout_s: float) -> None:
        ready, _, _ = select.select([self._master], [], [], timeout_s)
        if ready:
            self._raw += os.read(self._master, 65536)

    def until(self, text: str, *, within_s: float = 30) -> None:
        """Read on until the screen has shown the text."""
        end = time.monotonic() + within_s
        while text not in self.screen:
            if time.monotonic() > end or (self.process.poll() is not None and not self._readable()):
                raise AssertionError(f"never shown: {text!r}; the screen:\n{self.screen}")
            self._pump(0.1)

    def _readable(self) -> bool:
        return bool(select.select([self._master], [], [], 0)[0])

    def type(self, keys: bytes) -> None:
        os.write(self._master, keys)

    def ctrl_c(self) -> None:
        """The key itself: the terminal sends SIGINT to its foreground group."""
        self.type(CTRL_C)

    def end(self, *, within_s: float = 30) -> int:
        """Read on until the program ended; its exit status."""
        limit = time.monotonic() + within_s
        while self.process.poll() is None:
            if time.monotonic() > limit:
                raise AssertionError(f"still running; the screen:\n{self.screen}")
            self._pump(0.05)
        while self._readable():
            self._pump(0)
        return self.process.returncode

    def __enter__(self) -> Terminal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(10)
        os.close(self._master)
        os.close(self._slave)
