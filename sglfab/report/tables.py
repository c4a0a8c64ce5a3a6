"""Lists for a person: profiles, runs, what runs now, preflight checks, patched files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from sglfab.model import Check, Json, PatchedFile
from sglfab.report.durations import moment
from sglfab.report.page import Page
from sglfab.report.printable import in_a_row
from sglfab.report.redact import Redactor

if TYPE_CHECKING:
    # Only their shapes: a list needs no transports and no YAML.
    from sglfab.flows.status import StatusRow
    from sglfab.profiles import Summary

_HEALTH = {
    "200": ("healthy", "green"),
    "503": ("not ready", "yellow"),
    "refused": ("not listening", "yellow"),
    "timeout": ("no answer", "red"),
}
_CHECK_STYLES = {"ok": "green", "warning": "yellow", "blocker": "red"}
_FILE_STYLES = {"pristine": "", "ours": "green", "foreign": "red", "missing": "red"}


@dataclass(frozen=True)
class PatchedServer:
    """One server that runs from the patched install. active: None when it cannot be told; why: one sentence."""

    name: str  # run id, or `pid 4711`
    active: bool | None
    why: str


def print_profiles(rows: Sequence[Summary], *, console: Console, redactor: Redactor | None = None) -> None:
    """Name and description of every profile, and the file; of a broken one what is wrong with it."""
    page = Page(console, redactor)
    if not rows:
        page.line("no profiles: put YAML files into configs/profiles/ or a folder named by SGLFAB_CONFIGS")
        return
    page.columns(
        ("profile", "tp", "description"), [(row.name, str(row.tp or ""), _described(page, row)) for row in rows]
    )


def _described(page: Page, row: Summary) -> Text:
    if row.error:
        return Text("error: ", style="red") + page.text(row.error)
    details = " · ".join(part for part in (row.model, ", ".join(row.patches), row.file) if part)
    between = ("\n" if page.wraps else "  ") if row.description else ""  # elsewhere one line a profile, for grep
    return page.text(in_a_row(row.description.strip()) + between) + page.text(details, "dim")


def print_runs(runs: Sequence[Mapping[str, Json]], *, console: Console, redactor: Redactor | None = None) -> None:
    """Recorded runs as hostside's `runs` operation replies them: run.json plus alive and exit."""
    page = Page(console, redactor)
    if not runs:
        page.line("no runs are recorded here")
        return
    header = ("run", "started", "port", "state", "operator")
    page.columns(header, [_run_row(page, run) for run in runs])


def _run_row(page: Page, run: Mapping[str, Json]) -> tuple[str | Text, ...]:
    port = str((run.get("plan") or {}).get("port", ""))
    state = Text("running", style="green") if run.get("alive") else page.text(_ended(run.get("exit")), "dim")
    return str(run["id"]), moment(run.get("created")), port, state, str(run.get("operator") or "")


def _ended(exit_status: Mapping[str, Json] | None) -> str:
    if not exit_status:
        return "gone"  # the keeper died too, or the machine was rebooted: nobody wrote how it ended
    code, signal = exit_status.get("code"), exit_status.get("signal")
    return str(signal) if signal else f"exit {code}"


def print_status(
    rows: Sequence[StatusRow],
    *,
    console: Console,
    host: str = "",
    wanted: str = "",
    redactor: Redactor | None = None,
) -> None:
    """A short verdict for every live run. wanted: the flags that chose among them."""
    page = Page(console, redactor)
    at = f" on {host}" if host else ""
    if not rows:
        page.line(f"no live run of ours{at}" + (f" for {wanted}; all runs: fab runs" if wanted else ""))
    for row in rows:
        word, style = _HEALTH.get(row.health, (f"/health: {row.health}", "yellow"))
        page.line(Text(word, style=f"bold {style}") + page.text(f": {row.run}{at}"), hang=2)
        page.line(page.text(_status_details(row), "dim"), indent=2)
        if row.patches:
            page.line(page.text(f"launched with patches {', '.join(row.patches)}", "dim"), indent=2)


def _status_details(row: StatusRow) -> str:
    parts = [f"port {row.port}", f"pid {row.pid}" if row.pid else "", f"since {moment(row.since)} by {row.operator}"]
    parts.append(f"SGLang {row.sglang_version}" if row.sglang_version else "")
    return ", ".join(part for part in parts if part)


def print_checks(
    checks: Sequence[Check], *, console: Console, title: str = "preflight", redactor: Redactor | None = None
) -> None:
    """Every check, what to try where it is not ok, and one line that sums up."""
    page = Page(console, redactor)
    names = max((len(check.name) for check in checks), default=0)
    signs = {"ok": page.glyphs.done, "warning": page.glyphs.warning, "blocker": page.glyphs.failed}
    for check in checks:
        mark = Text(f"{signs.get(check.state, '?')} ", style=_CHECK_STYLES.get(check.state, ""))
        page.line(mark + page.text(f"{check.name:<{names}}  {check.text}"), hang=names + 4)
        if check.try_ and check.state != "ok":
            page.raw(" " * (names + 4) + f"try: {check.try_}")
    page.blank()
    page.line(_summary(checks, title))


def _summary(checks: Sequence[Check], title: str) -> Text:
    count = {state: sum(check.state == state for check in checks) for state in _CHECK_STYLES}
    worst = "blocker" if count["blocker"] else "warning" if count["warning"] else "ok"
    found = ", ".join(
        f"{count[state]} {state}{'s' * (count[state] > 1)}" for state in ("blocker", "warning") if count[state]
    )
    words = f": {len(checks)} check{'' if len(checks) == 1 else 's'}, " + (found or "all ok")
    return Text(f"{title}[{worst}]", style=f"bold {_CHECK_STYLES[worst]}") + Text(words)


def print_patch_status(
    files: Sequence[PatchedFile],
    *,
    console: Console,
    root: str = "",
    version: str = "",
    servers: Sequence[PatchedServer] = (),
    redactor: Redactor | None = None,
) -> None:
    """The state of every file, and whether the running servers were started with it."""
    page = Page(console, redactor)
    install = f"SGLang {version}".strip() if version else "SGLang"
    page.line(Text(f"{install}{' in ' if root else ''}", style="bold") + page.text(root, "bold"), hang=2)
    rows = [(Text(f.state, style=_FILE_STYLES.get(f.state, "")), f.path, f.detail) for f in files]
    page.columns(("state", "file", "detail"), rows, indent=2)
    for server in servers:
        word, style = {True: ("active", "green"), False: ("not active", "yellow"), None: ("unknown", "yellow")}[
            server.active
        ]
        page.line(Text(word, style=f"bold {style}") + page.text(f": {server.name}: {server.why}"), hang=2)
