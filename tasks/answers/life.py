"""Answers about servers that run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from sglfab.errors import ExitCode
from sglfab.flows.runs import Wanted
from sglfab.flows.status import StatusRow
from sglfab.flows.stop import told
from sglfab.model import SCHEMA, Json
from sglfab.report import tables
from sglfab.report.consoles import answer_console

from ..desk import Answer, say_line


def dry(what: str, host: str) -> Answer:
    line = f"dry run on {host}: would {what}; nothing was changed"
    return Answer({"schema": SCHEMA, "host": host, "dry_run": True, "would": what}, show=lambda: say_line(line))


def dry_stop(what: str, host: str, *, alive: bool) -> Answer:
    return dry(f"stop {what}" if alive else f"stop what may be left of {what}", host)


def nothing_to_stop(host: str, wanted: Wanted) -> Answer:
    line = f"{host}: nothing of ours runs{f' for {wanted}' if str(wanted) else ''}"
    return Answer({"schema": SCHEMA, "host": host, "was_running": False}, show=lambda: say_line(line))


def stopped(reply: Json, what: str) -> Answer:
    failed = reply["was_running"] and not reply["stopped"]
    payload = {"schema": SCHEMA, "what": what, **reply}
    return Answer(payload, ExitCode.STUCK if failed else ExitCode.OK, lambda: say_line(told(what, reply)))


def status(rows: Sequence[StatusRow], host: str, wanted: Wanted) -> Answer:
    payload = {"schema": SCHEMA, "host": host, "runs": [asdict(row) for row in rows]}
    return Answer(
        payload, show=lambda: tables.print_status(rows, console=answer_console(), host=host, wanted=str(wanted))
    )


def runs(found: Sequence[Json], host: str) -> Answer:
    payload = {"schema": SCHEMA, "host": host, "runs": list(found)}
    return Answer(payload, show=lambda: tables.print_runs(found, console=answer_console()))


def pruned(reply: Json, host: str, *, dry: bool) -> Answer:
    verb = "would remove" if dry else "removed"
    lines = [f"{verb} {run}" for run in reply["removed"]] or [f"nothing to remove on {host}"]
    payload = {"schema": SCHEMA, "host": host, "dry_run": dry, **reply}
    return Answer(payload, show=lambda: say_line("\n".join(lines)))


def unfollowed() -> Answer:
    """Ctrl-C is how `logs -f` ends: nothing to say about it."""
    return Answer({}, ExitCode.INTERRUPTED)
