"""Answers that are verdicts, and those of waits that did not come to one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from sglfab.errors import ExitCode
from sglfab.model import SCHEMA, Json, Plan, Verdict
from sglfab.report.consoles import answer_console
from sglfab.report.verdict import print_verdict, verdict_json

from ..desk import Answer, Desk, Seat, say_line
from .life import dry

if TYPE_CHECKING:
    from sglfab.flows.launch import LaunchInterrupted


def dry_wait(what: str, host: str) -> Answer:
    return dry(f"wait for {what}", host)


def started(seat: Seat, run: Json) -> Answer:
    """The answer of --no-wait."""
    plan = run["plan"]
    found = Verdict(
        "loading",
        host=seat.host.label,
        run=run["id"],
        profile=run["profile"],
        url=f"http://{plan['http_host']}:{plan['port']}",
        sglang_version=run.get("sglang_version"),
    )
    line = f"started {run['id']} on {seat.host.label}; next: {seat.line('wait-health --run ' + run['id'])}"
    return Answer(found.to_json(), show=lambda: say_line(line))


def verdict(seat: Seat, found: Verdict, *, log: str | None, changed: Sequence[str] = ()) -> Answer:
    """A verdict about a host's server, and the next command to type."""
    return _verdict(seat.desk, found, log=log, next_command=next_command(found, seat), changed=changed)


def offline_verdict(desk: Desk, found: Verdict, *, log: str | None) -> Answer:
    return _verdict(desk, found, log=log, next_command=_explain(found), changed=())


def _verdict(desk: Desk, found: Verdict, *, log: str | None, next_command: str, changed: Sequence[str]) -> Answer:
    def show() -> None:
        print_verdict(
            found,
            console=answer_console(),
            next_command=next_command,
            changed=changed,
            redactor=desk.redactor,
            log=log or "server.log",
        )

    return Answer(verdict_json(found, desk.redactor), found.exit_code, show)


def next_command(found: Verdict, seat: Seat) -> str:
    """The one line to type next."""
    if found.verdict == "ready":
        return seat.line(f"logs -f --run {found.run}") if found.run else f"curl {found.url}/model_info"
    if found.verdict in ("unreachable", "timed_out"):
        return seat.line(f"wait-health --run {found.run}") if found.run else ""
    if found.primary and found.primary.id != "unknown":
        return _explain(found)
    return seat.line(f"logs --lines 200 --run {found.run}") if found.run else ""


def _explain(found: Verdict) -> str:
    return f"fab explain {found.primary.id}" if found.primary and found.primary.id != "unknown" else ""


def interrupted(seat: Seat, so_far: Verdict, resume: str) -> Answer:
    """130: the server is untouched, the line to resume is printed; with --json the object so far."""
    return _interrupted(so_far, f"interrupted; the server is untouched. Resume: {seat.line(resume)}")


def interrupted_launch(seat: Seat, plan: Plan, stopped: LaunchInterrupted) -> Answer:
    so_far = Verdict("loading", host=seat.host.label, profile=plan.profile, sglang_version=plan.release)
    if stopped.run:
        so_far = replace(so_far, run=stopped.run["id"])
        return interrupted(seat, so_far, f"wait-health --run {stopped.run['id']}")
    ended = f"{', '.join(stopped.stopped)} was stopped; " if stopped.stopped else ""
    return _interrupted(so_far, f"interrupted; {ended}nothing was started. Again: {seat.desk.again}")


def _interrupted(so_far: Verdict, line: str) -> Answer:
    noted = replace(so_far, verdict="loading", notes=(*so_far.notes, line))
    return Answer(verdict_json(noted), ExitCode.INTERRUPTED, lambda: say_line(line, err=True))


def page(code: str, text: str) -> Answer:
    return Answer({"schema": SCHEMA, "code": code, "page": text}, show=lambda: say_line(text))
