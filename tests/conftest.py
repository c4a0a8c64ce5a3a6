"""For all tests: Ctrl-C reaches what they start, also where the runner itself was started with it ignored (`… &`)."""

from __future__ import annotations

import signal


def pytest_configure() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
