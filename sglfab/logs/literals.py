"""Many literal texts looked for at once, as one regular expression or, where it is installed, with Hyperscan."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

try:
    import hyperscan as _hyperscan
except ImportError:  # the extra `fast` is not installed: the answers are the same, only later
    hyperscan: Any = None
else:
    hyperscan = _hyperscan


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
        self._pattern = re.compile(trie_pattern(self.literals).encode())
        self._database = _database(self.literals) if fast and hyperscan else None

    def holds(self, line: bytes) -> bool:
        return self._pattern.search(line) is not None

    def places(self, block: bytes, start: int, stop: int) -> Iterator[int]:
        """A place inside each line that holds a literal, ascending; at least one a line, from start on."""
        if self._database is None:
            yield from self._searched(block, start, stop)
            return
        found: list[int] = []
        self._database.scan(block[start:stop], match_event_handler=lambda _i, _f, end, _x, _c: found.append(end))
        found.sort()
        for end in found:
            yield start + end - 1

    def _searched(self, block: bytes, start: int, stop: int) -> Iterator[int]:
        while found := self._pattern.search(block, start, stop):
            yield found.start()
            start = block.find(b"\n", found.start(), stop) + 1
            if start == 0:
                return


def _database(literals: tuple[str, ...]) -> Any:
    database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
    expressions = [re.escape(literal).encode() for literal in literals]
    database.compile(expressions=expressions, flags=[0] * len(expressions))
    return database
