"""Stages and ranks in order: who is behind, how ranks are grouped, what a stage is called."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sglfab.model import STAGES, RankProgress, StageSpan
from sglfab.report.durations import spoken

_SHARED_FROM = STAGES.index("http")  # target and draft go through the stages before it one after the other
_SOURCES = {"former-runs": "from former runs", "bar": "from the bar"}


@dataclass(frozen=True)
class RankGroup:
    """Ranks that stand at the same point, drawn as one row."""

    label: str
    progress: RankProgress
    slowest: bool


def stage_name(stage: str, draft: bool) -> str:
    return f"{stage} (draft)" if draft else stage


def eta_text(span: StageSpan, start_left_s: float | None = None) -> str:
    """`about 2m10s left, from former runs; ready in about 5m`, or "". start_left_s: of the whole start."""
    if span.eta_s is None:
        return ""
    source = _SOURCES.get(span.eta_from or "", "")
    ready = "" if start_left_s is None else f"; ready in about {spoken(round(start_left_s))}"
    return f"about {spoken(round(span.eta_s))} left" + (f", {source}" if source else "") + ready


def current_span(timeline: Sequence[StageSpan]) -> StageSpan | None:
    """The stage that goes on now: the last one that began and has no end."""
    return next((s for s in reversed(timeline) if s.end_s is None and s.start_s is not None), None)


def slowest(ranks: Sequence[RankProgress]) -> str | None:
    """The one rank that is behind the others, or None where all are level or it cannot be told."""
    last = [rank for rank in ranks if _place(rank) == min(map(_place, ranks))]
    if len(last) == 1:
        return last[0].rank if len(ranks) > 1 else None
    known = [(rank.progress, rank.rank) for rank in last if rank.progress is not None]
    if len(known) < len(last) or not known:
        return None
    behind = min(known)
    return behind[1] if sum(progress == behind[0] for progress, _ in known) == 1 else None


def grouped(ranks: Iterable[RankProgress]) -> tuple[RankGroup, ...]:
    """Ranks in natural order, those at the same point together; the slowest stands alone."""
    ordered = sorted(ranks, key=lambda rank: _natural(rank.rank))
    behind = slowest(ordered)
    groups: dict[object, list[RankProgress]] = {}
    for rank in ordered:
        groups.setdefault((rank.stage, rank.draft, rank.progress, rank.detail, rank.rank == behind), []).append(rank)
    return tuple(
        RankGroup(rank_label([r.rank for r in same]), same[0], same[0].rank == behind) for same in groups.values()
    )


def fitting(groups: Sequence[RankGroup], room: int) -> tuple[tuple[RankGroup, ...], int]:
    """At most `room` groups, the slowest always among them, and how many are left out (their count needs a row too)."""
    if len(groups) <= room:
        return tuple(groups), 0
    kept = max(1, room - 1)
    chosen = sorted(groups, key=lambda group: not group.slowest)[:kept]
    return tuple(group for group in groups if group in chosen), len(groups) - kept


def rank_label(names: Sequence[str]) -> str:
    """`TP3`, `TP1-7` for neighbours, `TP1, TP4` for two others, `TP1 +3` for more."""
    if len(names) == 1:
        return names[0]
    numbers = [_natural(name) for name in names]
    first, rest = numbers[0], numbers[1:]
    neighbours = all(
        number[:-1] == first[:-1] and number[-1][1] == first[-1][1] + step for step, number in enumerate(rest, start=1)
    )
    if neighbours:
        return f"{names[0]}-{names[-1].rsplit(' ', 1)[-1].lstrip('ABCDEFGHIJKLMNOPQRSTUVWXYZ_')}"
    return ", ".join(names) if len(names) == 2 else f"{names[0]} +{len(names) - 1}"


def _place(rank: RankProgress) -> int:
    index = STAGES.index(rank.stage) if rank.stage in STAGES else -1
    if index >= _SHARED_FROM:
        return index + _SHARED_FROM
    return index + (_SHARED_FROM if rank.draft else 0)


def _natural(name: str) -> tuple[tuple[str, int], ...]:
    return tuple((word, int(number or 0)) for word, number in re.findall(r"([^\d]+)(\d*)", name)) or ((name, 0),)
