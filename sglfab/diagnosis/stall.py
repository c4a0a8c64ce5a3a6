"""Stuck: two independent signals of progress flat for longer than the stage allows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sglfab.diagnosis.expectation import Allowance
from sglfab.diagnosis.hostfacts import Process, rank_of_title
from sglfab.diagnosis.outcome import Outcome
from sglfab.diagnosis.signature import fill
from sglfab.model import Evidence, Finding

if TYPE_CHECKING:
    from sglfab.diagnosis.judge import Judge

STOPPED_WHILE_LOADING_S = 60.0  # a stopped process never goes on by itself; a debugger's pause is shorter
_IDS = {
    "init-distributed": "nccl.hang",
    "load-weights": "hang.loading",
    "post-load": "hang.post_load",
    "capture-graphs": "hang.cuda_graph",
}


def stopped_while_serving(judge: Judge, now_s: float) -> Outcome | None:
    """/health unanswered and a rank stopped (state T) or without CPU, for longer than the serving allowance."""
    host = judge.host
    serving = judge.log.run.ready or host.ever_healthy or host.health in ("timeout", "503")
    if not serving:
        return None
    allowance = judge.expect.allowance("serving")
    allowed = allowance.seconds
    stopped = _stopped(judge, now_s, allowed)
    if stopped and (
        host.healthy_t is None or now_s - host.healthy_t >= min(allowed, max(host.stopped_since.values(), default=0))
    ):
        since = min(host.stopped_since[p.pid] for p in stopped)
        if host.healthy_t is None or host.healthy_t <= since + 1.0:
            evidence = _stopped_evidence(judge, stopped, now_s)
            return _stuck(judge, "hang.rank_stopped", "serving", evidence, allowance, stopped=stopped)
    if host.unanswered_since is not None and now_s - host.unanswered_since >= allowed:
        idle = _idle(judge, now_s, allowed)
        if idle:
            return _stuck(judge, "hang.serving", "serving", _idle_evidence(judge, idle, now_s), allowance)
    return None


def judge(judge: Judge, now_s: float) -> Outcome | None:
    """While loading: the log flat, and with it CPU, or reads and GPU memory with no compiler at work."""
    run = judge.log.run
    if judge.host.health == "200":
        return None
    stage, _ = run.progress.overall()
    allowance = judge.expect.allowance(stage)
    allowed = allowance.seconds
    pause = min(allowance, Allowance(STOPPED_WHILE_LOADING_S, "a stopped process"))
    stopped = _stopped(judge, now_s, pause.seconds)
    if stopped and _log_flat(judge, now_s, pause.seconds):
        evidence = _stopped_evidence(judge, stopped, now_s)
        return _stuck(judge, "hang.rank_stopped", stage, evidence, pause, stopped=stopped)
    if not _log_flat(judge, now_s, allowed):
        return None
    flat = _flat_signals(judge, now_s, allowed)
    if not flat:
        return None
    log = Evidence(
        "log",
        f"nothing new for {now_s - judge.moved_t:.0f} s; the last line: {judge.log.last_shown()[:200]}",
    )
    evidence = (log, *(Evidence(source, text) for source, text in flat))
    return _stuck(judge, _IDS.get(stage, "hang.loading"), stage, evidence, allowance)


def _log_flat(judge: Judge, now_s: float, allowed: float) -> bool:
    return now_s - judge.moved_t >= allowed


def _flat_signals(judge: Judge, now_s: float, allowed: float) -> list[tuple[str, str]]:
    """Signals beside the log that stand still; empty when one of them moves or too few are known."""
    host = judge.host
    if host.compilers:
        return []
    cpu, reads, gpu = (s.flat_s(now_s) for s in (host.cpu, host.reads, host.gpu_memory))
    if cpu is not None and cpu >= allowed and (reads is None or reads >= allowed):
        return [("process", f"no CPU time used by any process of the server for {cpu:.0f} s")]
    if cpu is None or reads is None or gpu is None:
        return []  # a spinning rank needs both other signals
    if reads >= 2 * allowed and gpu >= 2 * allowed:
        return [
            (
                "process",
                f"nothing read from disk for {reads:.0f} s, no compiler at work, and ranks use CPU: they spin",
            ),
            ("gpu", f"GPU memory unchanged for {gpu:.0f} s"),
        ]
    return []


def _stopped(judge: Judge, now_s: float, allowed: float) -> list[Process]:
    host = judge.host
    return [
        host.processes[pid]
        for pid, since in host.stopped_since.items()
        if pid in host.processes and now_s - since >= allowed
    ]


def _idle(judge: Judge, now_s: float, allowed: float) -> list[Process]:
    host = judge.host
    found = []
    for pid, signal in host.cpu_by_pid.items():
        flat = signal.flat_s(now_s)
        if pid in host.processes and host.processes[pid].role == "scheduler" and flat is not None and flat >= allowed:
            found.append(host.processes[pid])
    return found


def _stopped_evidence(judge: Judge, stopped: list[Process], now_s: float) -> tuple[Evidence, ...]:
    host = judge.host
    lines = tuple(
        Evidence(
            "process",
            f"{p.title} (pid {p.pid}) is stopped (state T) since {now_s - host.stopped_since[p.pid]:.0f} s",
            rank=rank_of_title(p.title),
        )
        for p in stopped
    )
    return (*lines, _health_evidence(judge, now_s)) if host.health else lines


def _idle_evidence(judge: Judge, idle: list[Process], now_s: float) -> tuple[Evidence, ...]:
    lines = tuple(
        Evidence(
            "process",
            f"{p.title} (pid {p.pid}) used no CPU for {judge.host.cpu_by_pid[p.pid].flat_s(now_s) or 0:.0f} s",
            rank=rank_of_title(p.title),
        )
        for p in idle
    )
    return (_health_evidence(judge, now_s), *lines)


def _health_evidence(judge: Judge, now_s: float) -> Evidence:
    host = judge.host
    last = "never answered 200" if host.healthy_t is None else f"its last 200 was {now_s - host.healthy_t:.0f} s ago"
    return Evidence("http", f"/health: {host.health or 'not asked'}; {last}")


def _stuck(
    judge: Judge,
    id_: str,
    stage: str,
    evidence: tuple[Evidence, ...],
    allowance: Allowance,
    *,
    stopped: Sequence[Process] = (),
) -> Outcome:
    note = f"progress may stand still in {stage} for {allowance}"
    pids = " ".join(str(process.pid) for process in stopped)
    return Outcome("stuck", _finding(judge, id_, stage, evidence, pids), notes=(note,))


def _finding(judge: Judge, id_: str, stage: str, evidence: tuple[Evidence, ...], pids: str) -> Finding:
    signature = judge.catalogue[id_]
    ranks = {e.rank for e in evidence if e.rank}
    captures = {"ranks": ", ".join(sorted(ranks)) or "a rank", "stage": stage, "pids": pids}
    return Finding(
        id=id_,
        category=signature.category,
        title=fill(signature.title, captures),
        severity="fatal",
        rank=ranks.pop() if len(ranks) == 1 else None,
        evidence=evidence,
        advice=tuple(fill(a.say, captures) for a in signature.advice),
        confidence="high" if len(evidence) > 1 else "medium",
        stage=stage,
    )
