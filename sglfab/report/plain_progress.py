"""A wait as plain lines: one when something changed, and a heartbeat when nothing did."""

from __future__ import annotations

from sglfab.model import RankProgress, StageSpan, WatchView
from sglfab.report.durations import spoken
from sglfab.report.printable import cropped, one_line
from sglfab.report.redact import Redactor
from sglfab.report.stage_table import health
from sglfab.report.stages import current_span, eta_text, slowest, stage_name

LINE_LIMIT = 300  # characters of the last log line
STEP = 0.1  # progress of the slowest rank that is worth a line of its own


class PlainProgress:
    """Chooses what to say about snapshots; knows no clock and no console."""

    def __init__(self, redactor: Redactor, *, heartbeat_s: float) -> None:
        self._redactor = redactor
        self._heartbeat_s = heartbeat_s
        self._key: object = None
        self._view: WatchView | None = None
        self._alive: int | None = None
        self._said_s = 0.0

    def lines(self, view: WatchView, now_s: float) -> list[str]:
        """Lines without the time of day: none while nothing is worth one."""
        due = now_s - self._said_s >= self._heartbeat_s
        key = _key(view)
        fewer = self._fewer(view)
        if key != self._key or fewer:
            return self._say(view, key, now_s, _progress(view) + fewer)
        if not due:
            return []
        moved = self._view is None or _moving(view) != _moving(self._view)
        return self._say(view, key, now_s, _progress(view) if moved else self._still(view))

    def _say(self, view: WatchView, key: object, now_s: float, line: str) -> list[str]:
        self._key, self._view, self._said_s = key, view, now_s
        return [line]

    def _fewer(self, view: WatchView) -> str:
        """What a process less is worth; while a server starts, more and more come, which is worth nothing."""
        before, self._alive = self._alive, view.alive
        lost = before is not None and view.alive is not None and view.alive < before
        return f", {view.alive} processes alive" if lost else ""

    def _still(self, view: WatchView) -> str:
        still = f"still {stage_name(view.stage, view.draft)} ({spoken(view.elapsed_s)})"
        if not view.last_line:
            return still + ", no log line yet"
        age = "" if view.last_line_age_s is None else f" {spoken(int(view.last_line_age_s))} ago"
        return f"{still}, last log line{age}: {cropped(one_line(self._redactor.text(view.last_line)), LINE_LIMIT)}"


def _progress(view: WatchView) -> str:
    """`stage load-weights TP3 27/64 shards 42% /health refused (3m20s)`."""
    words = ["stage", stage_name(view.stage, view.draft)]
    rank = _shown_rank(view)
    if rank is not None:
        words += [rank.rank, rank.detail, "" if rank.progress is None else f"{rank.progress:.0%}"]
    words += [health(view), f"({spoken(view.elapsed_s)})"]
    span = current_span(view.timeline)
    eta = eta_text(span, view.start_left_s) if span else ""
    return " ".join(word for word in words if word) + (f", {eta}" if eta else "")


def _shown_rank(view: WatchView) -> RankProgress | None:
    """The slowest rank, else the first one that says how far it is."""
    behind = slowest(view.ranks)
    named = [r for r in view.ranks if r.rank == behind] or [r for r in view.ranks if r.progress is not None]
    return named[0] if named else None


def _key(view: WatchView) -> object:
    rank = _shown_rank(view)
    step = None if rank is None or rank.progress is None else (rank.stage, rank.draft, int(rank.progress / STEP + 1e-9))
    return view.stage, view.draft, view.http, view.http_detail, step


def _moving(view: WatchView) -> tuple[tuple[RankProgress, ...], tuple[StageSpan, ...]]:
    return view.ranks, tuple(s for s in view.timeline if s.end_s is not None)
