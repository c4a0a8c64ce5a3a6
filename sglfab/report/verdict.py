"""The verdict for a person: what happened, the evidence, what was ruled out, what changed, one next command."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.text import Text

from sglfab.model import Evidence, Finding, Json, Verdict
from sglfab.report.durations import spoken
from sglfab.report.page import Page
from sglfab.report.printable import cropped, one_line
from sglfab.report.redact import Redactor
from sglfab.report.stages import current_span, eta_text, stage_name
from sglfab.report.timeline import timeline_rows

STYLES = {
    "ready": "bold green",
    "loading": "bold",
    "crashed": "bold red",
    "stuck": "bold red",
    "timed_out": "bold red",
    "unreachable": "bold red",
    "degraded": "bold yellow",
}
EVIDENCE_LIMIT = 400  # characters of one line of evidence on a terminal; --json has all of it
SHOWN_FINDINGS = 5


def print_verdict(
    verdict: Verdict,
    *,
    console: Console,
    next_command: str,
    changed: Sequence[str] = (),
    redactor: Redactor | None = None,
    log: str = "server.log",
) -> None:
    """The whole verdict.

    changed: what differs from this profile's last ready run. log: the log's name as one would type it.
    """
    page = Page(console, redactor)
    page.line(_headline(verdict, page), hang=2)
    where = _where(verdict)
    if where:
        page.line(Text(where, style="dim"), indent=2)
    if verdict.primary:
        _finding(page, verdict.primary, log)
    _further(page, verdict)
    page.block("Ruled out", verdict.ruled_out)
    page.block("Could not be looked at", verdict.gaps, style="yellow")
    page.block("Changed since this profile was last ready", changed)
    page.block("Notes", verdict.notes)
    page.block("Timeline", timeline_rows(verdict, page.glyphs, page.width - 4))
    if next_command:
        page.blank()
        page.raw(Text("next: ", style="bold") + page.text(next_command))


def verdict_json(verdict: Verdict, redactor: Redactor | None = None) -> Json:
    """The JSON contract of product.md, redacted; `write_json` puts it on stdout."""
    shape: Json = (redactor or Redactor()).value(verdict.to_json())
    return shape


def verdict_line(verdict: Verdict) -> str:
    """One line that stands alone: `crashed[cuda-graph-oom]: … · TP3 · eagle3-debug on gpu1`."""
    found = verdict.primary
    parts = [_what(verdict), (found.rank or "") if found else "", _server(verdict)]
    return f"{_code(verdict)}: " + " · ".join(part for part in parts if part)


def _code(verdict: Verdict) -> str:
    return f"{verdict.verdict}[{verdict.primary.id}]" if verdict.primary else verdict.verdict


def _headline(verdict: Verdict, page: Page) -> Text:
    line = page.text(verdict_line(verdict).replace(" · ", page.glyphs.dot))
    line.stylize(STYLES.get(verdict.verdict, "bold"), 0, len(_code(verdict)))
    return line


def _what(verdict: Verdict) -> str:
    if verdict.primary:
        return verdict.primary.title
    stage, took = stage_name(verdict.stage, verdict.draft), _after(verdict)
    match verdict.verdict:
        case "ready":
            return "serving" + (f" at {verdict.url}" if verdict.url else "") + took
        case "loading":
            return f"in {stage}" + took + _left(verdict)
        case "timed_out":
            return f"the deadline passed in {stage}" + took
    return f"in {stage}" + took


def _after(verdict: Verdict) -> str:
    return "" if verdict.elapsed_s is None else f" after {spoken(verdict.elapsed_s)}"


def _left(verdict: Verdict) -> str:
    span = current_span(verdict.timeline)
    if span is None:
        return ""
    done = "" if span.progress is None else f", {span.progress:.0%}"
    eta = eta_text(span)
    return done + (f", {eta}" if eta else "")


def _server(verdict: Verdict) -> str:
    name = verdict.profile or verdict.run or ""
    return " on ".join(part for part in (name, verdict.host or "") if part)


def _where(verdict: Verdict) -> str:
    """`in capture-graphs (draft), after 3m32s, exit -9 (SIGKILL), SGLang 0.5.12, run …`."""
    parts = []
    if verdict.primary:
        parts.append(f"in {stage_name(verdict.stage, verdict.draft)}{_after(verdict)}")
        parts.append(f"confidence {verdict.primary.confidence}")
    if verdict.exit:
        signal = f" ({verdict.exit.signal})" if verdict.exit.signal else ""
        parts.append(f"exit {verdict.exit.code}{signal}")
    parts += [f"SGLang {verdict.sglang_version}"] if verdict.sglang_version else []
    parts += [f"run {verdict.run}"] if verdict.run else []
    return ", ".join(parts)


def _finding(page: Page, found: Finding, log: str) -> None:
    if found.evidence:
        page.blank()
        page.raw(Text("Evidence", style="bold"))
    for evidence in found.evidence:
        page.raw(page.text(evidence_place(evidence, log), "dim"))
        page.line(page.text(cropped(one_line(evidence.text), EVIDENCE_LIMIT)), indent=4, hang=2)
    page.block("What to do", _listed(found.advice))


def evidence_place(evidence: Evidence, log: str) -> str:
    """`server.log:1412  TP3  2026-… ` of a log line, else the name of the source."""
    place = log if evidence.source == "log" else evidence.source
    at = f"{place}:{evidence.line}" if evidence.line is not None else place
    return "  " + "  ".join(part for part in (at, evidence.rank, evidence.time) if part)


def _listed(items: Sequence[str]) -> Iterator[str]:
    return (f"- {item}" for item in items)


def _further(page: Page, verdict: Verdict) -> None:
    others = [found for found in verdict.findings if found != verdict.primary]
    rows = [f"{found.severity}[{found.id}]: {found.title}" for found in others[:SHOWN_FINDINGS]]
    if len(others) > SHOWN_FINDINGS:
        rows.append(f"and {len(others) - SHOWN_FINDINGS} more: --json lists all")
    page.block("Also found", rows)
    if verdict.consequences:
        line, text = verdict.consequences[0]
        count = len(verdict.consequences)
        first = f"line {line}: {cropped(one_line(text), EVIDENCE_LIMIT // 2)}"
        page.block(
            "Consequences, not causes", [first if count == 1 else f"{count} lines, beginning with {first}"], style="dim"
        )
    page.block(
        "Nearest known findings",
        [f"{', '.join(verdict.neighbours)} (fab explain ID)"] if verdict.neighbours else [],
    )
