"""tqdm bars: how far a rank says that it is."""

from __future__ import annotations

import re
from dataclasses import dataclass

_BAR = re.compile(
    r"(?P<desc>[^%|\r]*?):?\s*(?P<pct>\d{1,3})%(?: Completed)? ?\|[^|\[]*?\|?\s*"
    r"(?P<done>\d+(?:\.\d+)?[kMGT]?i?B?)/(?P<total>\d+(?:\.\d+)?[kMGT]?i?B?) \[(?P<took>[\d:?]+)(?:<(?P<left>[\d:?]+))?"
)
_UNITS = {"k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}


@dataclass(frozen=True)
class Bar:
    """One state of a bar; took_s and left_s as tqdm estimates them (left_s lies: the first item may take most)."""

    desc: str
    done: float
    total: float
    took_s: float | None
    left_s: float | None

    @property
    def progress(self) -> float:
        return min(1.0, self.done / self.total) if self.total else 0.0


def parse(text: str) -> Bar | None:
    """The last bar in a piece of text, or None."""
    if "%" not in text:
        return None
    bars = list(_BAR.finditer(text))
    if not bars:
        return None
    found = bars[-1]
    return Bar(
        found["desc"].strip(),
        _number(found["done"]),
        _number(found["total"]),
        _clock(found["took"]),
        _clock(found["left"]),
    )


def _number(text: str) -> float:
    digits = text.rstrip("kMGTiB")
    return float(digits) * _UNITS.get(text[len(digits) : len(digits) + 1], 1.0)


def _clock(text: str | None) -> float | None:
    if not text or "?" in text:
        return None
    seconds = 0.0
    for part in text.split(":"):
        seconds = seconds * 60 + float(part or 0)
    return seconds
