"""Crashed: a watched process is gone, or the log shows a line that SGLang does not survive."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from sglfab.diagnosis import hostjoin
from sglfab.diagnosis.hostfacts import rank_of_title
from sglfab.diagnosis.logverdict import LogVerdict
from sglfab.diagnosis.outcome import Outcome
from sglfab.diagnosis.signature import Signature, fill
from sglfab.model import Evidence, ExitStatus, Finding

if TYPE_CHECKING:
    from sglfab.diagnosis.judge import Judge

QUIET_S = 0.3  # no log bytes for so long after the exit is known: the cause lines are in
LATEST_S = 0.8  # after the first death the verdict stands, whatever still comes
KERNEL_S = 1.6  # but a bare SIGKILL waits as long for the kernel log to be read once more
JUST_S = 0.2
SILENT_S = 5.0  # a traceback that may be harmless is the end, where the log alone speaks and says no more
OOM = "host.oom_killer"
KILLED = "operator.killed"
XID = "hardware.xid"
SHM = "memory.shm"
_STOPPED = (0, -15, -2, 143, 130)  # a clean end, SIGTERM, SIGINT
_SIGBUS = (-7, 135)
_SHM_FULL_MB = 1.0
_BY_HARDWARE = ("kernel", "nccl", "watchdog", "dist", "unknown")  # kinds that a broken GPU brings about


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
    outcome = _by_hardware(judge, said) or _joined(judge, said) or _without_cause(judge, said)
    if now_s - since < KERNEL_S and _asks_the_kernel(judge, said, outcome) and not _kernel_read(judge, since):
        return Outcome("loading")
    return outcome


def _asks_the_kernel(judge: Judge, said: LogVerdict, outcome: Outcome) -> bool:
    """Nothing but the kernel can tell more: a SIGKILL without a cause."""
    status = _status(judge, said)
    bare = outcome.primary is not None and outcome.primary.confidence == "low"
    return judge.host.kernel_readable and bare and status is not None and status.code == -9


def _log_ended(judge: Judge, now_s: float) -> float | None:
    """When the log fell silent behind a traceback that is an end unless something follows, and nobody else can be
    asked: no process is known, and nobody answers."""
    if judge.host.main is not None or judge.host.health not in ("", "refused"):
        return None
    if judge.log_t is None or now_s - judge.log_t < SILENT_S or judge.log_verdict().verdict != "crashed":
        return None
    return judge.log_t


def _kernel_read(judge: Judge, since: float) -> bool:
    """The watcher looks right before it tells a death, or, where only the journal is readable, right after."""
    return judge.host.kernel_t is not None and judge.host.kernel_t >= since - JUST_S


def _by_hardware(judge: Judge, said: LogVerdict) -> Outcome | None:
    """The kernel killed a process that the server needs, or a GPU broke: what the log has follows from it."""
    if judge.host.watched_kill():
        return _outcome(judge, said, _oom(judge, said))
    known, status = said.primary if said.verdict == "crashed" else None, _status(judge, said)
    if known is None and status and status.code in _STOPPED:
        return None
    broken = any(xid.of_hardware for xid in judge.host.xids)
    if broken and (known is None or known.category.partition(".")[0] in _BY_HARDWARE):
        return _outcome(judge, said, _xid(judge, said))
    return None


def _joined(judge: Judge, said: LogVerdict) -> Outcome | None:
    """The log knows the cause."""
    primary = said.primary
    if said.verdict != "crashed" or primary is None or said.bare_kill or primary.category == "unknown":
        return None
    return _of_log(judge, said, primary)


def _of_log(judge: Judge, said: LogVerdict, primary: Finding) -> Outcome:
    """The log's cause; the host's evidence stands beside it, or rules the kernel's OOM killer out."""
    ruled = (*hostjoin.ruled_out(judge.host), *said.ruled_out)
    shown = hostjoin.joined(judge.host, primary)
    rest = tuple(f for f in said.findings if f is not primary)
    return Outcome("crashed", shown, (shown, *rest), neighbours=said.neighbours, ruled_out=ruled, log=said)


def _without_cause(judge: Judge, said: LogVerdict) -> Outcome:
    """The log has no cause: the kernel, the exit status and the list of the dead must speak."""
    host = judge.host
    if host.own_kills() or host.oom_count:
        return _outcome(judge, said, _oom(judge, said))
    if host.xids:
        return _outcome(judge, said, _xid(judge, said))
    if said.primary and said.primary.category == "unknown" and not _only_a_kill(said):
        return _of_log(judge, said, said.primary)
    return _by_status(judge, said)


def _by_status(judge: Judge, said: LogVerdict) -> Outcome:
    status = _status(judge, said)
    if status and status.code == -9:
        return _bare_kill(judge, said)
    if status and status.code in _SIGBUS and _shm_was_full(judge):
        return _outcome(judge, said, _shm(judge))
    if status and status.code in _STOPPED:
        return _outcome(judge, said, _stopped(judge, status))
    if said.primary:
        return _of_log(judge, said, said.primary)
    return _outcome(judge, said, _unknown(judge, status))


def _only_a_kill(said: LogVerdict) -> bool:
    return bool(said.primary) and "exit code -9" in (said.primary.evidence[0].text if said.primary else "")


def _bare_kill(judge: Judge, said: LogVerdict) -> Outcome:
    """-9 and no earlier cause: only the kernel's own line or counter proves the OOM killer."""
    if judge.host.kernel_readable:
        found = _unknown(judge, _status(judge, said), said)
        return replace(_outcome(judge, said, found), ruled_out=hostjoin.ruled_out(judge.host))
    gap = "kernel log: not read, so the OOM killer is neither shown nor ruled out"
    return replace(_outcome(judge, said, _oom(judge, said)), gaps=(gap,))


def _outcome(judge: Judge, said: LogVerdict, primary: Finding) -> Outcome:
    """The log's own findings follow, but for one that only says that somebody was killed or that nobody knows why."""
    empty = said.primary if said.bare_kill or (said.primary and said.primary.category == "unknown") else None
    rest = tuple(f for f in said.findings if f.id != primary.id and f is not empty)
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
    judge: Judge,
    id_: str,
    evidence: tuple[Evidence, ...],
    *,
    confidence: str,
    title: str | None = None,
    captures: Mapping[str, str] = MappingProxyType({}),
) -> Finding:
    signature: Signature = judge.catalogue[id_]
    stage, draft = judge.log.run.progress.overall()
    ranks = {e.rank for e in evidence if e.rank}
    return Finding(
        id=id_,
        category=signature.category,
        title=title or fill(signature.title, captures),
        severity="fatal",
        rank=ranks.pop() if len(ranks) == 1 else None,
        evidence=evidence,
        advice=tuple(fill(a.say, captures) for a in signature.advice),
        confidence=confidence,
        stage=stage,
        draft=draft,
    )


def _oom(judge: Judge, said: LogVerdict) -> Finding:
    """The kernel's own words, what the log says of the kill, and who is gone."""
    log = said.primary.evidence[:1] if said.primary else ()
    dead = (_dead(judge)[0],) if judge.host.first_death() or not log else ()
    lines = hostjoin.kills(judge.host)
    status = _status(judge, said)
    sure = judge.host.watched_kill() is not None or (lines and status is not None and status.code == -9)
    confidence = "high" if sure else "medium" if lines else "low"
    return _from(judge, OOM, (*lines, *log, *dead), confidence=confidence)


def _xid(judge: Judge, said: LogVerdict) -> Finding:
    first = next((xid for xid in judge.host.xids if xid.of_hardware), judge.host.xids[0])
    log = said.primary.evidence[:1] if said.primary else ()
    evidence = (*hostjoin.xids(judge.host), *log, _dead(judge)[0])
    captures = {"xid": str(first.number), "bus": first.bus}
    return _from(judge, XID, evidence, confidence="medium" if first.of_hardware else "low", captures=captures)


def _shm_was_full(judge: Judge) -> bool:
    return judge.host.shm_least_mb is not None and judge.host.shm_least_mb <= _SHM_FULL_MB


def _shm(judge: Judge) -> Finding:
    """Writing to a mapping of a full tmpfs is a SIGBUS, about which a process can print nothing."""
    return _from(judge, SHM, (*hostjoin.shm(judge.host), _dead(judge)[0]), confidence="medium")


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
