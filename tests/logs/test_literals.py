"""The search for literal texts, with and without RE2: the same lines, whatever stood before."""

from __future__ import annotations

import pytest

from sglfab.logs.literals import Screen

ACCESS = b'10.0.0.%d:1 - "GET /v1/models HTTP/1.1" %d'
BLOCKS = {
    "lines that differ in their digits only": [
        ACCESS % (1, 200),
        ACCESS % (2, 401),
        ACCESS % (3, 200),
        ACCESS % (4, 401),
    ],
    "a text that shows only once the digits are gone": [b"fa7tal", b"fatal", b"fa.tal error"],
    "a digit at the border of a text": [b"p2p", b"pp", b"p3p", b"x p2p y"],
    "nothing to find": [b"layer 12 norm=0.5", b"layer 13 norm=0.7", b"", b"layer 14"],
    "blank lines and a long one": [b"", b"x" * 5000 + b"fatal", b"", b"x" * 5000, b"fatal"],
    "bytes that are no text": [b"\xff\xfe fatal \x00", b"\r\x1b[0m", b"\xc3"],
}
LITERALS = ('" 401', "fatal", "p2p")


@pytest.mark.parametrize("block", BLOCKS.values(), ids=BLOCKS.keys())
def test_exactly_the_lines_with_a_literal_are_found(block: list[bytes]) -> None:
    data = b"".join(line + b"\n" for line in block)
    wanted = [n for n, line in enumerate(block) if any(text.encode() in line for text in LITERALS)]
    for screen in (Screen(LITERALS, fast=True), Screen(LITERALS, fast=False)):
        for _ in range(2):  # what was learned the first time changes nothing
            assert [data.count(b"\n", 0, place) for place in screen.places(data, 0, len(data))] == wanted


def test_a_search_may_begin_and_end_at_any_line() -> None:
    lines = [ACCESS % (n, 401 if n % 7 == 0 else 200) for n in range(3000)]
    data = b"".join(line + b"\n" for line in lines)
    start, stop = data.index(b"\n", 20_000) + 1, data.index(b"\n", 120_000) + 1
    fast, plain = (list(Screen(LITERALS, fast=f).places(data, start, stop)) for f in (True, False))
    assert fast == plain
    assert fast
