"""Chunks in, whole lines out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sglfab.transports.lines import LineBuffer


def fed(*chunks: bytes) -> list[bytes]:
    buffer = LineBuffer()
    found = []
    for chunk in chunks:
        buffer.feed(chunk)
        while (line := buffer.pop()) is not None:
            found.append(line)
    return found


CASES = [
    ("a line in one piece", [b"a\n"], [b"a"]),
    ("a line in three pieces", [b"a", b"b", b"c\n"], [b"abc"]),
    ("two lines in one piece", [b"a\nb\n"], [b"a", b"b"]),
    ("an empty line counts", [b"\n\n"], [b"", b""]),
    ("a carriage return is no end", [b"a\rb\r\n"], [b"a\rb\r"]),
    ("an unfinished line waits", [b"a\nb"], [b"a"]),
    ("the end finishes it", [b"a\nb", b""], [b"a", b"b"]),
    ("the end after a newline adds nothing", [b"a\n", b""], [b"a"]),
    ("nothing at all", [b""], []),
]


@pytest.mark.parametrize(("chunks", "lines"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_lines(chunks: list[bytes], lines: list[bytes]) -> None:
    assert fed(*chunks) == lines


@given(st.binary(), st.lists(st.integers(min_value=1, max_value=9)))
def test_however_it_is_cut_the_lines_are_the_same(text: bytes, cuts: list[int]) -> None:
    pieces, rest = [], text
    for cut in cuts:
        pieces.append(rest[:cut])
        rest = rest[cut:]
    whole = text.split(b"\n")
    assert fed(*[p for p in [*pieces, rest] if p], b"") == (whole[:-1] if whole[-1] == b"" else whole)
