"""The start-up as a picture: one line a stage, its bar where it lay in the time."""

from __future__ import annotations

from rich.text import Text

from sglfab.model import StageSpan, Verdict
from sglfab.report.consoles import Glyphs
from sglfab.report.durations import spoken
from sglfab.report.stages import stage_name

NARROWEST, WIDEST = 12, 48
_TOOK = 7  # columns of a duration
_PERCENT = 5
_ENDED = ("crashed", "stuck", "timed_out", "unreachable")


def timeline_rows(verdict: Verdict, signs: Glyphs, width: int) -> list[Text]:
    """One row for every stage of the start-up that began; `width` columns in all."""
    spans = [span for span in verdict.timeline if span.start_s is not None and span.stage != "serving"]
    if not spans:
        return []
    goes_on = any(span.end_s is None for span in spans)
    seen_s = verdict.elapsed_s if goes_on and verdict.elapsed_s is not None else 0.0
    end_s = max([seen_s, *(span.end_s or span.start_s or 0.0 for span in spans)])
    names = max(len(stage_name(span.stage, span.draft)) for span in spans)
    room = max(NARROWEST, min(WIDEST, width - names - _TOOK - _PERCENT - 3))
    return [_row(span, verdict, signs, names=names, room=room, end_s=end_s) for span in spans]


def _row(span: StageSpan, verdict: Verdict, signs: Glyphs, *, names: int, room: int, end_s: float) -> Text:
    start_s = span.start_s or 0.0
    stop_s = end_s if span.end_s is None else span.end_s
    left, filled = _place(start_s, stop_s, end_s, room)
    row = Text(f"{stage_name(span.stage, span.draft):<{names}}  {' ' * left}")
    row += _bar(filled, broken=span.end_s is None and verdict.verdict in _ENDED, signs=signs)
    row += Text(f"{' ' * (room - left - filled)} {spoken(stop_s - start_s):>{_TOOK}}")
    reached = f"{span.progress:.0%}" if span.end_s is None and span.progress is not None else ""
    return row + Text(f"{reached:>{_PERCENT}}" if reached else "", style="dim")


def _bar(filled: int, *, broken: bool, signs: Glyphs) -> Text:
    if not broken:
        return Text(signs.bar * filled)
    return Text(signs.bar * (filled - 1) + signs.failed, style="red")


def _place(start_s: float, stop_s: float, end_s: float, room: int) -> tuple[int, int]:
    """First column and number of columns: at least one, never beyond the room; neighbours in time touch."""
    scale = room / end_s if end_s > 0 else 0.0
    left = min(room - 1, max(0, round(start_s * scale)))
    return left, max(1, min(room, round(stop_s * scale)) - left)
