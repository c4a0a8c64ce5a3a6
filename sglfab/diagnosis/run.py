"""One run of a server as its log tells it: a fold over records."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field

from sglfab.diagnosis.attention import FINE, WRONG
from sglfab.diagnosis.catalogue import Catalogue
from sglfab.diagnosis.matching import Matcher
from sglfab.diagnosis.progress import Progress
from sglfab.logs import records
from sglfab.logs.records import Record
from sglfab.logs.tracebacks import Assembler, Failure, Placed
from sglfab.sglang import endings, stages
from sglfab.sglang.endings import Ending

MAX_ENDS = 64
MAX_ERRORS = 32
FEW_FRAMES = 6  # with fewer, the outer frames may have been cut away
_ENDING = (records.LOG, records.PLAIN, records.TRACEBACK, records.KERNEL)
_WEB = re.compile(r"/(?:starlette|uvicorn|fastapi)/")  # one request failed, which a web server outlives
_DEAD_MAIN = ("_run_module_as_main", "launch_server.py:<module>", "bin/sglang:<module>", "spawn.py:spawn_main")


@dataclass(frozen=True)
class Told:
    """What frames tell. stage None: nothing. whole: enough of them are there to tell of the draft too."""

    stage: str | None
    draft: bool
    whole: bool


@dataclass(frozen=True)
class End:
    """A line after which the run does not serve."""

    how: str
    record: Record
    epoch: int


@dataclass
class Run:
    """What happened in one run, in the order of the log."""

    catalogue: Catalogue
    first_line: int = 1
    progress: Progress = field(default_factory=Progress)
    assembler: Assembler = field(default_factory=Assembler)
    ends: list[End] = field(default_factory=list)
    errors: list[Record] = field(default_factory=list)  # first lines that look like errors and stand in no traceback
    last_life: int = 0  # the last line that shows that something goes on
    epochs: dict[int, int] = field(default_factory=dict)  # failure's line → epoch when it began
    args: str = ""
    hinted: bool = False  # SGLang printed its "Possible solutions", which stand under every capture failure
    agreed: dict[int, Told] = field(default_factory=dict)  # failure's line → what its frames tell

    def __post_init__(self) -> None:
        self.matcher = Matcher(self.catalogue)

    def feed(self, record: Record) -> None:
        before = self.epoch
        placed = self.assembler.feed(record)
        record = placed.record if placed else record
        told = placed is None and self.progress.feed(record)
        if told or record.kind == records.RUNTIME:
            self.last_life = record.line
        if self.epoch != before:
            self.agreed.clear()
            self.errors.clear()  # what was complained about before has been survived
        if record.kind == records.ARGS and not self.args:
            self.args = record.text[:20000]
        if placed:
            self.agreed.clear()
            self.hinted = self.hinted or placed.role == "hint"
        if placed and placed.failure.line == record.line and len(self.epochs) < 256:
            self.epochs.setdefault(placed.failure.line, self.epoch)
        if placed and placed.role == "head" and placed.failure.logged and placed.failure.fatal is None and self.ready:
            placed.failure.fatal = False  # a server that serves logs what it catches
        self._ending(record, placed)
        stage, draft = self.progress.of(record.rank)
        self.matcher.feed(record, placed, stage=stage, draft=draft, epoch=self.epoch)

    @property
    def epoch(self) -> int:
        return len(self.progress.spans)

    @property
    def ready(self) -> bool:
        return self.progress.ready

    def failures(self) -> list[Failure]:
        """Tracebacks that ended a process, in the order in which they began."""
        return [f for f in self.assembler.failures if f.root and self._fatal(f)]

    def _fatal(self, failure: Failure) -> bool:
        if self._surely(failure):
            return True
        if failure.headless and _WEB.search(failure.frame_text()):
            return False
        survived = self.last_life > failure.line or (self.ready and not self.ends)  # a server logs what it catches
        return failure.fatal is None and not survived

    def _surely(self, failure: Failure) -> bool:
        """Whether a traceback alone tells that a process ended: by its head, or because main has nothing below it."""
        if failure.fatal is not None:
            return failure.fatal
        frames = failure.frame_text()
        return any(mark in frames for mark in _DEAD_MAIN)

    def surely_ended(self) -> bool:
        """Ended whatever may still be printed; a traceback without a head may yet turn out to be harmless."""
        return bool(self.ends) or any(f.root and self._surely(f) for f in self.assembler.failures)

    def told(self, failure: Failure) -> Told:
        """What a traceback's frames tell; of ranks that died alike, what they tell together.

        Frames of interleaved tracebacks may stand in the wrong one, so most decide on the stage, and any on the draft.
        """
        if failure.line not in self.agreed:
            alike = [f for f in self.failures() if f.likeness() == failure.likeness()]
            voters = alike if len(alike) > 2 else [failure]
            texts = [f.frame_text() for f in voters]
            begun = bool(self.progress.spans)
            said = Counter(stages.stage_of_frames(text, ready=self.ready, begun=begun) for text in texts)
            stage = said.most_common(1)[0][0]
            draft = any(stages.draft_of_frames(text) for text in texts)
            told = Told(stage, draft, any(len(f.frames) >= FEW_FRAMES for f in voters))
            self.agreed |= dict.fromkeys((f.line for f in (*alike, failure)), told)
        return self.agreed[failure.line]

    def undecided(self) -> bool:
        """Whether a sign of life would still change what was printed before."""
        return any(
            (f.fatal is None or f.root is None) and self.last_life <= f.line for f in self.assembler.failures
        ) or any(line > self.last_life for line in self.matcher.transient.values())

    def maybe_over(self) -> bool:
        """A cheap hint that the run may have ended."""
        return bool(self.ends) or bool(self.assembler.failures)

    def over_before(self, line: int) -> bool:
        """Whether an end, or a traceback that ended a process, stands before a line. A launcher that fails before it
        has ranks ends its tree first (`kill_process_tree called`) and prints its own traceback then."""
        far = any(rank for rank in self.progress.ranks)
        ends = (e.record.line for e in self.ends if far or e.how != "echo")
        return any(at < line for at in ends) or any(f.line < line for f in self.failures())

    def ended(self) -> bool:
        return bool(self.ends) or bool(self.failures()) or self.cut_off() is not None

    def cut_off(self) -> Failure | None:
        """A traceback that ended a process and whose exception never came: the log stops inside of it."""
        return next(
            (
                f
                for f in self.assembler.failures
                if f.fatal
                and (f.frames or "hit an exception" in f.head)
                and f.root is None
                and self.last_life <= f.line
            ),
            None,
        )

    def stopped(self) -> End | None:
        """The line that shows that somebody asked this server to stop, when nothing broke before."""
        return next((e for e in self.ends if e.how == "stop"), None)

    def _ending(self, record: Record, placed: Placed | None) -> None:
        if record.kind == records.NATIVE:
            if record.level in ("E", "F") and endings.WATCHDOG.search(record.text) and len(self.ends) < MAX_ENDS:
                self.ends.append(End("crash", record, self.epoch))
            self._error(record)
            return
        if record.kind not in _ENDING or (placed and placed.role not in ("raised", "head")):
            return
        ending: Ending | None = endings.ending_of(record.text)
        if ending and len(self.ends) < MAX_ENDS:
            self.ends.append(End(ending.how, record, self.epoch))
        elif placed is None and record.kind != records.TRACEBACK:
            self._error(record)

    def _error(self, record: Record) -> None:
        if len(self.errors) < MAX_ERRORS and looks_wrong(record):
            self.errors.append(record)


def looks_wrong(record: Record) -> bool:
    """Whether a line outside of tracebacks reads like an error; a last resort for crashes that no signature knows."""
    if record.kind == records.NATIVE and record.level in ("E", "F"):
        return True
    text = record.text
    if not any(w in text for w in WRONG) or any(w in text for w in FINE):
        return False
    return not (record.kind == records.NATIVE and record.level == "W" and "NCCL WARN" not in text)


def begins(record: Record, run: Run) -> bool:
    """Whether a record starts another run in the same file."""
    if record.kind == records.ARGS and not record.repeated:
        far = any(k for k in run.progress.ranks) or run.progress.ready
        return run.ended() or (far and (bool(run.args) or run.progress.ready))
    if record.rank is None and record.kind in (records.PLAIN, records.USAGE, records.LOG) and run.maybe_over():
        return stages.BEGINNINGS.search(record.text) is not None and run.ended()
    return False


def another_start(record: Record, run: Run) -> Failure | None:
    """The traceback of a start that failed at once, in a file whose former run was already over when it began."""
    failure = run.assembler.current
    if failure is None or failure.rank or failure.head or failure.root or record.kind != records.PLAIN:
        return None
    if not run.over_before(failure.line) or endings.ECHO.search(record.text):
        return None
    stage = stages.stage_of_frames(failure.frame_text(), ready=False)
    return failure if stage in ("import", "args") else None
