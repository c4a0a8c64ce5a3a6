"""Bytes of a log → the last run in it.

Outside of tracebacks and logged requests only lines that hold one of the catalogue's texts are read; the others are
counted. Which lines those are depends on the line alone, so any split into chunks gives the same result.
"""

from __future__ import annotations

import copy

from sglfab.diagnosis.attention import LIFE
from sglfab.diagnosis.catalogue import Catalogue
from sglfab.diagnosis.run import Run, another_start, begins
from sglfab.logs import bars, records
from sglfab.logs.envelope import Unwrapper
from sglfab.logs.lines import HALF, Pending, bounded
from sglfab.logs.quotation import Quotation
from sglfab.sglang import stages

PIECE = 1 << 20  # bytes that are screened at once


class LogFold:
    """Feed chunks; `run` is the last run, `earlier` how many stand before it in the same log."""

    def __init__(self, catalogue: Catalogue) -> None:
        self.catalogue = catalogue
        self.run = Run(catalogue)
        self.earlier = 0
        self.bytes = 0
        self.number = 1  # of the line that comes next
        self.resets: list[str] = []
        self.last = b""  # the last complete line that is not blank
        self._pending = Pending()
        self._unwrapper = Unwrapper()
        self._quotation = Quotation()

    def feed(self, chunk: bytes) -> None:
        self.bytes += len(chunk)
        for start in range(0, len(chunk), PIECE):
            self._piece(chunk[start : start + PIECE] if len(chunk) > PIECE else chunk)

    def _piece(self, chunk: bytes) -> None:
        start = 0
        if self._pending:
            end = chunk.find(b"\n")
            self._pending.hold(chunk if end < 0 else chunk[:end])
            if end < 0:
                return
            self._offer(self._pending.take())
            start = end + 1
        stop = chunk.rfind(b"\n") + 1
        if stop > start:
            self._block(chunk, start, stop)
        self._pending.hold(chunk[max(start, stop) :])

    def reset(self, reason: str) -> None:
        """The file was truncated or rotated: lines count from 1 again; what was read so far stays known."""
        self._pending = Pending()
        self.number = 1
        if len(self.resets) < 8:
            self.resets.append(f"the log was {reason} while it was read")

    def finished(self) -> LogFold:
        """The fold as it would be if the log ended here: a cut last line counts. The fold itself is not changed."""
        if not self._pending:
            return self
        done = copy.copy(self)
        done.run = copy.deepcopy(self.run, {id(self.catalogue): self.catalogue})
        done._unwrapper, done._quotation = copy.deepcopy(self._unwrapper), copy.copy(self._quotation)
        done._pending = Pending()
        done._offer(self._pending.peek())
        return done

    def pending_bar(self) -> bars.Bar | None:
        """A bar on the line that has not ended yet (tqdm rewrites one line)."""
        rest = self._pending.peek()[-4096:]
        return bars.parse(rest.decode("utf-8", "replace").rpartition("\r")[2]) if rest else None

    def last_shown(self) -> str:
        """The last line as a person may read it."""
        pending = self._pending.peek()[-4096:].rpartition(b"\r")[2].strip()
        return Unwrapper().unwrap(pending or self.last[-4096:]).text.rpartition("\r")[2]

    def elapsed(self) -> float | None:
        """Seconds from the first to the last time that the log prints."""
        last = next(records.parse(0, Unwrapper().unwrap(self.last[:400])), None)
        return self.run.progress.elapsed(last.time if last else None)

    @property
    def _attentive(self) -> bool:
        """Whether every line counts: inside a traceback or a logged request, and where the log begins."""
        return self.run.assembler.busy or self._quotation.left > 0

    def _offer(self, line: bytes) -> None:
        if self._attentive or self.catalogue.screen(self.run.matcher.done).holds(line):
            self._read(line)
        else:
            self._count(line + b"\n", 0, len(line) + 1)

    def _block(self, block: bytes, start: int, stop: int) -> None:
        """Complete lines block[start:stop]."""
        while start < stop:
            start = self._attended(block, start, stop)
            if start < stop:
                start = self._screened(block, start, stop)

    def _attended(self, block: bytes, start: int, stop: int) -> int:
        while start < stop and self._attentive:
            end = block.index(b"\n", start)
            self._read(bounded(block[start:end]))
            start = end + 1
        return start

    def _screened(self, block: bytes, start: int, stop: int) -> int:
        """Read the lines that the screen finds, until every line counts or the screen changes. Where it stopped."""
        done = self.run.matcher.done
        screen = self.catalogue.screen(done)
        for place in screen.places(block, start, stop):
            if place < start:
                continue
            begin, end = block.rfind(b"\n", start, place) + 1 or start, block.index(b"\n", place)
            self._count(block, start, begin)
            line = bounded(block[begin:end])
            if end - begin > 2 * HALF and not screen.holds(line):
                self._count(block, begin, end + 1)
            else:
                self._read(line)
            start = end + 1
            if self._attentive or self.run.matcher.done != done:
                return start
        self._count(block, start, stop)
        return stop

    def _count(self, block: bytes, start: int, stop: int) -> None:
        """Lines that tell nothing."""
        if start >= stop:
            return
        self.number += block.count(b"\n", start, stop)
        if self.run.undecided() and any(block.find(text, start, stop) >= 0 for text in LIFE):
            self.run.last_life = self.number - 1
        if not self.run.progress.spans and stages.DECODED.search(block, start, stop):
            self.run.progress.found_serving()
        last = block[block.rfind(b"\n", start, stop - 1) + 1 or start : stop - 1]
        self.last = bounded(last) if not last.isspace() and last else self.last

    def _read(self, line: bytes) -> None:
        for record in self._quotation.mark(records.parse(self.number, self._unwrapper.unwrap(line))):
            if begins(record, self.run):
                self._another(Run(self.catalogue, first_line=record.line))
            elif failure := another_start(record, self.run):
                after = self.run.assembler.hand_over(failure)
                self._another(Run(self.catalogue, first_line=failure.line, assembler=after))
            self.run.feed(record)
        self.number += 1
        self.last = line if line.strip() else self.last

    def _another(self, run: Run) -> None:
        self.run = run
        self.earlier += 1
