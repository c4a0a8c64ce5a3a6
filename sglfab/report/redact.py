"""Nothing secret leaves: known values in all their spellings, and whatever stands where a secret stands."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from sglfab.model import Json
from sglfab.report.secret_forms import written_forms
from sglfab.report.secret_names import holds_secret
from sglfab.report.secret_places import MASK, mask_by_place

__all__ = ["MASK", "Redactor"]


class Redactor:
    """Takes secrets out of text and JSON. Text may come in pieces split at line ends; twice is as good as once."""

    def __init__(self, secret_values: Iterable[str] = ()) -> None:
        self._forms: set[str] = set()
        self._known: re.Pattern[str] | None = None
        self.learn(secret_values)

    def learn(self, secret_values: Iterable[str]) -> None:
        """Know further values from here on, wherever this redactor is already in use."""
        self._forms.update(form for value in secret_values for form in written_forms(value))
        # Longest first, so that no spelling leaves the tail of a longer one behind.
        ordered = sorted(self._forms, key=len, reverse=True)
        self._known = re.compile("|".join(map(re.escape, ordered))) if ordered else None

    def text(self, text: str) -> str:
        """`text` with every secret replaced by `***`."""
        return mask_by_place(self._known.sub(MASK, text) if self._known else text)

    def value(self, value: Json) -> Json:
        """A JSON value with every secret replaced: in its strings, under secret names, after flags in an argv list."""
        match value:
            case str():
                return self.text(value)
            case Mapping():
                return {self.text(str(k)): self._named(str(k), v) for k, v in value.items()}
            case list() | tuple():
                return self._items(value)
        return value

    def _named(self, name: str, value: Json) -> Json:
        return MASK if isinstance(value, str) and holds_secret(name, value) else self.value(value)

    def _items(self, items: Iterable[Json]) -> list[Json]:
        done: list[Json] = []
        before = ""
        for item in items:
            done.append(self._named(before, item) if before.startswith("--") else self.value(item))
            before = item if isinstance(item, str) else ""
        return done
