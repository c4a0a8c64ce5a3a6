"""Launch and restart."""

from __future__ import annotations

import os
from dataclasses import dataclass

from sglfab.diagnosis import catalogue
from sglfab.errors import InputError
from sglfab.flows import launch as launching
from sglfab.flows import runs as run_flow
from sglfab.flows import secrets
from sglfab.flows.runs import Wanted
from sglfab.model import Json, Plan, Profile
from sglfab.profiles import load

from ..answers import plans as plan_answers
from ..answers import verdicts as answers
from ..desk import Answer, Seat
from . import verdicts
from .plans import prepare


@dataclass(frozen=True)
class Asked:
    """How a server is to be brought up. deadline_s: of this command's wait alone; None: what the profile says."""

    wait: bool
    takeover: bool
    deadline_s: float | None


def launch(seat: Seat, profile: Profile, asked: Asked) -> Answer:
    return _bring_up(seat, profile, asked)


def _bring_up(seat: Seat, wanted: Profile | Plan, asked: Asked) -> Answer:
    prepared = prepare(seat, wanted)
    if seat.desk.dry:
        return plan_answers.dry_launch(prepared, seat.host.label, takeover=asked.takeover)
    values = secrets.resolve(prepared.plan.secrets, os.environ)
    seat.desk.hide(tuple(values.values()))
    catalogue.load(seat.project)  # what the wait needs is proved before anything is stopped
    order = launching.Order(seat.desk.operator, values, asked.takeover)
    try:
        run = launching.launch(seat.project, seat.host, prepared, order, report=seat.report, clock=seat.desk.clock)
    except launching.LaunchInterrupted as stopped:
        return answers.interrupted_launch(seat, prepared.plan, stopped)
    if not asked.wait:
        return answers.started(seat, run)
    return verdicts.wait_run(seat, Wanted(run=run["id"]), deadline_s=asked.deadline_s)


@dataclass(frozen=True)
class Again:
    """What `fab restart` was asked."""

    wanted: Wanted
    render: bool
    sets: tuple[str, ...]


def restart(seat: Seat, again: Again, asked: Asked) -> Answer:
    if again.sets and not again.render:
        what = "restart repeats the recorded plan; --set changes it"
        raise InputError("set-needs-render", what, where="--set", try_="--render --set …")
    run = run_flow.choose(seat.host, again.wanted, dead_ok=True)
    wanted = _anew(seat, run, again) if again.render else _recorded(run)
    seat.host.python = wanted.python or seat.host.python
    return _bring_up(seat, wanted, asked)


def _recorded(run: Json) -> Plan:
    if run.get("adopted"):
        what = f"{run['id']} was started by somebody else: its environment and secrets are not known"
        raise InputError("adopted-no-plan", what, where="fab restart", try_="write a profile for it, then fab launch")
    return run_flow.plan_of(run)


def _anew(seat: Seat, run: Json, again: Again) -> Profile:
    return load(seat.project, run["profile"], sets=again.sets)
