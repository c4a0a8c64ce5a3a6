"""What happens to servers that run: stop, status, logs, runs."""

from __future__ import annotations

import os
import sys

from sglfab.errors import InputError
from sglfab.flows import logs as log_flow
from sglfab.flows import runs as run_flow
from sglfab.flows import secrets
from sglfab.flows import status as status_flow
from sglfab.flows import stop as stopping
from sglfab.flows.runs import Wanted
from sglfab.model import Json, SecretSource

from ..answers import life as answers
from ..desk import Answer, Seat
from ..pipes import deliver

DEFAULT_GRACE_S = 30.0


def stop(seat: Seat, wanted: Wanted, *, pid: int | None, yes: bool, grace_s: float | None) -> Answer:
    if pid is not None:
        return _stop_foreign(seat, pid, yes=yes, grace_s=grace_s or DEFAULT_GRACE_S)
    try:
        # A run that was named is stopped even when its main process is gone: its children may hold the GPUs.
        run = run_flow.choose(seat.host, wanted, dead_ok=True)
    except InputError as error:
        if error.code != "no-run":
            raise
        return answers.nothing_to_stop(seat.host.label, wanted)
    if seat.desk.dry:
        return answers.dry_stop(run["id"], seat.host.label, alive=run["alive"])
    grace = grace_s if grace_s is not None else run["plan"]["stop_grace_s"]
    seat.desk.doing = f"the stop of {run['id']}"
    return answers.stopped(stopping.stop(seat.host, run_id=run["id"], grace_s=grace, report=seat.report), run["id"])


def _stop_foreign(seat: Seat, pid: int, *, yes: bool, grace_s: float) -> Answer:
    seen = seat.host.call("inspect-pid", {"pid": pid})
    if seat.desk.dry:
        return answers.dry_stop(f"pid {pid}: {seen['cmdline']}", seat.host.label, alive=True)
    ask(f"stop pid {pid} of {seen['user']}", seat.desk.redactor.text(seen["cmdline"]), yes=yes)
    seat.desk.doing = f"the stop of pid {pid}"
    return answers.stopped(stopping.stop(seat.host, pid=pid, grace_s=grace_s, report=seat.report), f"pid {pid}")


def ask(what: str, cmdline: str, *, yes: bool) -> None:
    """Show the foreign command line and ask; without a terminal and --yes: exit 2."""
    print(f"{what}:\n  {cmdline}", file=sys.stderr)
    if yes:
        return
    if not sys.stdin.isatty():
        raise InputError("not-confirmed", f"{what}: nobody to ask, this is no terminal", where="--pid", try_="--yes")
    print("go on? [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise InputError("not-confirmed", f"{what}: not confirmed", where="--pid", try_="answer y, or --yes")


def status(seat: Seat, wanted: Wanted) -> Answer:
    return answers.status(status_flow.status(seat.host, wanted), seat.host.label, wanted)


def runs(seat: Seat) -> Answer:
    return answers.runs(run_flow.all_runs(seat.host), seat.host.label)


def prune(seat: Seat, keep: int) -> Answer:
    reply = seat.host.call("prune", {"keep": keep, "dry": seat.desk.dry}, timeout_s=600)
    return answers.pruned(reply, seat.host.label, dry=seat.desk.dry)


def hide_secrets_of(seat: Seat, run: Json) -> None:
    """What the server may have printed of its secrets is hidden, as far as they can be had here and now."""
    sources = [SecretSource(**source) for source in run["plan"].get("secrets") or ()]
    seat.desk.hide(secrets.at_hand(sources, os.environ))


def logs(seat: Seat, wanted: Wanted, *, follow: bool, trace: bool, lines: int) -> Answer:
    run = run_flow.choose(seat.host, wanted, dead_ok=True)
    hide_secrets_of(seat, run)

    def show() -> None:
        for text in log_flow.lines(seat.host, run["id"], trace=trace, count=lines, follow=follow):
            print(seat.desk.redactor.text(text), flush=True)

    try:
        deliver(show)
    except KeyboardInterrupt:
        return answers.unfollowed()
    return Answer({})
