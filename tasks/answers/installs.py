"""Answers about patches."""

from __future__ import annotations

from sglfab.flows.patch import Patched, PatchStatus, Preview
from sglfab.flows.patch_check import Checked
from sglfab.flows.patch_plugin import PluginPreview
from sglfab.model import SCHEMA
from sglfab.report import tables
from sglfab.report.consoles import answer_console

from ..desk import Answer, say_line


def patched(done: Patched, host: str) -> Answer:
    text = "\n".join([done.summary, *done.notes])
    return Answer({"schema": SCHEMA, "host": host, **done.to_json()}, show=lambda: say_line(text))


def fits_as_plugin(seen: PluginPreview, host: str, launch: str) -> Answer:
    """What `patch-debug --via plugin` has to say: the launch brings the plugin along."""
    text = f"{seen.summary}\nnothing is to be written before the launch: {launch}"
    return Answer({"schema": SCHEMA, "host": host, **seen.to_json(), "next": launch}, show=lambda: say_line(text))


def dry_patch(seen: Preview, host: str) -> Answer:
    """The diff that --dry-run shows."""
    listed = {"files": list(seen.changes), "notes": list(seen.notes)}
    payload = {"schema": SCHEMA, "host": host, "dry_run": True, **listed, "diff": seen.diff}
    text = "\n".join([f"{seen.diff}dry run: {seen.summary}; nothing was changed", *seen.notes])
    return Answer(payload, show=lambda: say_line(text))


def patch_status(found: PatchStatus, host: str) -> Answer:
    def show() -> None:
        servers = [tables.PatchedServer(s.name, s.active, s.why) for s in found.servers]
        console = answer_console()
        tables.print_patch_status(found.files, console=console, root=found.root, version=found.release, servers=servers)
        if found.notes:
            say_line("\n".join(found.notes))

    return Answer({"schema": SCHEMA, "host": host, **found.to_json()}, found.exit_code, show)


def checked(found: Checked, host: str | None) -> Answer:
    """host: of the install that was read; None: a wheel of this machine."""

    def show() -> None:
        tables.print_checks(found.checks(), console=answer_console(), title="patch-check")
        say_line(found.summary)

    where = {"host": host} if host else {}
    return Answer({"schema": SCHEMA, **where, **found.to_json()}, found.exit_code, show)
