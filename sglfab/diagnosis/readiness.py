"""Ready, degraded, unreachable: what HTTP, the port and the trace say while everything lives."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sglfab.diagnosis.outcome import Outcome
from sglfab.diagnosis.signature import fill
from sglfab.model import Evidence, Finding
from sglfab.sglang import answers, stages

if TYPE_CHECKING:
    from sglfab.diagnosis.judge import Judge

FOREIGN_S = 5.0  # our own server has this long to say that it cannot bind, before the port is judged foreign
NOT_ACTIVE = "patch.not_active"


def foreign(judge: Judge, now_s: float) -> Outcome | None:
    """Another server answers on the port, or what answers is no SGLang: nothing can be said about the one meant."""
    host = judge.host
    if host.is_sglang is False and host.generation_status in answers.NO_SUCH_ROUTE:
        said = f"its /model_info is not SGLang's, and POST /generate is answered {host.generation_status}"
        return Outcome("unreachable", notes=(f"what answers there is no SGLang server: {said}",))
    if host.foreign is None or host.foreign_since is None:
        return None
    ours_lives = any(p.role == "main" for p in host.processes.values())
    stage = judge.log.run.progress.overall()[0]
    if ours_lives and stages.ORDER[stage] < stages.ORDER["http"]:
        return None
    if ours_lives and now_s - max(host.foreign_since, judge.http_t or now_s) < FOREIGN_S:
        return None
    return Outcome("unreachable", notes=(f"port {host.port} belongs to another process: {host.foreign}",))


def judge(judge: Judge, now_s: float) -> Outcome | None:
    host = judge.host
    if host.port is None and host.main is None and not host.health:
        return _log_alone(judge)
    if host.health != "200" or host.healthy_t is None or host.identity is False:
        return None
    gaps: tuple[str, ...] = ()
    if host.is_generation is False or not judge.expect.is_generation:
        gaps += ("the model does not generate: /health 200 alone was asked for",)
        since = host.healthy_t
    elif host.generated_t is None and host.generation_status in answers.FORBIDDEN:
        gaps += (
            f"the one-token request was answered {host.generation_status}: no key, so the 200 alone was asked for",
        )
        since = host.healthy_t
    elif host.generated_t is None:
        return None
    else:
        since = host.generated_t
    if host.identity is None and not host.is_sglang:
        gaps += ("whose socket answered could not be told: neither the port's owner nor /model_info was readable",)
    waiting = _patch(judge, now_s, since)
    if waiting is not None:
        return waiting
    said = judge.log_verdict()
    if said.verdict == "degraded" and said.primary:
        return Outcome("degraded", said.primary, said.findings, gaps=gaps, log=said)
    return Outcome("ready", gaps=gaps, findings=tuple(f for f in said.findings if f.severity == "info"))


def _log_alone(judge: Judge) -> Outcome | None:
    """A wait that was given a log and nothing else: SGLang's own ready line decides."""
    said = judge.log_verdict()
    gaps = ("a log file alone: nobody asked the server over HTTP",)
    if said.verdict == "degraded" and said.primary:
        return Outcome("degraded", said.primary, said.findings, gaps=gaps, log=said)
    if said.verdict != "ready":
        return None
    return Outcome("ready", gaps=gaps, findings=tuple(f for f in said.findings if f.severity == "info"))


def _patch(judge: Judge, now_s: float, since: float) -> Outcome | None:
    """None: nothing expected, or proved on every rank. Loading within the allowance, then degraded."""
    patches = judge.expect.patches or judge.host.patches
    if not patches:
        return None
    missing = unproved(judge)
    if not missing:
        return None
    if now_s - since < judge.expect.trace_allowance_s:
        return Outcome("loading")
    return Outcome("degraded", _not_active(judge, missing))


def unproved(judge: Judge) -> tuple[tuple[str, str], ...]:
    """(rank, what is missing) of every tp_rank whose trace does not prove the patches."""
    size = judge.expect.tp_size or judge.host.tp_size or 1
    ranks = judge.host.trace or {}
    missing = []
    for number in range(size):
        seen = ranks.get(str(number)) or {}
        if not seen.get("proof"):
            lacking = ", ".join(map(str, seen.get("missing") or ()))
            missing.append((f"TP{number}", f"no proof line{': not wrapped: ' + lacking if lacking else ''}"))
        elif _has_draft(judge) and not (seen.get("records") or {}).get("draft"):
            missing.append((f"TP{number}", "no record of the draft"))
    return tuple(missing)


def _has_draft(judge: Judge) -> bool:
    if judge.expect.draft is not None:
        return judge.expect.draft
    args = judge.log.run.args
    return any(f"{q}{name}{q}" in args for q in "'\"" for name in ("EAGLE", "EAGLE3", "NEXTN", "STANDALONE"))


def _not_active(judge: Judge, missing: tuple[tuple[str, str], ...]) -> Finding:
    signature = judge.catalogue[NOT_ACTIVE]
    ranks = ", ".join(rank for rank, _ in missing)
    captures = {"ranks": ranks, "patches": ", ".join(judge.expect.patches or judge.host.patches)}
    return Finding(
        id=NOT_ACTIVE,
        category=signature.category,
        title=fill(signature.title, captures),
        severity="warning",
        rank=missing[0][0] if len(missing) == 1 else None,
        evidence=tuple(Evidence("trace", f"{rank}: {what}", rank=rank) for rank, what in missing),
        advice=tuple(fill(a.say, captures) for a in signature.advice),
        confidence="high",
        stage="serving",
    )
