"""Bytes of a log → the last run in it."""

from __future__ import annotations

import copy

from sglfab.diagnosis.catalogue import Catalogue
from sglfab.diagnosis.run import Run, begins
from sglfab.logs import bars, records
from sglfab.logs.envelope import Unwrapper
from sglfab.logs.lines import LineSplitter


class LogFold:
    """Feed chunks; `run` is the last run, `earlier` how many stand before it in the same log."""

    def __init__(self, catalogue: Catalogue) -> None:
        self.catalogue = catalogue
        self.run = Run(catalogue)
        self.earlier = 0
        self.bytes = 0
        self.resets: list[str] = []
        self._lines = LineSplitter()
        self._unwrapper = Unwrapper()

    def feed(self, chunk: bytes) -> None:
        self.bytes += len(chunk)
        for number, line in self._lines.feed(chunk):
            self._line(number, line)

    def reset(self, reason: str) -> None:
        """The file was truncated or rotated: lines count from 1 again; what was read so far stays known."""
        self._lines = LineSplitter()
        if len(self.resets) < 8:
            self.resets.append(f"the log was {reason} while it was read")

    def finished(self) -> LogFold:
        """The fold as it would be if the log ended here: a cut last line counts. The fold itself is not changed."""
        rest = self._lines.pending
        if not rest:
            return self
        done = copy.copy(self)
        done.run = copy.deepcopy(self.run, {id(self.catalogue): self.catalogue})
        done._unwrapper = copy.deepcopy(self._unwrapper)  # noqa: SLF001  # a copy of ourselves
        done._line(self._lines.number, rest)  # noqa: SLF001
        return done

    def pending_bar(self) -> bars.Bar | None:
        """A bar on the line that has not ended yet (tqdm rewrites one line)."""
        rest = self._lines.pending[-4096:]
        return bars.parse(rest.decode("utf-8", "replace").rpartition("\r")[2]) if rest else None

    def _line(self, number: int, line: bytes) -> None:
        for record in records.parse(number, self._unwrapper.unwrap(line)):
            if begins(record, self.run):
                self.run = Run(self.catalogue, first_line=record.line)
                self.earlier += 1
            self.run.feed(record)
