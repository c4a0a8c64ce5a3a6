"""A recorded wait, judged again: the fold that judged it live, fed with what it was told then."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from sglfab.diagnosis.catalogue import Catalogue
from sglfab.diagnosis.judge import Judge
from sglfab.diagnosis.recording import Line, RecordedWait
from sglfab.model import Observation, Verdict


class DamagedLine(Exception):
    """An observation that does not hold what its kind holds."""

    def __init__(self, line: Line) -> None:
        super().__init__(line.seen.kind)
        self.number, self.kind = line.number, line.seen.kind


def replay(catalogue: Catalogue, wait: RecordedWait, lines: Iterable[Line], *, at_s: float | None = None) -> Verdict:
    """The verdict that ended the wait, or what was known at_s seconds into it. Raises DamagedLine."""
    judge, now_s = Judge(catalogue, expect=wait.expect), 0.0
    for line in wait.observations(lines):
        if at_s is not None and line.seen.t > at_s:
            return judge.verdict(at_s)
        now_s = max(now_s, line.seen.t)
        try:
            judge.feed(Observation(now_s, line.seen.kind, line.seen.data))
            verdict = judge.verdict(now_s)
        except (KeyError, TypeError, ValueError, AttributeError) as why:
            raise DamagedLine(line) from why
        if verdict.verdict != "loading":
            return verdict if at_s is None else _noted(verdict, f"the wait ended {now_s:.1f} s after it began")
    return _noted(judge.verdict(now_s), f"the record ends {now_s:.1f} s after the wait began, without a verdict")


def _noted(verdict: Verdict, note: str) -> Verdict:
    return replace(verdict, notes=(*verdict.notes, note))
