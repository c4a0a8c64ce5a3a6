"""Many literal texts looked for at once: with RE2 where it is installed, else as one regular expression of Python's."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

try:
    import re2 as _re2
except ImportError:  # the extra `fast` is not installed: the answers are the same, only later
    re2: Any = None
else:
    re2 = _re2


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


class Screen:
    """Which lines of a block hold any of the literals."""

    def __init__(self, literals: Iterable[str], *, fast: bool = True) -> None:
        self.literals = without_supersets(literals)
        self.matcher = "re2" if fast and re2 else "re"
        self._search = (_fast(self.literals) if self.matcher == "re2" else _plain(self.literals)).search

    def holds(self, line: bytes) -> bool:
        return self._search(line) is not None

    def places(self, block: bytes, start: int, stop: int) -> Iterator[int]:
        """A place inside each line that holds a literal, ascending, one a line, from start on."""
        while found := self._search(block, start, stop):
            place: int = found.start()
            yield place
            start = block.find(b"\n", place, stop) + 1
            if start == 0:
                return


def _plain(literals: tuple[str, ...]) -> Any:
    return re.compile(trie_pattern(literals).encode())


def _fast(literals: tuple[str, ...]) -> Any:
    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1  # bytes, not characters
    return re2.compile("|".join(map(re.escape, literals)).encode(), options)
