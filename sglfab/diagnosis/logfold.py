"""Bytes of a log → the last run in it."""

from __future__ import annotations

import copy

from sglfab.diagnosis.catalogue import Catalogue
from sglfab.diagnosis.run import Run, another_start, begins
from sglfab.logs import bars, records
from sglfab.logs.envelope import Unwrapper
from sglfab.logs.lines import LineSplitter
from sglfab.logs.quotation import Quotation


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
        self._quotation = Quotation()

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
        done._quotation = copy.copy(self._quotation)  # a copy of ourselves
        done._unwrapper = copy.deepcopy(self._unwrapper)  # a copy of ourselves
        done._line(self._lines.number, rest)
        return done

    def pending_bar(self) -> bars.Bar | None:
        """A bar on the line that has not ended yet (tqdm rewrites one line)."""
        rest = self._lines.pending[-4096:]
        return bars.parse(rest.decode("utf-8", "replace").rpartition("\r")[2]) if rest else None

    def _line(self, number: int, line: bytes) -> None:
        for record in self._quotation.mark(records.parse(number, self._unwrapper.unwrap(line))):
            if begins(record, self.run):
                self._another(Run(self.catalogue, first_line=record.line))
            elif failure := another_start(record, self.run):
                after = self.run.assembler.hand_over(failure)
                self._another(Run(self.catalogue, first_line=failure.line, assembler=after))
            self.run.feed(record)

    def _another(self, run: Run) -> None:
        self.run = run
        self.earlier += 1
