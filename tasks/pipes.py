"""What the operator's pipes and signals do to us: `| head`, `>&-`, a SIGTERM."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


def open_streams() -> None:
    """Closed streams (`>&-`) swallow what is written, so that nobody has to ask whether they are there."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - as long as the process


def end_quietly_without_reader() -> None:
    """For Invoke's own lists and help, which know no broken pipe: end as `ls` does."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)


def deliver(write: Callable[[], None]) -> None:
    """Write an answer. That its reader went away (`| head`) changes nothing else: the exit code stays the answer's."""
    try:
        write()
        sys.stdout.flush()
    except BrokenPipeError:
        forget_reader()


def forget_reader() -> None:
    """What is still buffered goes nowhere: else Python would complain about it at its end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


@contextmanager
def sigterm_interrupts() -> Iterator[None]:
    """SIGTERM (of a CI job that is cancelled, `timeout`, `kill`) ends a task as Ctrl-C does: the terminal is restored,
    the line to resume is printed, the server untouched."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    if signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:  # somebody else's handler: a team's program
        yield
        return
    signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
