"""What a log alone says about the last run in it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from sglfab.diagnosis import causes, neighbours
from sglfab.diagnosis.causes import Hit
from sglfab.diagnosis.logfold import LogFold
from sglfab.diagnosis.run import Run
from sglfab.logs.records import Record
from sglfab.logs.tracebacks import Failure
from sglfab.model import Evidence, ExitStatus, Finding

_STRONG = re.compile(
    r"Assertion `.*` failed|fatal error: |^ptxas fatal|NCCL WARN(?!.*closing connection)|"
    r"^Fatal Python error|^terminate called|what\(\):"
)
_EXIT = re.compile(r"\(exit code: (-?\d+)\)|crashed with exit code (-?\d+)|^Exit code: (-?\d+)|terminated with (-?\d+)")


@dataclass(frozen=True)
class LogVerdict:
    """crashed, ready, degraded or loading, with the first cause."""

    verdict: str
    stage: str
    draft: bool
    primary: Finding | None = None
    findings: tuple[Finding, ...] = ()
    consequences: tuple[tuple[int, str], ...] = ()
    neighbours: tuple[str, ...] = ()
    exit: ExitStatus | None = None
    ruled_out: tuple[str, ...] = ()
    bare_kill: bool = False  # ended by -9 and nothing before it explains why


def judge_log(fold: LogFold, *, release: str | None) -> LogVerdict:
    run = fold.finished().run
    found = causes.hits(run)
    if run.ended():
        return _crashed(run, found, release)
    warnings = [h for h in found if h.signature.severity == "warning"]
    primary = causes.finding_of(run, warnings[0], release) if warnings else None
    stage, draft = run.progress.overall()
    if primary and not run.ready:
        stage, draft = primary.stage or stage, primary.draft
    verdict = ("degraded" if primary else "ready") if run.ready else "loading"
    infos = tuple(causes.finding_of(run, h, release) for h in found if h.signature.severity != "fatal")
    return LogVerdict(verdict, stage, draft, primary, infos)


def _crashed(run: Run, found: list[Hit], release: str | None) -> LogVerdict:
    primary, known = _primary(run, found, release)
    fatal = [h for h in found if h.signature.severity == "fatal"]
    others = tuple(causes.finding_of(run, h, release) for h in fatal if h is not known)
    same = {e.line for e in primary.evidence if e.line} if primary else set()
    stage, draft = run.progress.overall()
    if primary and primary.stage:
        stage, draft = primary.stage, primary.draft
    near = neighbours.nearest(run.catalogue, primary.evidence[0].text) if primary and known is None else ()
    return LogVerdict(
        "crashed",
        stage,
        draft,
        primary,
        (*((primary,) if primary else ()), *others),
        causes.consequences_of(run, same),
        near,
        _exit_of(run),
        _ruled_out(run, primary),
        bare_kill=known is not None and known.signature.id == "host.oom_killer" and known.signature.confidence == "low",
    )


def _primary(run: Run, found: list[Hit], release: str | None) -> tuple[Finding | None, Hit | None]:
    """The first cause: the earliest of known causes and unknown tracebacks, else an echo, else the first error line."""
    known = [h for h in found if h.signature.severity == "fatal" and h.signature.role == "cause"]
    explained = {id(m.failure) for h in known for m in h.matches if m.failure}
    known_deaths = [m.failure for h in known for m in h.matches if m.failure]
    unknown = sorted(
        (
            f
            for f in run.failures()
            if id(f) not in explained
            and not causes.is_echo(f)
            and not any(causes.same_death(f, k) for k in known_deaths)
        ),
        key=causes.raised_line,
    )
    first = known[0] if known else None
    if (
        unknown
        and (first is None or causes.raised_line(unknown[0]) < first.group)
        and not _stopped_before(run, unknown[0])
    ):
        return _unknown(run, unknown[0]), None
    if first is None:
        first = next((h for h in found if h.signature.severity == "fatal"), None)
    if first is not None:
        return causes.finding_of(run, first, release), first
    return _unexplained(run), None


def _ruled_out(run: Run, primary: Finding | None) -> tuple[str, ...]:
    """What the log suggests and the evidence contradicts."""
    if primary is None:
        return ()
    found = []
    if run.hinted and not primary.category.startswith("memory."):
        found.append(
            "lack of GPU memory: SGLang prints that hint (lower mem-fraction-static) under every capture failure"
        )
    if primary.category not in ("host.oom_killer", "unknown", "operator.killed") and _killed_after(run, primary):
        found.append(
            "the kernel's OOM killer as first cause: the error stands before the kill, which the launcher does itself"
        )
    return tuple(found)


def _killed_after(run: Run, primary: Finding) -> bool:
    line = primary.evidence[0].line or 0
    return any(e.how == "kill" and e.record.line > line for e in run.ends)


def _stopped_before(run: Run, failure: Failure) -> bool:
    stop = run.stopped()
    return stop is not None and stop.record.line < failure.line


def _unknown(run: Run, failure: Failure) -> Finding:
    """A crash that no signature knows: the first exception, or the native error that stands right before it."""
    assert failure.root is not None  # failures() gives none without
    said = run.progress.of(failure.rank)
    stage, draft = causes.place_of_failure(run, failure, None, said)
    before = next(
        (r for r in run.errors if (r.line < failure.line and _STRONG.search(r.text)) or _severe(r, failure)), None
    )
    evidence: list[Evidence] = [causes.evidence_of(before)] if before else []
    root, last = failure.root, failure.parts[-1].raised or failure.root
    for raised in (root, last) if last is not root else (root,):
        evidence.append(Evidence("log", raised.text[:2000], raised.line, failure.rank, failure.time))
    return _unknown_finding(tuple(evidence), stage, draft)


def _severe(record: Record, failure: Failure) -> bool:
    return record.level in ("E", "F") and record.line < failure.line


def _unexplained(run: Run) -> Finding | None:
    """No traceback and no signature: the first line that reads like an error, else the first line of the end."""
    ends = sorted(run.ends, key=lambda e: e.record.line)
    first = next((e for e in ends if e.how == "crash"), ends[0] if ends else None)
    limit = ends[0].record.line if ends else None
    wrong = next((r for r in run.errors if limit is None or r.line < limit), None)
    echo = next((f for f in run.failures() if f.root), None)
    record = wrong or (first.record if first and first.how == "crash" else None)
    stage, draft = run.progress.overall()
    if record is None and echo and echo.root:
        stage, draft = causes.place_of_failure(run, echo, None, run.progress.of(echo.rank))
        return _unknown_finding(
            (Evidence("log", echo.root.text[:2000], echo.root.line, echo.rank, echo.time),), stage, draft
        )
    record = record or (first.record if first else None)
    if record is None and (cut := run.cut_off()):
        text = f"{cut.head} Traceback (most recent call last):"
        return _unknown_finding((Evidence("log", text, cut.line, cut.rank, cut.time),), stage, draft)
    return _unknown_finding((causes.evidence_of(record),), stage, draft) if record else None


def _unknown_finding(evidence: tuple[Evidence, ...], stage: str, draft: bool) -> Finding:
    return Finding(
        id="unknown",
        category="unknown",
        title=f"the server ended for a reason that the catalogue does not know: {evidence[0].text.strip()[:160]}",
        severity="fatal",
        rank=evidence[0].rank,
        evidence=evidence,
        advice=("read the first cause line, the frames above it and the lines around it",),
        confidence="low",
        stage=stage,
        draft=draft,
    )


def _exit_of(run: Run) -> ExitStatus | None:
    for end in run.ends:
        if found := _EXIT.search(end.record.text):
            code = int(next(g for g in found.groups() if g))
            return ExitStatus(code, _SIGNALS.get(-code))
    return None


_SIGNALS = {
    1: "SIGHUP",
    2: "SIGINT",
    3: "SIGQUIT",
    4: "SIGILL",
    6: "SIGABRT",
    7: "SIGBUS",
    8: "SIGFPE",
    9: "SIGKILL",
    11: "SIGSEGV",
    15: "SIGTERM",
}
