"""Many literal texts looked for at once: with RE2 where it is installed, else as one regular expression of Python's."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import Any

try:
    import re2 as _re2
except ImportError:  # the extra `fast` is not installed: the answers are the same, only later
    re2: Any = None
else:
    re2 = _re2


_VARYING = b"0123456789."  # what differs between two lines of one statement
_WINDOW = 1 << 16  # bytes: a reader that stops in a block has not looked much further
_SHAPES, _SHAPE = 1 << 12, 400  # how many are remembered, and of how many bytes at most


def trie_pattern(literals: Iterable[str]) -> str:
    """A regular expression that finds a place where any of the literals begins; common beginnings are tried once."""
    root: dict[str, Any] = {}
    for literal in literals:
        node = root
        for char in literal:
            if "" in node:
                break  # a shorter literal already tells
            node = node.setdefault(char, {})
        else:
            node.clear()
            node[""] = True
    return _render(root)


def _render(node: dict[str, Any]) -> str:
    if "" in node:
        return ""
    branches = [re.escape(char) + _render(below) for char, below in sorted(node.items())]
    return branches[0] if len(branches) == 1 else "(?:" + "|".join(branches) + ")"


def without_supersets(literals: Iterable[str]) -> tuple[str, ...]:
    """Only the literals that hold no other one: where the longer one stands, the shorter one stands too."""
    kept: list[str] = []
    for literal in sorted(set(literals), key=len):
        if not any(other in literal for other in kept):
            kept.append(literal)
    return tuple(kept)


class Shapes:
    """Lines without their digits: all that one statement of a program prints have one shape, which is searched once."""

    def __init__(self, literals: Iterable[str]) -> None:
        bare = [literal.encode().translate(None, _VARYING).decode() for literal in literals]
        self._search = _plain(bare).search
        self._clean: set[bytes] = set()
        self._foul: set[bytes] = set()

    def doubtful(self, block: bytes, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """The lines of complete lines block[start:stop] whose shape may hold a literal, as places of the block."""
        while start < stop:
            end = (
                block.rfind(b"\n", start, min(start + _WINDOW, stop)) + 1 or block.find(b"\n", start, stop) + 1 or stop
            )
            piece = block[start:end]
            lines, clean = piece.split(b"\n"), self._clean
            shapes = piece.translate(None, _VARYING).split(b"\n")
            ends = list(accumulate(map(len, lines)))
            for n in [n for n, shape in enumerate(shapes) if shape not in clean]:
                if self._may_hold(shapes[n]):
                    last = start + ends[n] + n
                    yield last - len(lines[n]), last
            start = end

    def _may_hold(self, shape: bytes) -> bool:
        if shape in self._foul:
            return True
        known = self._clean if self._search(shape) is None else self._foul
        if len(known) < _SHAPES and len(shape) <= _SHAPE:
            known.add(shape)
        return known is self._foul


class Screen:
    """Which lines of a block hold any of the literals."""

    def __init__(self, literals: Iterable[str], *, fast: bool = True) -> None:
        self.literals = without_supersets(literals)
        self.matcher = "re2" if fast and re2 else "re"
        self._search = (_fast(self.literals) if self.matcher == "re2" else _plain(self.literals)).search
        self._shapes = None if self.matcher == "re2" else Shapes(self.literals)

    def holds(self, line: bytes) -> bool:
        return self._search(line) is not None

    def places(self, block: bytes, start: int, stop: int) -> Iterator[int]:
        """A place inside each line that holds a literal, ascending, one a line, from start on."""
        if self._shapes is None:
            yield from self._searched(block, start, stop)
            return
        for begin, end in self._shapes.doubtful(block, start, stop):
            if found := self._search(block, begin, end):
                yield found.start()

    def _searched(self, block: bytes, start: int, stop: int) -> Iterator[int]:
        while found := self._search(block, start, stop):
            place: int = found.start()
            yield place
            start = block.find(b"\n", place, stop) + 1
            if start == 0:
                return


def _plain(literals: Iterable[str]) -> Any:
    return re.compile(trie_pattern(literals).encode())


def _fast(literals: tuple[str, ...]) -> Any:
    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1  # bytes, not characters
    return re2.compile("|".join(map(re.escape, literals)).encode(), options)
