"""Tracebacks joined per process although the pieces of several arrive interleaved, with their exception chains."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from sglfab.logs import records
from sglfab.logs.records import Record

MAX_FAILURES = 96  # kept in full; ranks of later ones are as good as those
MAX_LINES = 600  # of one traceback
IDLE = 200  # records of others after which an open traceback is not waited for any longer
HEADLESS = 8  # records at the beginning of a log (`tail`, rotation) that may continue a traceback
COMPLAINT = 6  # lines of a log message, which may quote an exception of several lines
MAX_DETAILS = 80  # lines that follow an exception line
_FRAME = re.compile(r'^ {2}File "(?P<file>[^"]*)", line \d+, in (?P<func>.+)$')
_RAISED = re.compile(r"^(?P<type>[A-Za-z_][\w.]*(?:\[[^\]]*\])?)(?::(?: |$)|$)")
_FIRST_RAISED = re.compile(r"^(?:[a-z_]\w*\.)*(?:[A-Z][a-z]\w*(?:Error|Exception)|Exception): \S")
_MULTI = re.compile(r"^\w[\w.]*\(.*\)$")  # ValueError("…"): the cause that Triton quotes under its own error
_FATAL_HEAD = re.compile(
    r"\bhit an exception\b|^Initialization failed|^Process \S+:|"
    r"scheduler.*(?:failed|exception)|worker .*(?:failed|exception)",
    re.I,
)
_HARMLESS = r"ASGI application|Exception ignored in|never retrieved|Exception in callback"
_HARMLESS_HEAD = re.compile(
    _HARMLESS + r"|^Ignore import error|"
    r"^(?:Failed|Fail|Warning|Error (?:in|while) (?:process|handl|generat|stream|request))|"
    r"health check|/v1/|traceback for reference",
    re.I,
)
_PLAIN_HEAD = re.compile(_HARMLESS + r"|^Process \S+:|^Exception in thread", re.I)
_TOLD = re.compile(r"^(?P<head>\w+ hit an exception): (?P<raised>[A-Za-z_][\w.]*: .*)")  # without its own frames
_COMPLAINS = re.compile(r"\b(?:[Ee]rror|[Ff]ail(?:ed|ure)?|[Ee]xception|[Uu]nexpected|[Cc]ould not|[Cc]annot)\b")
_HINTS = ("Possible solutions:", "Suggestion:", "Suggestions:")


@dataclass
class Raised:
    """An exception line with what follows it up to the next log line."""

    line: int
    text: str
    details: list[tuple[int, str]] = field(default_factory=list)


@dataclass
class Part:
    """One traceback of a chain."""

    line: int
    frames: list[tuple[str, str]] = field(default_factory=list)  # (file, function)
    raised: Raised | None = None


@dataclass
class Failure:
    """A traceback, chain included: parts[0] is what happened first. fatal None: only what follows can tell."""

    line: int
    rank: str | None
    time: str | None
    head: str
    fatal: bool | None
    parts: list[Part]
    lines: list[str] = field(default_factory=list)
    open: bool = True
    hinting: bool = False
    chained: bool = False
    headless: bool = False  # the log begins inside of it
    logged: bool = False  # a message that complains stands right before it: `logger.exception`, so it was caught
    held: Record | None = None  # the first part of a line that another process cut

    @property
    def root(self) -> Raised | None:
        return next((p.raised for p in self.parts if p.raised), None)

    @property
    def frames(self) -> list[tuple[str, str]]:
        return [f for p in self.parts for f in p.frames]

    def kind(self) -> str:
        """The type of the first exception."""
        return self.root.text.partition(":")[0] if self.root else ""

    def likeness(self) -> str:
        """The first exception without its numbers: equal for ranks that died alike."""
        return re.sub(r"\d+", "#", self.root.text)[:60] if self.root else ""

    def frame_text(self) -> str:
        """Every frame as "file:function", one a line: what signatures search."""
        return "\n".join(f"{file}:{func}" for file, func in self.frames)


@dataclass(frozen=True)
class Placed:
    """Where a record stands: role is head, frame, raised, detail, hint or other."""

    failure: Failure
    role: str
    record: Record  # joined again where another process had cut it


class Assembler:
    """Feed records in order; each comes back placed in a failure, or as None when it stands outside of all."""

    def __init__(self) -> None:
        self.failures: list[Failure] = []
        self.count = 0
        self._open: list[Failure] = []
        self._current: Failure | None = None
        self._last_plain: Record | None = None
        self._complaint: Record | None = None
        self._since = 0  # records since a traceback was written to
        self._headless = HEADLESS  # records that may still be the rest of a traceback which begins before the log

    @property
    def busy(self) -> bool:
        """Whether the next record may belong to a traceback, whatever it says."""
        return bool(self._open) or self._headless > 0

    @property
    def current(self) -> Failure | None:
        """The traceback that was written to last, while it is open."""
        return self._current if self._current and self._current.open else None

    def hand_over(self, failure: Failure) -> Assembler:
        """An assembler that goes on with this traceback alone; it leaves ours."""
        self.failures = [f for f in self.failures if f is not failure]
        self._open = [f for f in self._open if f is not failure]
        other = Assembler()
        other.failures, other._open, other._current, other.count = [failure], [failure], failure, 1
        other._headless = 0
        return other

    def feed(self, record: Record) -> Placed | None:
        placed = self._place(record)
        self._since = 0 if placed or not self._open else self._since + 1
        if self._since > IDLE:
            for failure in self._open:
                failure.open = False
            self._open, self._current = [], None
        return placed

    def _place(self, record: Record) -> Placed | None:
        told = _TOLD.match(record.text) if record.kind == records.LOG else None
        if record.kind == records.TRACEBACK or told:
            self._headless = 0
            return self._tell(record, told) if told else self._begin(record, self._head(record))
        if record.prefixed or record.kind in _OUTSIDE:
            self._headless = 0
            self._outside(record)
            self._complaint = record if record.kind == records.LOG and _COMPLAINS.search(record.text) else None
            return None
        if self._headless:
            self._headless -= 1
            if _is_inside(record, first=self._last_plain is None):
                self._headless = 0
                self._begin(record, "").failure.headless = True
        if not self._open:
            self._last_plain = record if record.kind == records.PLAIN else self._last_plain
            return None
        failure = self._owner(record)
        if failure is None:
            return None
        if record.cut:
            failure.held = record
            return Placed(failure, "other", record)
        record = _joined(failure, record)
        return Placed(failure, self._append(failure, record), record)

    def _begin(self, record: Record, head: str) -> Placed:
        chained = next((f for f in self._by_recency() if f.chained), None) if not record.prefixed else None
        if chained:
            chained.chained = False
            chained.parts.append(Part(record.line))
            chained.lines.append(record.text)
            self._current = chained
            return Placed(chained, "head", record)
        failure = Failure(record.line, record.rank, record.time, head, _fatal(head), [Part(record.line)])
        said, self._complaint = self._complaint, None
        failure.logged = not head and said is not None and record.line - said.line <= COMPLAINT
        self._started(failure, record)
        return Placed(failure, "head", record)

    def _tell(self, record: Record, told: re.Match[str]) -> Placed:
        """An exception that was printed without its own traceback; that of the one which it caused may follow."""
        raised = Raised(record.line, told["raised"])
        failure = Failure(record.line, record.rank, record.time, told["head"], True, [Part(record.line, raised=raised)])
        self._started(failure, record)
        return Placed(failure, "raised", replace(record, text=told["raised"]))

    def _started(self, failure: Failure, record: Record) -> None:
        self.count += 1
        if len(self.failures) < MAX_FAILURES:
            self.failures.append(failure)
        self._close_same(record)
        self._open.append(failure)
        del self._open[:-64]
        self._current = failure

    def _head(self, record: Record) -> str:
        before = record.text.partition("Traceback (most recent call last)")[0].strip()
        last = self._last_plain
        if not before and last and record.line - last.line <= 2 and _PLAIN_HEAD.search(last.text):
            before = last.text
        self._last_plain = None
        return before

    def _close_same(self, record: Record) -> None:
        """A process that begins a new traceback, or logs, has ended the one before."""
        for failure in self._open:
            if failure.rank == record.rank and _ended(failure):
                failure.open = False
        self._open = [f for f in self._open if f.open]

    def _outside(self, record: Record) -> None:
        if not self._open:
            return
        if record.kind in (records.BAR, records.NATIVE, records.KERNEL):
            return
        self._close_same(record)
        if record.rank is None:
            for failure in self._open:
                if _ended(failure):
                    failure.open = False
        if record.kind == records.RUNTIME:  # a scheduler works: what did not end a process has been told to its end
            for failure in self._open:
                if _ended(failure) and not failure.fatal:
                    failure.open = False
        self._open = [f for f in self._open if f.open]
        if self._current and not self._current.open:
            self._current = None

    def _by_recency(self) -> list[Failure]:
        rest = [f for f in reversed(self._open) if f is not self._current]
        return [self._current, *rest] if self._current and self._current.open else rest

    def _owner(self, record: Record) -> Failure | None:
        """The open traceback that this line continues: the current one unless another one awaits exactly this line."""
        candidates = self._by_recency()
        if not candidates:
            return None
        if record.rank:  # torch says before every line whose it is
            candidates = [f for f in candidates if f.rank == record.rank] or candidates
        if len(candidates) > 1:
            for failure in candidates:
                if self._awaits(failure, (failure.held.text if failure.held else "") + record.text):
                    self._current = failure
                    return failure
            if record.kind in (records.FRAME, records.CODE, records.PLAIN):
                unended = [f for f in candidates if not _ended(f)]
                if unended and _ended(candidates[0]) and record.kind != records.PLAIN:
                    self._current = unended[0]
                    return unended[0]
        self._current = candidates[0]
        return candidates[0]

    def _awaits(self, failure: Failure, text: str) -> bool:
        position = len(failure.lines)
        for other in self.failures[:4]:
            if other is failure or len(other.lines) <= position or other.lines[position] != text:
                continue
            if position == 0 or failure.lines[-2:] == other.lines[max(0, position - 2) : position]:
                return True
        return False

    def _append(self, failure: Failure, record: Record) -> str:
        text = record.text
        if len(failure.lines) < MAX_LINES:
            failure.lines.append(text)
        part = failure.parts[-1]
        if record.kind == records.CHAIN:
            failure.chained, failure.hinting = True, False
            return "other"
        if record.kind == records.BLANK:
            failure.hinting = False
            return "other"
        if record.kind in (records.FRAME, records.CODE) and part.raised is None:
            if (found := _FRAME.match(text)) and len(part.frames) < 200:
                part.frames.append((found["file"], found["func"]))
            return "frame"
        if part.raised is None:
            if not _RAISED.match(text):
                return "other"
            part.raised = Raised(record.line, text)
            return "raised"
        return self._detail(failure, part.raised, record)

    def _detail(self, failure: Failure, raised: Raised, record: Record) -> str:
        if record.text.startswith(_HINTS):
            failure.hinting = True
        if failure.hinting:
            if record.text.startswith("Open an issue"):
                failure.hinting = False
            return "hint"
        if len(raised.details) < MAX_DETAILS:
            raised.details.append((record.line, record.text))
            return "detail"
        return "other"


def _is_inside(record: Record, *, first: bool) -> bool:
    """Whether a log begins inside a traceback: at a frame, or, with nothing but code before it, at its exception."""
    if record.kind == records.PLAIN:
        return first and _FIRST_RAISED.match(record.text) is not None
    return record.kind == records.FRAME and _FRAME.match(record.text) is not None


def _joined(failure: Failure, record: Record) -> Record:
    """The whole line when its first part was held back; its number is that of the first part."""
    held, failure.held = failure.held, None
    if held is None:
        return record
    text = held.text + record.text
    kind = records.FRAME if text.startswith('  File "') else held.kind
    return replace(held, kind=kind, text=text, shown=text, cut=False)


_OUTSIDE = frozenset(
    (
        records.LOG,
        records.ACCESS,
        records.REQUEST,
        records.ARGS,
        records.RUNTIME,
        records.BAR,
        records.NATIVE,
        records.KERNEL,
        records.USAGE,
    )
)


def _ended(failure: Failure) -> bool:
    return failure.parts[-1].raised is not None and not failure.chained


def _fatal(head: str) -> bool | None:
    if _FATAL_HEAD.search(head):
        return True
    return False if _HARMLESS_HEAD.search(head) else None
