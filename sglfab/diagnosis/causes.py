"""Which of all matches and tracebacks came first, and which are only consequences."""

from __future__ import annotations

import re
from dataclasses import dataclass

from sglfab.diagnosis.matching import Match, pattern_of
from sglfab.diagnosis.run import Run
from sglfab.diagnosis.signature import Advice, Signature, fill, release_key
from sglfab.logs import records
from sglfab.logs.records import Record
from sglfab.logs.tracebacks import Failure
from sglfab.model import Evidence, Finding
from sglfab.sglang import endings, stages

MAX_EVIDENCE = 12
MAX_CONSEQUENCES = 40
_UP = ("warmup", "serving")
_NATIVE = frozenset((records.NATIVE, records.PLAIN, records.CODE, records.KERNEL))


@dataclass(frozen=True)
class Hit:
    """A signature whose conditions hold, with the lines that say so."""

    signature: Signature
    matches: tuple[Match, ...]
    captures: dict[str, str]

    @property
    def line(self) -> int:
        return self.matches[0].record.line

    @property
    def group(self) -> int:
        """Where its first exception stands, or its own line: what decides who came first."""
        return min(_group_line(m) for m in self.matches)


def hits(run: Run) -> list[Hit]:
    """Every signature that the run satisfies, earliest first; those that yield to another present one are gone."""
    fatal = {id(f) for f in run.failures()}
    ended = run.ended()
    found = [h for s in run.matcher.matches if (h := _hit(run, s, fatal, ended))]
    kept = [h for h in found if not any(_yields(h, other) for other in found)]
    return sorted(kept, key=lambda h: (h.group, h.line, h.signature.id))


def _yields(hit: Hit, other: Hit) -> bool:
    """Whether one hit says less than another: not if that one stands only in tracebacks of others that came later."""
    if other.signature.id not in hit.signature.yields_to:
        return False
    own = [m.failure for m in hit.matches if m.failure]
    others = [m.failure for m in other.matches if m.failure]
    if other.group <= hit.group or not own or len(others) < len(other.matches):
        return True
    return any(mine is theirs or same_death(mine, theirs) for mine in own for theirs in others)


def _hit(run: Run, id_: str, fatal: set[int], ended: bool) -> Hit | None:
    matches = run.matcher.matches[id_]
    signature = matches[0].signature
    when = signature.when
    if when.ended is not None and when.ended != ended:
        return None
    if run.matcher.transient.get(id_, run.last_life) < run.last_life:
        return None
    others = run.matcher.others
    if not all((id_, "also", n) in others for n in range(len(when.also))):
        return None
    if any((id_, "unless", n) in others for n in range(len(when.unless))):
        return None
    alive = tuple(m for m in matches if _stands(run, m, fatal) and _fits(run, m))
    counted = sum(run.matcher.counts[id_, n] for n in {m.pattern for m in alive})
    if not alive or counted < when.at_least:
        return None
    captures: dict[str, str] = {}
    for number in range(len(when.also)):
        captures |= others[id_, "also", number]
    for match in reversed(alive):
        captures |= match.captures
    captures.setdefault("count", str(counted))
    return Hit(signature, _ordered(alive), captures)


def _ordered(matches: tuple[Match, ...]) -> tuple[Match, ...]:
    """By line; among tracebacks the first pattern leads: patterns go from the telling to the general."""
    by_line = sorted(matches, key=lambda m: m.record.line)
    if by_line[0].failure is None:
        return tuple(by_line)
    best = min((m for m in by_line if m.failure), key=lambda m: (m.pattern, m.record.line))
    return (best, *(m for m in by_line if m is not best))


def _stands(run: Run, match: Match, fatal: set[int]) -> bool:
    """Whether a match still means something: not in a traceback that the server survived, not long overtaken."""
    if match.signature.severity != "fatal":
        return True
    if match.failure is not None:
        return id(match.failure) in fatal
    when = match.signature.when
    lasting = bool(when.also) or "kernel" in pattern_of(match).kinds or when.at_least > 1 or when.ended is True
    return lasting or match.epoch == run.epoch


def _fits(run: Run, match: Match) -> bool:
    when = match.signature.when
    if when.frames or when.not_frames:
        failure = match.failure or following(run, match)
        frames = failure.frame_text() if failure else ""
        if when.frames and not re.search(when.frames, frames):
            return False
        if when.not_frames and re.search(when.not_frames, frames):
            return False
    if when.stages or when.draft is not None:
        stage, draft = place_of(run, match, usual=None)
        if when.stages and stage not in when.stages:
            return False
        if when.draft is not None and draft != when.draft:
            return False
    return True


def place_of(run: Run, match: Match, *, usual: str | None) -> tuple[str, bool]:
    """Stage and draft of a match: by its traceback's frames, else the usual stage, else what the rank said last."""
    failure = match.failure or following(run, match)
    if failure:
        return place_of_failure(run, failure, usual, (match.stage, match.draft))
    return match.stage if match.stage in _UP else usual or match.stage, match.draft


def following(run: Run, match: Match) -> Failure | None:
    """The traceback that a native line (NCCL, a device assert, a driver) led to: the next one, of what a start survives
    the next one in the same stage.
    """
    if match.record.kind not in _NATIVE or not run.ended():
        return None
    later = (f for f in run.failures() if f.line > match.record.line)
    lasting = match.signature.when.ended is True
    return next((f for f in later if lasting or run.epochs.get(f.line) == match.epoch), None)


def place_of_failure(run: Run, failure: Failure, usual: str | None, said: tuple[str, bool]) -> tuple[str, bool]:
    """Stage and draft of a traceback. Frames decide; where they were cut away, the rank's own words."""
    told = run.told(failure)
    if said[0] in _UP:
        return told.stage or said[0], False
    of_rank = failure.rank is not None or "Scheduler" in failure.head  # of a single one the lines name none
    beyond = of_rank and stages.ORDER[said[0]] >= stages.ORDER["load-weights"]
    if beyond or (usual in ("import", "args") and of_rank):
        usual = None  # the rank itself has said where it is; a scheduler is beyond the launcher's stages
    return told.stage or usual or said[0], told.draft or (said[1] and not told.whole)


def _group_line(match: Match) -> int:
    return raised_line(match.failure) if match.failure else match.record.line


def raised_line(failure: Failure) -> int:
    """Where the first exception of a traceback was printed: of interleaved ones, the first that is complete counts."""
    return failure.root.line if failure.root else failure.line


def is_echo(failure: Failure) -> bool:
    """Whether a traceback only says that another process is gone."""
    last = failure.parts[-1].raised or failure.root
    texts = [failure.root.text if failure.root else "", last.text if last else ""]
    return any(endings.ECHO.search(t) for t in texts)


def same_death(one: Failure, other: Failure) -> bool:
    """Whether two ranks died alike: one text is the cut beginning of the other, or the innermost frames agree."""
    if one.root is None or other.root is None:
        return False
    if other.root.text.startswith(one.root.text) and len(one.root.text) > 12:
        return True
    return len(one.frames) > 3 and one.parts[0].frames[-3:] == other.parts[0].frames[-3:] and one.kind() == other.kind()


def finding_of(run: Run, hit: Hit, release: str | None) -> Finding:
    """The finding that a person reads: title and advice filled with what the lines captured."""
    first = hit.matches[0]
    stage, draft = place_of(run, first, usual=hit.signature.stage)
    ranks = {m.record.rank or (m.failure.rank if m.failure else None) for m in hit.matches}
    return Finding(
        id=hit.signature.id,
        category=hit.signature.category,
        title=fill(hit.signature.title, hit.captures),
        severity=hit.signature.severity,
        rank=_rank_of(run, ranks, hit.captures),
        evidence=tuple(dict.fromkeys(_shown(m) for m in hit.matches[:MAX_EVIDENCE])),
        advice=advice_of(hit.signature, hit.captures, stage=stage, draft=draft, release=release),
        confidence=hit.signature.confidence,
        stage=stage,
        draft=draft,
    )


def _rank_of(run: Run, ranks: set[str | None], captures: dict[str, str]) -> str | None:
    """The rank that all lines are from; for lines of the launcher, the one whose number they name."""
    if len(ranks) != 1:
        return None
    [rank] = ranks
    return rank or run.progress.rank_named(captures.get("tp_rank", ""))


def _shown(match: Match) -> Evidence:
    """The line itself; for a line of source code in a traceback, the exception that it raised."""
    raised = match.failure.parts[-1].raised or match.failure.root if match.failure else None
    if (
        match.failure
        and raised
        and match.record.kind in (records.CODE, records.FRAME)
        and "code" in pattern_of(match).kinds
    ):
        return Evidence("log", raised.text[:2000], raised.line, match.failure.rank, match.failure.time)
    return evidence_of(match.record, match.failure)


def advice_of(
    signature: Signature, captures: dict[str, str], *, stage: str, draft: bool, release: str | None
) -> tuple[str, ...]:
    chosen = [a for a in signature.advice if _applies(a, stage=stage, draft=draft, release=release)]
    return tuple(fill(a.say, captures) for a in chosen or signature.advice)


def _applies(advice: Advice, *, stage: str, draft: bool, release: str | None) -> bool:
    if advice.stages and stage not in advice.stages:
        return False
    if advice.draft is not None and advice.draft != draft:
        return False
    if release is None:
        return True
    key = release_key(release)
    if advice.since and key < release_key(advice.since):
        return False
    return not (advice.before and key >= release_key(advice.before))


def evidence_of(record: Record, failure: Failure | None = None) -> Evidence:
    rank = record.rank or (failure.rank if failure else None)
    time = record.time or (failure.time if failure else None)
    return Evidence(record.source, record.shown[:2000], record.line, rank, time)


def consequences_of(run: Run, cause_lines: set[int]) -> tuple[tuple[int, str], ...]:
    """What followed from the cause: other tracebacks and the lines of a server going down."""
    found = [(e.record.line, e.record.shown[:300]) for e in run.ends]
    found += [(f.root.line, f.root.text[:300]) for f in run.failures() if f.root]
    return tuple(sorted({(n, t) for n, t in found if n not in cause_lines}))[:MAX_CONSEQUENCES]
