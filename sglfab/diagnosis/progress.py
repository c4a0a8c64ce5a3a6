"""Stage facts per rank, folded from log records: where each rank is, and the timeline of the start."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime

from sglfab.logs import bars, records
from sglfab.logs.records import Record
from sglfab.model import RankProgress, StageSpan
from sglfab.sglang import stages

_ANSWERED = re.compile(r'"POST /(?:generate|v1/\S+) HTTP/[\d.]+" 200')
MAIN = ""  # the key of everything that carries no rank


@dataclass
class RankState:
    """What one rank has said so far. passed: how many stage lines it printed (the slowest rank has the fewest)."""

    stage: str = "import"
    draft: bool = False
    passed: int = 0
    loads: int = 0
    loaded: int = 0
    pools: int = 0

    def move(self, marker: stages.Marker) -> None:
        self.passed += 1
        self.stage = marker.stage
        if marker.needle == "Load weight begin":
            self.loads += 1
            self.draft = self.loads > 1
        elif marker.needle == "Load weight end":
            self.loaded += 1
            self.stage, self.draft = "post-load", self.loaded > 1
        elif marker.stage == "kv-cache":
            self.draft = self.loads > 1 and self.pools > 0
            self.pools += marker.needle == "Memory pool end"
        elif marker.stage == "capture-graphs":
            self.draft = bool(marker.draft) or (marker.edge != "begin" and self.draft)
        else:
            self.draft = False


@dataclass
class Progress:
    """All ranks of one run. Times are those that the log prints, in seconds; None before the first."""

    ranks: dict[str, RankState] = field(default_factory=dict)
    spans: list[StageSpan] = field(default_factory=list)
    bar: bars.Bar | None = None
    bar_stage: str | None = None
    begun: float | None = None
    now: float | None = None
    ready: bool = False
    tail: bool = False  # the log begins while the server already works: `tail`, rotation

    def feed(self, record: Record) -> bool:
        """Take a record; true when it told a stage."""
        if record.time:
            self._clock(record.time)
        if record.kind == records.BAR:
            self._bar(record)
            return True
        if not self.spans:
            self._found(record)
        if record.kind not in (records.LOG, records.ARGS, records.PLAIN):
            return False
        message = record.text.removeprefix("INFO:").lstrip() if record.text.startswith("INFO:") else record.text
        marker = stages.marker_of(message)
        if marker is None:
            return False
        self._move(record, marker)
        return True

    def of(self, rank: str | None) -> tuple[str, bool]:
        """Stage and draft of a rank; the overall ones for a rank that has said nothing."""
        state = self.ranks.get(rank or MAIN)
        if state is None or state.passed == 0 or self._up() or (not rank and self._named()):
            return self.overall()
        return state.stage, state.draft

    def rank_named(self, tp_rank: str) -> str | None:
        """The prefix of the rank with this tp_rank; None where none or several (pipeline stages) carry it."""
        found = [rank for rank in self.ranks if f"TP{tp_rank}" in rank.split()]
        return found[0] if len(found) == 1 else None

    def overall(self) -> tuple[str, bool]:
        main = self.ranks.get(MAIN)
        if main and self._up():
            return main.stage, False
        named = self._named()
        if not named:
            return (main.stage, main.draft) if main else ("import", False)
        slowest = min(named, key=lambda s: s.passed)
        return slowest.stage, slowest.draft

    def _up(self) -> bool:
        """Whether the main process has come so far that all ranks are done."""
        main = self.ranks.get(MAIN)
        return main is not None and stages.ORDER[main.stage] >= stages.ORDER["http"]

    def views(self) -> tuple[RankProgress, ...]:
        named = sorted((k for k, s in self.ranks.items() if k and s.passed), key=_rank_key)
        return tuple(self._view(k, first=n == 0) for n, k in enumerate(named or ([MAIN] if MAIN in self.ranks else [])))

    def _view(self, rank: str, *, first: bool) -> RankProgress:
        state = self.ranks[rank]
        bar = self.bar if first and self.bar and self.bar_stage == state.stage else None
        detail = f"{bar.done:g}/{bar.total:g}" if bar else ""
        stage, draft = self.of(rank)
        return RankProgress(rank or "main", stage, draft, bar.progress if bar else None, detail)

    def _named(self) -> list[RankState]:
        return [s for k, s in self.ranks.items() if k and s.passed]

    def _bar(self, record: Record) -> None:
        bar = bars.parse(record.text)
        if bar is None:
            return
        stage = stages.stage_of_bar(bar.desc)
        self.bar, self.bar_stage = bar, stage or self.overall()[0]
        if stage == "capture-graphs":
            self._nudge(stage)
        elif stages.LOADING_BAR.match(bar.desc):
            self._loading()

    def _nudge(self, stage: str) -> None:
        """A bar without its announcement (a compile session before the first capture) moves ranks that lag."""
        for state in self._named() or [self.ranks.setdefault(MAIN, RankState())]:
            if stages.ORDER[state.stage] in range(stages.ORDER["post-load"], stages.ORDER[stage]):
                state.stage = stage

    def _loading(self) -> None:
        """A bar over the checkpoint's files in a log that does not hold the lines before it (a tail, a log level)."""
        states = self._named() or [self.ranks.setdefault(MAIN, RankState())]
        if self._up() or any(s.stage not in ("import", "args", "init-distributed") for s in states):
            return
        for state in states:
            state.stage, state.passed = "load-weights", max(state.passed, 1)
        self._span(*self.overall())

    def _found(self, record: Record) -> None:
        """A log that tells of no stage may begin while requests are served: a prefill alone may be the warm-up's."""
        decoded = record.kind == records.RUNTIME and record.prefixed and record.text.startswith("Decode")
        if decoded or (record.kind == records.ACCESS and _ANSWERED.search(record.text)):
            self.found_serving()
        elif record.kind == records.RUNTIME and record.prefixed and not self.tail:
            self.tail = True
            self.ranks.setdefault(MAIN, RankState()).stage = "serving"

    def found_serving(self) -> None:
        """Requests are decoded, or were answered."""
        if not self.spans:
            state = self.ranks.setdefault(MAIN, RankState())
            state.stage, state.passed, self.ready = "serving", 1, True
            self._span("serving", False)

    def _move(self, record: Record, marker: stages.Marker) -> None:
        if self.tail and not self.spans:
            self.ranks.pop(MAIN, None)  # another start follows what the log began with
        state = self.ranks.setdefault(record.rank or MAIN, RankState())
        if marker.needle == "DeepGEMM" and stages.ORDER[state.stage] > stages.ORDER["capture-graphs"]:
            return
        if stages.ORDER[marker.stage] >= stages.ORDER["http"]:
            state = self.ranks.setdefault(MAIN, RankState())
            if stages.ORDER[marker.stage] < stages.ORDER[state.stage]:
                return
        before = self.overall()
        state.move(marker)
        if marker.edge == "begin":
            self.bar = None
        self.ready = self.ready or marker.stage == "serving"
        if self.overall() != before or not self.spans:
            self._span(*self.overall())

    def _span(self, stage: str, draft: bool) -> None:
        at = self._elapsed()
        if self.spans and self.spans[-1].end_s is None:
            last = self.spans[-1]
            self.spans[-1] = StageSpan(last.stage, last.draft, last.start_s, at)
        self.spans.append(StageSpan(stage, draft, at))
        del self.spans[:-64]

    def _elapsed(self) -> float | None:
        return None if self.now is None or self.begun is None else self.now - self.begun

    def elapsed(self, last: str | None) -> float | None:
        """Seconds up to the time `last`, as the log prints it; up to the last line that was read without."""
        at = seconds_of(last) if last else None
        if at is not None and self.begun is not None and (self.now is None or at >= self.now):
            return at - self.begun
        return self._elapsed()

    def timeline(self) -> tuple[StageSpan, ...]:
        if not self.spans:
            return ()
        last = self.spans[-1]
        bar = self.bar if self.bar and self.bar_stage == last.stage else None
        if bar is None:
            return tuple(self.spans)
        eta = bar.left_s
        shown = StageSpan(
            last.stage, last.draft, last.start_s, last.end_s, bar.progress, eta, "bar" if eta is not None else None
        )
        return (*self.spans[:-1], shown)

    def _clock(self, text: str) -> None:
        at = seconds_of(text)
        if at is None:
            return
        self.now = at if self.now is None else max(self.now, at)
        self.begun = at if self.begun is None else self.begun


def seconds_of(text: str) -> float | None:
    try:
        return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None


def _rank_key(rank: str) -> tuple[int, ...]:
    return tuple(int("".join(c for c in part if c.isdigit()) or 0) for part in rank.split())
