"""The start-up as a picture: one line a stage, its bar where it lay in the time."""

from __future__ import annotations

from rich.text import Text

from sglfab.model import StageSpan, Verdict
from sglfab.report.consoles import Glyphs
from sglfab.report.durations import spoken
from sglfab.report.stages import eta_text, stage_name

NARROWEST, WIDEST = 12, 48
_TOOK = 7  # columns of a duration
_ENDED = ("crashed", "stuck", "timed_out", "unreachable")


def timeline_rows(verdict: Verdict, signs: Glyphs, width: int) -> list[Text]:
    """One row for every stage that began; `width` columns in all."""
    spans = [span for span in verdict.timeline if span.start_s is not None]
    if not spans:
        return []
    end_s = max([verdict.elapsed_s or 0.0, *(span.end_s or span.start_s or 0.0 for span in spans)])
    names = max(len(stage_name(span.stage, span.draft)) for span in spans)
    room = max(NARROWEST, min(WIDEST, width - names - _TOOK - 4))
    return [_row(span, verdict, signs, names=names, room=room, end_s=end_s) for span in spans]


def _row(span: StageSpan, verdict: Verdict, signs: Glyphs, *, names: int, room: int, end_s: float) -> Text:
    start_s = span.start_s or 0.0
    open_end = span.end_s is None
    stop_s = end_s if span.end_s is None else span.end_s
    left, filled = _place(start_s, stop_s, end_s, room)
    bad = open_end and verdict.verdict in _ENDED
    row = Text(f"{stage_name(span.stage, span.draft):<{names}}  {' ' * left}")
    row += Text(signs.bar * (filled - bad), style="red" if bad else "")
    row += Text(signs.failed, style="red") if bad else Text("")
    row += Text(f"{' ' * (room - left - filled)} {spoken(stop_s - start_s):>{_TOOK}}")
    notes = [
        f"{span.progress:.0%}" if open_end and span.progress is not None else "",
        eta_text(span) if open_end else "",
    ]
    shown = ", ".join(note for note in notes if note)
    return row + Text(f"  {shown}", style="dim") if shown else row


def _place(start_s: float, stop_s: float, end_s: float, room: int) -> tuple[int, int]:
    """First column and number of columns: at least one, never beyond the room."""
    scale = room / end_s if end_s > 0 else 0.0
    left = min(room - 1, int(start_s * scale))
    return left, max(1, min(room - left, round((stop_s - start_s) * scale)))
