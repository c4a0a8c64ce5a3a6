"""Records of the flows → Answers: the JSON object, the exit code, the text."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict, replace

from sglfab.commands import explain_render
from sglfab.errors import ExitCode
from sglfab.flows.launch import Prepared
from sglfab.flows.patch import Patched, PatchStatus, Preview
from sglfab.flows.runs import Wanted
from sglfab.flows.status import StatusRow
from sglfab.flows.wait import Interrupted
from sglfab.model import SCHEMA, Json, Plan, Profile, Verdict
from sglfab.profiles import Summary
from sglfab.report import tables
from sglfab.report.consoles import answer_console
from sglfab.report.plan import Effects, print_plan, print_render
from sglfab.report.verdict import print_verdict, verdict_json

from .desk import Answer, Desk, Seat


def _text(line: str, *, err: bool = False) -> None:
    print(line, file=sys.stderr if err else sys.stdout, flush=True)


def rendered(plan: Plan, profile: Profile) -> Answer:
    rows = explain_render(plan, profile)
    payload = {
        "schema": SCHEMA,
        "profile": plan.profile,
        "release": plan.release,
        "release_source": plan.release_source,
        "argv": list(plan.argv),
        "env": dict(plan.env),
        "rows": [asdict(row) for row in rows],
        "notes": list(plan.notes),
    }
    return Answer(payload, show=lambda: print_render(rows, console=answer_console(), plan=plan))


def profiles(found: Sequence[Summary]) -> Answer:
    payload = {"schema": SCHEMA, "profiles": [asdict(row) for row in found]}
    return Answer(payload, show=lambda: tables.print_profiles(found, console=answer_console()))


def preflight(prepared: Prepared, host: str, *, takeover: bool) -> Answer:
    checks = prepared.readiness.checks
    blocked = [check for check in prepared.readiness.blockers if not (takeover and check.name == "other-operator")]
    payload = {"schema": SCHEMA, "host": host, "profile": prepared.plan.profile, "checks": [asdict(c) for c in checks]}
    code = ExitCode.PREFLIGHT if blocked else ExitCode.OK
    return Answer(payload, code, lambda: tables.print_checks(checks, console=answer_console()))


def dry_launch(prepared: Prepared, host: str, *, takeover: bool) -> Answer:
    """The plan; the exit code is 10 when preflight would forbid the launch, as it would be without --dry-run."""
    effects = Effects(
        stops=tuple(f"run {run['id']} (port {run['plan']['port']})" for run in prepared.readiness.replaces),
        patches=(prepared.patch.summary,) if prepared.patch else (),
    )
    checked = preflight(prepared, host, takeover=takeover)
    payload = {**checked.payload, "dry_run": True, "effects": asdict(effects), "plan": prepared.plan.to_json()}

    def show() -> None:
        print_plan(prepared.plan, effects, console=answer_console(), host=host)
        if checked.exit_code:
            checked.show()

    return Answer(payload, checked.exit_code, show)


def _dry(what: str, host: str) -> Answer:
    line = f"dry run on {host}: would {what}; nothing was changed"
    return Answer({"schema": SCHEMA, "host": host, "dry_run": True, "would": what}, show=lambda: _text(line))


def dry_stop(what: str, host: str) -> Answer:
    return _dry(f"stop {what}", host)


def dry_wait(what: str, host: str) -> Answer:
    return _dry(f"wait for {what}", host)


def started(run: Json, host: str) -> Answer:
    """The answer of --no-wait."""
    payload = Verdict("loading", host=host, run=run["id"], profile=run["profile"]).to_json()
    return Answer(
        payload, show=lambda: _text(f"started {run['id']} on {host}; next: fab wait-health --run {run['id']}")
    )


def nothing_to_stop(host: str, wanted: Wanted) -> Answer:
    line = f"{host}: nothing of ours runs{f' for {wanted}' if str(wanted) else ''}"
    return Answer({"schema": SCHEMA, "host": host, "was_running": False}, show=lambda: _text(line))


def stopped(reply: Json, what: str) -> Answer:
    from sglfab.flows.stop import told

    failed = reply["was_running"] and not reply["stopped"]
    payload = {"schema": SCHEMA, "what": what, **reply}
    return Answer(payload, ExitCode.STUCK if failed else ExitCode.OK, lambda: _text(told(what, reply)))


def status(rows: Sequence[StatusRow], host: str) -> Answer:
    payload = {"schema": SCHEMA, "host": host, "runs": [asdict(row) for row in rows]}
    return Answer(payload, show=lambda: tables.print_status(rows, console=answer_console(), host=host))


def runs(found: Sequence[Json], host: str) -> Answer:
    payload = {"schema": SCHEMA, "host": host, "runs": list(found)}
    return Answer(payload, show=lambda: tables.print_runs(found, console=answer_console()))


def pruned(reply: Json, host: str, *, dry: bool) -> Answer:
    verb = "would remove" if dry else "removed"
    lines = [f"{verb} {run}" for run in reply["removed"]] or [f"nothing to remove on {host}"]
    payload = {"schema": SCHEMA, "host": host, "dry_run": dry, **reply}
    return Answer(payload, show=lambda: _text("\n".join(lines)))


def verdict(seat: Seat, found: Verdict, *, log: str | None) -> Answer:
    """A verdict about a host's server, and the next command to type."""
    return _verdict(seat.desk, found, log=log, next_command=next_command(found, seat.host.label))


def offline_verdict(desk: Desk, found: Verdict, *, log: str) -> Answer:
    return _verdict(desk, found, log=log, next_command=_explain(found))


def _verdict(desk: Desk, found: Verdict, *, log: str | None, next_command: str) -> Answer:
    def show() -> None:
        console = answer_console()
        print_verdict(
            found, console=console, next_command=next_command, redactor=desk.redactor, log=log or "server.log"
        )

    return Answer(verdict_json(found, desk.redactor), found.exit_code, show)


def next_command(found: Verdict, host: str) -> str:
    """The one line to type next."""
    fab = "fab" if host == "local" else f"fab -H {host}"
    which = f" --run {found.run}" if found.run else ""
    if found.verdict == "ready":
        return f"{fab} logs -f{which}" if found.run else f"curl {found.url}/model_info"
    if found.verdict == "unreachable":
        return f"{fab} wait-health{which}"
    if found.primary and found.primary.id != "unknown":
        return _explain(found)
    return f"{fab} logs --lines 200{which}" if found.run else ""


def _explain(found: Verdict) -> str:
    return f"fab explain {found.primary.id}" if found.primary and found.primary.id != "unknown" else ""


def interrupted(stopped: Interrupted, resume: str) -> Answer:
    """130: the server is untouched, the line to resume is printed; with --json the object so far."""
    line = f"interrupted; the server is untouched. Resume: {resume}"
    so_far = replace(stopped.verdict, notes=(*stopped.verdict.notes, line))
    return Answer(verdict_json(so_far), ExitCode.INTERRUPTED, lambda: _text(line, err=True))


def interrupted_launch(profile: str, host: str) -> Answer:
    at = "" if host == "local" else f" -H {host}"
    return interrupted(
        Interrupted(Verdict("loading", host=host, profile=profile)), f"fab{at} wait-health --profile {profile}"
    )


def page(code: str, text: str) -> Answer:
    return Answer({"schema": SCHEMA, "code": code, "page": text}, show=lambda: _text(text))


def patched(done: Patched, host: str) -> Answer:
    return Answer(
        {"schema": SCHEMA, "host": host, **done.to_json()}, show=lambda: _text("\n".join([done.summary, *done.notes]))
    )


def dry_patch(seen: Preview, host: str) -> Answer:
    """The diff that --dry-run shows."""
    payload = {"schema": SCHEMA, "host": host, "dry_run": True, "files": list(seen.changes), "diff": seen.diff}
    return Answer(payload, show=lambda: _text(f"{seen.diff}dry run: {seen.summary}; nothing was changed"))


def patch_status(found: PatchStatus, host: str) -> Answer:
    def show() -> None:
        servers = [tables.PatchedServer(s.name, s.active, s.why) for s in found.servers]
        console = answer_console()
        tables.print_patch_status(found.files, console=console, root=found.root, version=found.release, servers=servers)
        _text("\n".join(found.notes)) if found.notes else None

    return Answer({"schema": SCHEMA, "host": host, **found.to_json()}, found.exit_code, show)
