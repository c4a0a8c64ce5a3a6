"""Text of users inside the log: a logged request that goes on over several lines may hold any words, tracebacks too."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from sglfab.logs import records
from sglfab.logs.records import Record

_LONGEST = 400  # lines that one logged request may take
_CLOSERS = (")", "}", "]", '"', "'")


class Quotation:
    """Marks the lines that continue a logged request as such, until a line that a process printed by itself."""

    def __init__(self) -> None:
        self.left = 0

    def mark(self, found: Iterable[Record]) -> Iterator[Record]:
        for record in found:
            if record.kind == records.REQUEST:
                self.left = 0 if record.text.rstrip().endswith(_CLOSERS) else _LONGEST
            elif self.left and (record.prefixed or record.kind in (records.NATIVE, records.KERNEL, records.ACCESS)):
                self.left = 0
            elif self.left:
                self.left -= 1
                if record.text.rstrip().endswith(_CLOSERS) and _closes(record.text):
                    self.left = 0
                record = replace(record, kind=records.REQUEST)  # noqa: PLW2901  # the same line, seen as what it is
            yield record


def _closes(text: str) -> bool:
    """Whether a line ends the call or object that was logged, not only a bracket of the user's own text."""
    return text.rstrip().endswith(("')", '")', "})", "'}", '"}', "])", "}}", "None)", "False)", "True)"))
