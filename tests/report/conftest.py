"""A console whose output is read, a clock that the test owns, and pages to compare with."""

from __future__ import annotations

import io
import os
import re
from pathlib import Path

import pytest
from rich.console import Console

PAGES = Path(__file__).parent / "pages"


class OwnClock:
    """Time goes on when the test says so. Wall time is the monotonic time plus a fixed moment."""

    def __init__(self) -> None:
        self.at_s = 0.0

    def now_s(self) -> float:
        return self.at_s

    def wall_s(self) -> float:
        return 1_796_119_121.0 + self.at_s

    def sleep(self, seconds: float) -> None:
        self.at_s += seconds


class Screen:
    """A console into memory, and what stands on it."""

    def __init__(self, *, terminal: bool, width: int = 80, height: int = 24, encoding: str = "utf-8") -> None:
        self._raw = io.BytesIO()
        self._file = io.TextIOWrapper(self._raw, encoding=encoding, write_through=True, newline="\n")
        self.console = Console(
            file=self._file,
            force_terminal=terminal,
            color_system="truecolor" if terminal else None,
            width=width,
            height=height,
            highlight=False,
            markup=False,
            emoji=False,
            _environ={},
        )
        self._encoding = encoding

    @property
    def text(self) -> str:
        self._file.flush()
        return self._raw.getvalue().decode(self._encoding)

    @property
    def plain(self) -> str:
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self.text)


@pytest.fixture
def clock() -> OwnClock:
    return OwnClock()


@pytest.fixture
def new_screen() -> type[Screen]:
    return Screen


@pytest.fixture
def terminal() -> Screen:
    return Screen(terminal=True)


@pytest.fixture
def pipe() -> Screen:
    return Screen(terminal=False)


@pytest.fixture(autouse=True)
def _same_everywhere(monkeypatch):
    """UTC, and nothing of the terminal that the tests themselves run in."""
    import time

    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.fixture
def same_page():
    """Compare with pages/NAME.txt; SGLFAB_WRITE_PAGES=1 writes it anew, to be read before it is committed."""

    def compare(name: str, text: str) -> None:
        page = PAGES / f"{name}.txt"
        if os.environ.get("SGLFAB_WRITE_PAGES"):
            page.parent.mkdir(exist_ok=True)
            page.write_text(text, encoding="utf-8")
        assert text == page.read_text(encoding="utf-8")

    return compare
