"""Text of others, made harmless, and numbers in words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sglfab.report.consoles import answer_console, progress_console
from sglfab.report.durations import moment, spoken
from sglfab.report.printable import clean, cropped, one_line


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07rest", "rest"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("bell\x07 and nul\x00", "bell and nul"),
        ("\x9b31mC1", "31mC1"),
        ("cut escape \x1b[3", "cut escape "),
        ("right-to-left \u202eevil", "right-to-left evil"),
        ("no utf-8 \udcff", "no utf-8 �"),
    ],
    ids=["colour", "window title", "link", "bell", "8-bit escape", "cut escape", "bidi", "bytes"],
)
def test_made_harmless(text, shown):
    assert clean(text) == shown


@pytest.mark.parametrize("text", ["plain", "grün – 漢字 😀", "two\nlines", "[bold]markup[/bold]", "100 % of \\x1b[0m"])
def test_left_alone(text):
    assert clean(text) == text


@given(st.text(max_size=100))
def test_nothing_that_a_terminal_obeys_is_left(text):
    assert not [char for char in clean(text) if char != "\n" and (ord(char) < 32 or 127 <= ord(char) < 160)]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Loading:  10%\rLoading:  42%\r", "Loading:  42%"),
        ("a\nb", "a b"),
        ("", ""),
        ("\r\n", ""),
        ("windows line\r\n", "windows line"),
    ],
    ids=["a bar", "two lines", "empty", "only an end", "windows"],
)
def test_one_line(text, shown):
    assert one_line(text) == shown


@pytest.mark.parametrize(("limit", "shown"), [(10, "0123456789"), (100, "0123456789")])
def test_short_text_is_not_cropped(limit, shown):
    assert cropped("0123456789", limit) == shown


def test_cropped_text_says_how_much_is_missing():
    assert cropped("x" * 100, 36) == "x" * 20 + " … (+80 characters)"


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 s"),
        (-3, "0 s"),
        (0.84, "0.8 s"),
        (9.96, "10 s"),
        (59.4, "59 s"),
        (59.6, "1m00s"),
        (200, "3m20s"),
        (3599.6, "1h00m"),
        (3900, "1h05m"),
        (86399.7, "1d00h"),
        (183600, "2d03h"),
    ],
)
def test_durations(seconds, words):
    assert spoken(seconds) == words


@pytest.mark.parametrize(
    ("when", "words"),
    [(1_796_119_121.2, "2026-12-01 09:58"), ("2026-12-01T09:58:41.5+00:00", "2026-12-01 09:58"), (None, ""), ("", "")],
    ids=["unix", "iso", "none", "empty"],
)
def test_moments(when, words):
    assert moment(when) == words


@pytest.mark.parametrize("console", [answer_console, progress_console])
def test_forced_colours_do_not_make_a_pipe_a_terminal(console, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert console().is_terminal
    assert not console().is_interactive
