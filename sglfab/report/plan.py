"""What a launch would do, and where every value of its command came from."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from sglfab.model import Plan, SecretSource
from sglfab.report.command import command_lines
from sglfab.report.page import Page
from sglfab.report.printable import in_a_row
from sglfab.report.redact import MASK, Redactor
from sglfab.report.secret_names import holds_secret

if TYPE_CHECKING:
    from sglfab.commands import Row  # only its shape

_RELEASES = {
    "--release": "as asked with --release",
    "host": "as installed on the host",
    "assumed": "assumed: the newest known",
}
_KINDS = (("flag", "flag"), ("env", "variable"), ("setting", "setting"))


@dataclass(frozen=True)
class Effects:
    """What a launch would change on the host, in words: each one line."""

    stops: tuple[str, ...] = ()
    patches: tuple[str, ...] = ()
    starts: tuple[str, ...] = ()


def print_plan(plan: Plan, effects: Effects, *, console: Console, host: str, redactor: Redactor | None = None) -> None:
    """A dry run: what would be stopped, patched and started, then the exact command, environment and script."""
    page = Page(console, redactor)
    page.line(Text("dry run: ", style="bold") + page.text(f"{plan.profile} on {host}; nothing was changed"))
    rows = [("would stop", effects.stops), ("would patch", effects.patches), ("would start", _starts(plan, effects))]
    for name, items in rows:
        for item in items or ("nothing",):
            page.line(Text(f"{name:<11}  ", style="bold") + page.text(item), indent=2, hang=13)
    _command(page, plan.argv)
    _settings(page, plan)
    page.block("Notes", plan.notes)
    _script(page, "launch.sh", plan.script)
    if plan.starter:
        _script(page, "start.py", plan.starter)


def print_render(
    rows: Sequence[Row], *, console: Console, plan: Plan | None = None, redactor: Redactor | None = None
) -> None:
    """Name, value and origin of every row, by kind; with `plan` also the release, notes and the command to copy."""
    page = Page(console, redactor)
    if plan:
        page.line(Text(f"{plan.profile} for {_release(plan)}", style="bold"))
    tables = [
        (title, [(r.name, _value(r), r.origin.strip()) for r in rows if r.kind == kind]) for kind, title in _KINDS
    ]
    fits = all(_fits(page, listed) for _, listed in tables)
    for title, listed in tables:
        _rows(page, title, listed, in_columns=fits)
    if plan:
        page.block("Notes", plan.notes)
        _command(page, plan.argv)


def _value(row: Row) -> str:
    return MASK if holds_secret(row.name, row.value) else in_a_row(row.value)


def _rows(page: Page, title: str, rows: Sequence[tuple[str, str, str]], *, in_columns: bool) -> None:
    if not rows:
        return
    page.blank()
    if in_columns:
        page.columns(
            (title, "value", "from"), [(name, value, page.text(origin, "dim")) for name, value, origin in rows]
        )
        return
    page.raw(Text(title, style="bold"))
    _by_file(page, rows)


def _by_file(page: Page, rows: Sequence[tuple[str, str, str]]) -> None:
    """Too wide for three columns: each file once, its rows below it with their line numbers."""
    last, names = "", max(cell_len(name) for name, _, _ in rows)
    for name, value, origin in rows:
        file, line, note = _split(origin)
        if file != last:
            page.line(page.text(file, "dim"), indent=2, hang=2)
            last = file
        words = f"{name:<{names}}  {value}".rstrip() if value else name
        page.line(page.text(f"{line:>4}  ", "dim") + page.text(words), indent=2, hang=10)
        if note:
            page.line(page.text(note, "dim"), indent=10, hang=2)


def _split(origin: str) -> tuple[str, str, str]:
    """`configs/a.yaml:5: why` → file, line, why; words without a line stand for the file."""
    found = re.fullmatch(r"([^:,]+):(\d+)(?:$|[: ]+(.*))", origin)
    return (found[1], found[2], found[3] or "") if found else (origin, "", "")


def _starts(plan: Plan, effects: Effects) -> tuple[str, ...]:
    return effects.starts or (f"{plan.profile} on port {plan.port}, for {_release(plan)}",)


def _release(plan: Plan) -> str:
    return f"SGLang {plan.release} ({_RELEASES.get(plan.release_source, plan.release_source)})"


def _fits(page: Page, rows: Sequence[tuple[str, str, str]]) -> bool:
    if not page.wraps or not rows:
        return True
    return sum(max(map(cell_len, column)) for column in zip(*rows, strict=True)) + 4 <= page.width


def _command(page: Page, argv: Sequence[str]) -> None:
    page.blank()
    page.raw(Text("Command", style="bold"))
    for line in command_lines(argv):
        page.raw(page.text("  " + line))


def _settings(page: Page, plan: Plan) -> None:
    page.block("Environment", [f"{name}={in_a_row(value)}" for name, value in plan.env])
    page.block("Before the server", [*([f"cd {plan.cwd}"] if plan.cwd else []), *plan.setup])
    page.block("Limits", [f"{name}={value}" for name, value in plan.ulimits])
    page.block("Secrets", [f"{secret.target}, from {_source(secret)}" for secret in plan.secrets])


def _source(secret: SecretSource) -> str:
    if secret.env:
        return f"the environment variable {secret.env} of this machine"
    return f"the file {secret.file}" if secret.file else f"the command {secret.command}"


def _script(page: Page, name: str, text: str) -> None:
    page.blank()
    page.raw(Text(name, style="bold"))
    for line in text.splitlines():
        page.raw(page.text("  " + line, "dim"))
