"""Crashed: a watched process is gone, or the log shows a line that SGLang does not survive."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sglfab.diagnosis.hostfold import rank_of_title
from sglfab.diagnosis.logverdict import LogVerdict
from sglfab.diagnosis.outcome import Outcome
from sglfab.diagnosis.signature import Signature, fill
from sglfab.model import Evidence, ExitStatus, Finding

if TYPE_CHECKING:
    from sglfab.diagnosis.judge import Judge

QUIET_S = 0.3  # no log bytes for so long after the exit is known: the cause lines are in
LATEST_S = 0.8  # after the first death the verdict stands, whatever still comes
SILENT_S = 5.0  # a traceback that may be harmless is the end, where the log alone speaks and says no more
OOM = "host.oom_killer"
KILLED = "operator.killed"
_STOPPED = (0, -15, -2, 143, 130)  # a clean end, SIGTERM, SIGINT


def judge(judge: Judge, now_s: float) -> Outcome | None:
    """None while everything that was seen lives and the log shows no end, or while the cause lines may still come."""
    death = judge.host.first_death()
    since = death[0] if death else judge.end_t if judge.end_t is not None else _log_ended(judge, now_s)
    if since is None:
        return None
    quiet = judge.log_t is None or now_s - judge.log_t >= QUIET_S
    main_gone = judge.host.exit is not None
    settled = now_s - since >= LATEST_S or (quiet and now_s - since >= QUIET_S and (main_gone or death is None))
    if not settled:
        return Outcome("loading")
    said = judge.log_verdict()
    if said.verdict == "crashed" and said.primary and not said.bare_kill and said.primary.category != "unknown":
        return _joined(judge, said)
    return _without_cause(judge, said)


def _log_ended(judge: Judge, now_s: float) -> float | None:
    """When the log fell silent behind a traceback that is an end unless something follows, and nobody else can be
    asked: no process is known, and nobody answers."""
    if judge.host.main is not None or judge.host.health not in ("", "refused"):
        return None
    if judge.log_t is None or now_s - judge.log_t < SILENT_S or judge.log_verdict().verdict != "crashed":
        return None
    return judge.log_t


def _joined(judge: Judge, said: LogVerdict) -> Outcome:
    """The log knows the cause; the host's evidence confirms it or rules the kernel's OOM killer out."""
    ruled: tuple[str, ...] = ()
    if judge.host.kernel_readable and not judge.host.oom_lines and not judge.host.oom_count:
        ruled = ("the kernel's OOM killer: its log has no such line",)
    return Outcome(
        "crashed", _with_gpus(judge, said.primary), said.findings, ruled_out=(*ruled, *said.ruled_out), log=said
    )


def _with_gpus(judge: Judge, primary: Finding | None) -> Finding | None:
    """A finding about GPU memory with what the GPUs held when they were last asked."""
    if primary is None or not primary.category.startswith("memory.") or not judge.host.gpus:
        return primary
    shown = tuple(
        Evidence(
            "gpu", f"GPU {g.get('index')}: {g.get('used_mb')} of {g.get('total_mb')} MB used, {g.get('util')} % busy"
        )
        for g in judge.host.gpus[:8]
    )
    return replace(primary, evidence=(*primary.evidence, *shown))


def _without_cause(judge: Judge, said: LogVerdict) -> Outcome:
    """The log has no cause: the kernel, the exit status and the list of the dead must speak."""
    host = judge.host
    if host.oom_lines or host.oom_count:
        return _outcome(judge, said, _oom(judge, said, confidence="high"))
    if host.xid_lines:
        return _outcome(judge, said, _xid(judge))
    if said.primary and said.primary.category == "unknown" and not _only_a_kill(said):
        return Outcome("crashed", said.primary, said.findings, neighbours=said.neighbours, log=said)
    return _by_status(judge, said)


def _by_status(judge: Judge, said: LogVerdict) -> Outcome:
    status = _status(judge, said)
    if status and status.code == -9:
        return _bare_kill(judge, said)
    if status and status.code in _STOPPED:
        return _outcome(judge, said, _stopped(judge, status))
    if said.primary:
        return Outcome("crashed", said.primary, said.findings, neighbours=said.neighbours, log=said)
    return _outcome(judge, said, _unknown(judge, status))


def _only_a_kill(said: LogVerdict) -> bool:
    return bool(said.primary) and "exit code -9" in (said.primary.evidence[0].text if said.primary else "")


def _bare_kill(judge: Judge, said: LogVerdict) -> Outcome:
    """-9 and no earlier cause: only the kernel's own line or counter proves the OOM killer."""
    if judge.host.kernel_readable:
        ruled = ("the kernel's OOM killer: its log is readable and has no such line",)
        found = _unknown(judge, _status(judge, said), said)
        return replace(_outcome(judge, said, found), ruled_out=ruled)
    gap = "kernel log: not read, so the OOM killer is neither shown nor ruled out"
    return replace(_outcome(judge, said, _oom(judge, said, confidence="low")), gaps=(gap,))


def _outcome(judge: Judge, said: LogVerdict, primary: Finding) -> Outcome:
    rest = tuple(f for f in said.findings if f.id != primary.id and f is not said.primary)
    return Outcome("crashed", primary, (primary, *rest), log=said)


def _status(judge: Judge, said: LogVerdict) -> ExitStatus | None:
    """How the first dead process ended: the keeper's word for main and orphans, else what the log says."""
    death = judge.host.first_death()
    for orphan in judge.host.orphans:
        if death and orphan.get("pid") == death[1] and orphan.get("code") is not None:
            return ExitStatus(int(orphan["code"]), orphan.get("signal"))
    return said.exit or judge.host.exit


def _dead(judge: Judge) -> tuple[Evidence, str | None]:
    death = judge.host.first_death()
    if death is None:
        return Evidence("log", "the log ends"), None
    _, pid, role, title = death
    status = judge.host.exit if role == "main" else None
    how = f" (exit code {status.code}{', ' + status.signal if status.signal else ''})" if status else ""
    rank = rank_of_title(title)
    return Evidence("process", f"{role} {title} (pid {pid}) is gone{how}", rank=rank), rank


def _from(
    judge: Judge, id_: str, evidence: tuple[Evidence, ...], *, confidence: str, title: str | None = None
) -> Finding:
    signature: Signature = judge.catalogue[id_]
    stage, draft = judge.log.run.progress.overall()
    ranks = {e.rank for e in evidence if e.rank}
    return Finding(
        id=id_,
        category=signature.category,
        title=title or fill(signature.title, {}),
        severity="fatal",
        rank=ranks.pop() if len(ranks) == 1 else None,
        evidence=evidence,
        advice=tuple(fill(a.say, {}) for a in signature.advice),
        confidence=confidence,
        stage=stage,
        draft=draft,
    )


def _oom(judge: Judge, said: LogVerdict, *, confidence: str) -> Finding:
    """The kernel's own words, what the log says of the kill, and who is gone."""
    log = said.primary.evidence[:1] if said.primary else ()
    dead = (_dead(judge)[0],) if judge.host.first_death() or not log else ()
    lines = tuple(Evidence("kernel", line) for line in judge.host.oom_lines[:4])
    if not lines and judge.host.oom_count:
        lines = (Evidence("kernel", f"the cgroup's oom_kill counter grew by {judge.host.oom_count}"),)
    return _from(judge, OOM, (*lines, *log, *dead), confidence=confidence)


def _xid(judge: Judge) -> Finding:
    lines = tuple(Evidence("kernel", line) for line in judge.host.xid_lines[:4])
    return _from(judge, "hardware.xid", (*lines, _dead(judge)[0]), confidence="medium")


def _stopped(judge: Judge, status: ExitStatus) -> Finding:
    signal = f" by {status.signal}" if status.signal else ""
    return _from(
        judge,
        KILLED,
        (_dead(judge)[0],),
        confidence="medium",
        title=f"the server was stopped{signal} (exit code {status.code})",
    )


def _unknown(judge: Judge, status: ExitStatus | None, said: LogVerdict | None = None) -> Finding:
    dead, rank = _dead(judge)
    how = f" with {status.signal or 'exit code ' + str(status.code)}" if status else ""
    log = said.primary.evidence[:1] if said and said.primary else ()
    last = (dead,) if judge.host.first_death() or not log else ()
    stage, draft = judge.log.run.progress.overall()
    return Finding(
        id="unknown",
        category="unknown",
        title=f"a process of the server ended{how}, and nothing that could be read says why",
        severity="fatal",
        rank=rank,
        evidence=(*log, *last),
        advice=("read the last lines of the log: `fab logs`",),
        confidence="low",
        stage=stage,
        draft=draft,
    )
