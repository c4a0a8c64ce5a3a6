"""Outcome: what one judge (deaths, readiness, stall) concluded, before it is shaped into a Verdict."""

from __future__ import annotations

from dataclasses import dataclass

from sglfab.diagnosis.logverdict import LogVerdict
from sglfab.model import Finding


@dataclass(frozen=True)
class Outcome:
    """A verdict with what carries it. log: the log's own verdict that it rests on."""

    verdict: str
    primary: Finding | None = None
    findings: tuple[Finding, ...] = ()
    neighbours: tuple[str, ...] = ()
    ruled_out: tuple[str, ...] = ()
    gaps: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    log: LogVerdict | None = None
