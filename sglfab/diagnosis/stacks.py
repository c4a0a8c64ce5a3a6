"""Python stacks of the ranks: when to ask for them, and which rank is somewhere else than the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from sglfab.diagnosis import hostjoin
from sglfab.diagnosis.hostfacts import Stack
from sglfab.diagnosis.outcome import Outcome
from sglfab.model import Evidence

if TYPE_CHECKING:
    from sglfab.diagnosis.judge import Judge

SHARE = 0.5  # of the allowance, after which the stacks are asked for
PAUSE_S = 60.0  # but a stopped process (state T) is looked at after half of this at the latest
MAX_GROUPS = 4


def quiet_since(judge: Judge, now_s: float) -> float | None:
    """Since when nothing moves, once that has lasted for half of what is allowed; None otherwise."""
    host = judge.host
    if not host.processes:
        return None
    stopped = min(host.stopped_since.values(), default=None)
    if judge.log.run.ready or host.ever_healthy:
        allowed = judge.expect.allowance_s("serving")
        began = host.unanswered_since if stopped is None else stopped
    elif host.health == "200" or host.compilers:
        return None
    else:
        allowed = judge.expect.allowance_s(judge.log.run.progress.overall()[0])
        if stopped is not None:
            allowed = min(allowed, PAUSE_S)
        began = max(judge.moved_t, stopped or 0.0)
    return began if began is not None and now_s - began >= SHARE * allowed else None


def joined(judge: Judge, outcome: Outcome) -> Outcome:
    """A stall with where its ranks are, and what the host knows beside it."""
    shown = _evidence(judge)
    primary = outcome.primary
    if primary is None:
        return replace(outcome, notes=(*outcome.notes, *(one.text for one in shown)))
    primary = hostjoin.joined(judge.host, replace(primary, evidence=(*primary.evidence, *shown)))
    if primary.rank is None:
        primary = replace(primary, rank=next((one.rank for one in shown if one.rank), None))
    return replace(outcome, primary=primary)


def _evidence(judge: Judge) -> tuple[Evidence, ...]:
    """Of what was dumped since something last moved: the schedulers, or, before there are any, everybody."""
    moved = max(judge.moved_t, judge.host.healthy_t or 0.0)
    taken = [stack for stack in judge.host.stacks.values() if stack.t >= moved]
    ranked = any(process.role == "scheduler" for process in judge.host.processes.values())
    return compared([stack for stack in taken if stack.role == "scheduler" or not ranked])


def compared(stacks: Sequence[Stack]) -> tuple[Evidence, ...]:
    """One line: where most are and where the others; its rank is the only other one."""
    groups: dict[tuple[str, ...], list[Stack]] = {}
    for stack in sorted(stacks, key=lambda one: (len(one.name), one.name)):
        groups.setdefault(stack.functions, []).append(stack)
    ordered = sorted(groups.values(), key=len, reverse=True)
    if not ordered:
        return ()
    most, listed = ordered[0], ordered
    lines, odd = [], None
    if len(most) > 1 and 2 * len(most) > len(stacks):
        lines, listed = [f"{len(most)} of {len(stacks)} ranks {most[0].place(plural=True)}"], ordered[1:]
        odd = listed[0][0].rank if len(stacks) - len(most) == 1 else None
    lines += [f"{_names(group)} {group[0].place(plural=len(group) > 1)}" for group in listed[:MAX_GROUPS]]
    more = [f"{len(listed) - MAX_GROUPS} more places"] if len(listed) > MAX_GROUPS else []
    return (Evidence("process", "; ".join((*lines, *more)), rank=odd),)


def _names(group: Sequence[Stack]) -> str:
    return ", ".join(stack.name for stack in group)
