"""What a verb does on one host: call a flow, give an Answer. The only place where flows are put together."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from dataclasses import dataclass

from sglfab.diagnosis import catalogue
from sglfab.errors import InputError
from sglfab.flows import judging, secrets
from sglfab.flows import launch as launching
from sglfab.flows import logs as log_flow
from sglfab.flows import patch as patch_flow
from sglfab.flows import preflight as checking
from sglfab.flows import runs as run_flow
from sglfab.flows import status as status_flow
from sglfab.flows import stop as stopping
from sglfab.flows.judging import Foreign
from sglfab.flows.runs import Wanted
from sglfab.flows.wait import Interrupted
from sglfab.model import Json, Plan, Profile, WaitSettings, plan_from_json
from sglfab.profiles import load

from . import answers, edge
from .desk import Answer, Desk, Seat

DEFAULT_GRACE_S = 30.0


def render(seat: Seat, profile: Profile, release: str | None) -> Answer:
    seen: Json = {"sglang": None}
    if release is None:
        with suppress(InputError):  # no python there: the newest known release is assumed, and said
            seen = seat.host.call("facts", {})
    plan = launching.plan_for(seat.project, profile, seen, release)
    return answers.rendered(plan, profile)


def preflight(seat: Seat, profile: Profile, *, takeover: bool) -> Answer:
    prepared = _prepare(seat, profile)
    return answers.preflight(prepared, seat.host.label, takeover=takeover)


def _prepare(seat: Seat, profile: Profile) -> launching.Prepared:
    seen = checking.facts(seat.host)
    plan = launching.plan_for(seat.project, profile, seen, None)
    return launching.prepare(seat.project, seat.host, plan, seen, seat.desk.operator)


def launch(seat: Seat, profile: Profile, *, wait: bool, takeover: bool) -> Answer:
    return _bring_up(seat, _prepare(seat, profile), wait=wait, takeover=takeover, deadline_s=None)


def _bring_up(
    seat: Seat, prepared: launching.Prepared, *, wait: bool, takeover: bool, deadline_s: float | None
) -> Answer:
    if seat.desk.dry:
        return answers.dry_launch(prepared, seat.host.label, takeover=takeover)
    values = secrets.resolve(prepared.plan.secrets, os.environ)
    seat.desk.hide(tuple(values.values()))
    order = launching.Order(seat.desk.operator, values, takeover)
    try:
        run = launching.launch(seat.project, seat.host, prepared, order, report=seat.report, clock=seat.desk.clock)
    except KeyboardInterrupt:
        return answers.interrupted_launch(prepared.plan.profile, seat.host.label)
    if not wait:
        return answers.started(run, seat.host.label)
    return wait_run(seat, Wanted(run=run["id"]), deadline_s=deadline_s)


@dataclass(frozen=True)
class Again:
    """What `fab restart` was asked."""

    wanted: Wanted
    render: bool
    sets: tuple[str, ...]
    deadline: float | None


def restart(seat: Seat, again: Again, *, wait: bool, takeover: bool) -> Answer:
    if again.sets and not again.render:
        raise InputError(
            "set-needs-render",
            "restart repeats the recorded plan; --set changes it",
            where="--set",
            try_="--render --set …",
        )
    run = run_flow.choose(seat.host, again.wanted, dead_ok=True)
    recorded = plan_from_json(run["plan"])
    seen = checking.facts(seat.host)
    plan = _anew(seat, run, again, seen) if again.render else recorded
    prepared = launching.prepare(seat.project, seat.host, plan, seen, seat.desk.operator)
    return _bring_up(seat, prepared, wait=wait, takeover=takeover, deadline_s=again.deadline)


def _anew(seat: Seat, run: Json, again: Again, seen: Json) -> Plan:
    return launching.plan_for(seat.project, load(seat.project, run["profile"], sets=again.sets), seen, None)


def stop(seat: Seat, wanted: Wanted, *, pid: int | None, yes: bool, grace_s: float | None) -> Answer:
    if pid is not None:
        return _stop_foreign(seat, pid, yes=yes, grace_s=grace_s or DEFAULT_GRACE_S)
    try:
        run = run_flow.choose(seat.host, wanted)
    except InputError as error:
        if error.code != "no-run":
            raise
        return answers.nothing_to_stop(seat.host.label, wanted)
    if seat.desk.dry:
        return answers.dry_stop(run["id"], seat.host.label)
    grace = grace_s if grace_s is not None else run["plan"]["stop_grace_s"]
    return answers.stopped(stopping.stop(seat.host, run_id=run["id"], grace_s=grace, report=seat.report), run["id"])


def _stop_foreign(seat: Seat, pid: int, *, yes: bool, grace_s: float) -> Answer:
    seen = seat.host.call("inspect-pid", {"pid": pid})
    if seat.desk.dry:
        return answers.dry_stop(f"pid {pid}: {seen['cmdline']}", seat.host.label)
    _ask(f"stop pid {pid} of {seen['user']}", seen["cmdline"], yes=yes)
    return answers.stopped(stopping.stop(seat.host, pid=pid, grace_s=grace_s, report=seat.report), f"pid {pid}")


def _ask(what: str, cmdline: str, *, yes: bool) -> None:
    """Show the foreign command line and ask; without a terminal and --yes: exit 2."""
    print(f"{what}:\n  {cmdline}", file=sys.stderr)
    if yes:
        return
    if not sys.stdin.isatty():
        raise InputError("not-confirmed", f"{what}: nobody to ask, this is no terminal", where="--pid", try_="--yes")
    print("go on? [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise InputError("not-confirmed", f"{what}: not confirmed", where="--pid")


def status(seat: Seat, wanted: Wanted) -> Answer:
    return answers.status(status_flow.status(seat.host, wanted), seat.host.label)


def runs(seat: Seat) -> Answer:
    return answers.runs(run_flow.all_runs(seat.host), seat.host.label)


def prune(seat: Seat, keep: int) -> Answer:
    reply = seat.host.call("prune", {"keep": keep, "dry": seat.desk.dry}, timeout_s=600)
    return answers.pruned(reply, seat.host.label, dry=seat.desk.dry)


def logs(seat: Seat, wanted: Wanted, *, follow: bool, trace: bool, lines: int) -> Answer:
    run = run_flow.choose(seat.host, wanted, dead_ok=True)
    for text in log_flow.lines(seat.host, run["id"], trace=trace, count=lines, follow=follow):
        print(seat.desk.redactor.text(text), flush=True)
    return Answer({})


def wait_run(seat: Seat, wanted: Wanted, *, deadline_s: float | None) -> Answer:
    run = run_flow.choose(seat.host, wanted, dead_ok=True)
    if seat.desk.dry:
        return answers.dry_wait(run["id"], seat.host.label)
    try:
        verdict = judging.wait_for_run(
            seat.host,
            run,
            catalogue.load(seat.project),
            environ=os.environ,
            deadline_s=deadline_s,
            report=seat.report,
            clock=seat.desk.clock,
        )
    except Interrupted as stopped:
        return answers.interrupted(stopped, resume(seat, f"--run {run['id']}"))
    return answers.verdict(seat, verdict, log=f"{run['dir']}/server.log")


def resume(seat: Seat, which: str) -> str:
    at = "" if seat.host.label == "local" else f"-H {seat.host.label} "
    return f"fab {at}wait-health {which}"


def wait_foreign(seat: Seat, foreign: Foreign, *, adopt: bool, yes: bool, deadline_s: float | None) -> Answer:
    if adopt and foreign.pid is None:
        raise InputError(
            "adopt-needs-pid", "--adopt takes the server that --pid names", where="--adopt", try_="--pid PID"
        )
    if foreign.pid is not None:
        seen = seat.host.call("inspect-pid", {"pid": foreign.pid})
        _ask(f"{'adopt' if adopt else 'judge'} pid {foreign.pid} of {seen['user']}", seen["cmdline"], yes=yes)
        foreign = judging.completed(foreign, seen)
    if seat.desk.dry:
        return answers.dry_wait(str(foreign), seat.host.label)
    if adopt:
        return _adopt(seat, foreign, deadline_s)
    settings = WaitSettings(deadline_s=deadline_s)
    try:
        verdict = judging.wait_for_foreign(
            seat.host,
            foreign,
            catalogue.load(seat.project),
            settings=settings,
            api_key=os.environ.get("SGLFAB_API_KEY"),
            report=seat.report,
            clock=seat.desk.clock,
        )
    except Interrupted as stopped:
        return answers.interrupted(stopped, resume(seat, str(foreign)))
    return answers.verdict(seat, verdict, log=foreign.log)


def _adopt(seat: Seat, foreign: Foreign, deadline_s: float | None) -> Answer:
    who = seat.desk.operator
    request = {"pid": foreign.pid, "profile": "adopted", "operator": who.name, "laptop": who.laptop, "log": foreign.log}
    run = seat.host.call("adopt", request)["run"]
    return wait_run(seat, Wanted(run=run["id"]), deadline_s=deadline_s)


def diagnose(desk: Desk, path: str | None) -> None:
    if not path:
        raise InputError("no-log", "which log?", where="--log", try_="fab diagnose --log FILE")
    known = catalogue.load(desk.project)
    if edge.cli_hosts(desk.c):
        desk.each_host(lambda seat: answers.verdict(seat, judging.diagnose_file(known, path, seat.host), log=path))
    else:
        desk.say(answers.offline_verdict(desk, judging.diagnose_file(known, path, None), log=path))


def explain(desk: Desk, code: str) -> None:
    desk.say(answers.page(code, catalogue.page(catalogue.load(desk.project), code)))


def patch(seat: Seat, names: list[str], sglang_path: str | None) -> Answer:
    if seat.desk.dry:
        return answers.dry_patch(
            patch_flow.preview(seat.project, seat.host, names, sglang_path=sglang_path), seat.host.label
        )
    done = patch_flow.patch_debug(seat.project, seat.host, names, operator=seat.desk.operator, sglang_path=sglang_path)
    return answers.patched(done, seat.host.label)


def unpatch(seat: Seat, sglang_path: str | None) -> Answer:
    if seat.desk.dry:
        seen = patch_flow.preview_removal(seat.project, seat.host, sglang_path=sglang_path)
        return answers.dry_patch(seen, seat.host.label)
    done = patch_flow.unpatch_debug(seat.project, seat.host, operator=seat.desk.operator, sglang_path=sglang_path)
    return answers.patched(done, seat.host.label)


def patch_status(seat: Seat, sglang_path: str | None) -> Answer:
    return answers.patch_status(patch_flow.status(seat.project, seat.host, sglang_path=sglang_path), seat.host.label)
