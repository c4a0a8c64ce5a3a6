"""A snapshot of a wait as lines for the live view: ranks, health, what is left, the last log line."""

from __future__ import annotations

import re

from rich.cells import cell_len
from rich.text import Text

from sglfab.model import RankProgress, StageSpan, WatchView
from sglfab.report.consoles import UNICODE, Glyphs
from sglfab.report.durations import spoken
from sglfab.report.printable import one_line
from sglfab.report.redact import Redactor
from sglfab.report.stages import RankGroup, current_span, eta_text, fitting, grouped, stage_name

BAR_WIDTH = 16
HEALTH = {
    "": "not asked yet",
    "refused": "refused",
    "503": "503, not ready",
    "200": "200",
    "timeout": "no answer",
    "other": "an unexpected answer",
}
_OF_MAIN = ("http", "warmup", "serving")  # the ranks are through: their rows would only stand still
_STAMP = re.compile(r"^\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:[.,]\d+)?(?: ([^\]]*))?\] ?")
_AROUND = 4  # lines of the picture that are no rank: the headline, what is done, what is left, the last log line


def table(view: WatchView, *, redactor: Redactor, signs: Glyphs, width: int, height: int) -> list[Text]:
    """Lines of at most `width` columns, at most `height` of them; the headline is the caller's."""
    groups, left_out = fitting(_groups(view), max(2, height - _AROUND))
    lines = _rank_rows(groups, signs)
    if left_out:
        lines.append(Text(f"{signs.ellipsis} and {left_out} more rows", style="dim"))
    lines += [line for line in (_done(view, signs, width), _left(view), _last_line(view, redactor)) if line]
    for line in lines:
        line.rstrip()
        line.truncate(width, overflow="ellipsis" if signs is UNICODE else "crop")
    return lines[:height]


def headline(view: WatchView, elapsed_s: float, signs: Glyphs) -> Text:
    """`load-weights · 3m20s · /health refused · 9 processes`."""
    parts = [spoken(int(elapsed_s)), health(view)]
    if view.alive is not None:
        parts.append(f"{view.alive} process{'' if view.alive == 1 else 'es'} alive")
    return Text(stage_name(view.stage, view.draft), style="bold") + Text(signs.dot + signs.dot.join(parts))


def health(view: WatchView) -> str:
    """`/health refused`, `/health an unexpected answer (HTTP 404)`."""
    detail = one_line(view.http_detail)
    return f"/health {HEALTH.get(view.http, view.http)}" + (f" ({detail})" if detail else "")


def bar(progress: float | None, signs: Glyphs, width: int = BAR_WIDTH) -> Text:
    if progress is None:
        return Text(signs.track * width, style="dim")
    filled = round(min(1.0, max(0.0, progress)) * width)
    return Text(signs.bar * filled) + Text(signs.track * (width - filled), style="dim")


def _groups(view: WatchView) -> tuple[RankGroup, ...]:
    if view.stage in _OF_MAIN:
        return ()
    if view.ranks:
        return grouped(view.ranks)
    span = current_span(view.timeline)
    if span is None or span.progress is None:
        return ()
    return (RankGroup("", RankProgress("", span.stage, span.draft, span.progress), slowest=False),)


def _rank_rows(groups: tuple[RankGroup, ...], signs: Glyphs) -> list[Text]:
    names = max((cell_len(group.label) for group in groups), default=0)
    stages = max((len(stage_name(g.progress.stage, g.progress.draft)) for g in groups), default=0)
    return [_rank_row(group, names, stages, signs) for group in groups]


def _rank_row(group: RankGroup, names: int, stages: int, signs: Glyphs) -> Text:
    at = group.progress
    percent = "" if at.progress is None else f"{at.progress:.0%}"
    row = Text(f"{group.label:<{names}}  {stage_name(at.stage, at.draft):<{stages}}  ")
    row += bar(at.progress, signs) + Text(f" {percent:>4}  {at.detail}")
    return row + Text(f"  {signs.slowest}", style="yellow") if group.slowest else row


def _done(view: WatchView, signs: Glyphs, width: int) -> Text | None:
    """What took time, as much of it as fits: the latest stages tell most."""
    words = [_span_text(s) for s in view.timeline if s.start_s is not None and s.end_s is not None and _took(s) >= 0.5]
    left_out = False
    while words and cell_len(signs.dot.join(words)) > width - 10:
        words, left_out = words[1:], True
    if not words:
        return None
    return Text("done  " + signs.dot.join([signs.ellipsis, *words] if left_out else words), style="dim")


def _took(span: StageSpan) -> float:
    return (span.end_s or 0.0) - (span.start_s or 0.0)


def _span_text(span: StageSpan) -> str:
    return f"{stage_name(span.stage, span.draft)} {spoken(_took(span))}"


def _left(view: WatchView) -> Text | None:
    span = current_span(view.timeline)
    words = eta_text(span, view.start_left_s) if span else ""
    return Text("left  " + words, style="dim") if words else None


def _last_line(view: WatchView, redactor: Redactor) -> Text | None:
    if not view.last_line:
        return None
    age = "" if view.last_line_age_s is None else f"{spoken(int(view.last_line_age_s))} ago: "
    # Its age is said already: the room is for what it says.
    line = _STAMP.sub(lambda found: f"{found[1]} " if found[1] else "", one_line(redactor.text(view.last_line)))
    return Text("log   " + age + line, style="dim")
