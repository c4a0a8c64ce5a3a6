"""Values by the literal texts that lead to them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

from sglfab.logs.literals import trie_pattern

T = TypeVar("T")


class Needles(Generic[T]):
    """Which values have a needle in a text. A needle that lies inside another one is found too."""

    def __init__(self, entries: Iterable[tuple[str, T]]) -> None:
        self._by_needle: dict[str, list[T]] = {}
        for needle, value in entries:
            self._by_needle.setdefault(needle, []).append(value)
        self._search = re.compile(trie_pattern(self._by_needle)).search if self._by_needle else None

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
