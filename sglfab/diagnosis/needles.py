"""Many literal texts looked for at once: a trie as one regular expression, so that most lines cost one search."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Needles(Generic[T]):
    """Which of many literals a text holds. A needle that lies inside another one is found too."""

    def __init__(self, entries: Iterable[tuple[str, T]]) -> None:
        self._by_needle: dict[str, list[T]] = {}
        for needle, value in entries:
            self._by_needle.setdefault(needle, []).append(value)
        self._search = re.compile(trie_pattern(self._by_needle)).search if self._by_needle else None

    @property
    def literals(self) -> tuple[str, ...]:
        return tuple(self._by_needle)

    def any_in(self, text: str) -> bool:
        return self._search is not None and self._search(text) is not None

    def in_text(self, text: str) -> Iterator[T]:
        """The values of every needle in the text, each once, in the order of the entries."""
        if self._search is None or self._search(text) is None:
            return
        seen: set[int] = set()
        for needle, values in self._by_needle.items():
            if needle in text:
                for value in values:
                    if id(value) not in seen:
                        seen.add(id(value))
                        yield value


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
