"""Profiles, rendered and checked against a host."""

from __future__ import annotations

import os
from contextlib import suppress

from sglfab.errors import PreflightError
from sglfab.flows import launch as launching
from sglfab.flows import preflight as checking
from sglfab.flows import secrets
from sglfab.model import Json, Plan, Profile

from ..answers import plans as answers
from ..desk import Answer, Seat


def render(seat: Seat, profile: Profile, release: str | None) -> Answer:
    seen: Json = {"sglang": None}
    if release is None:
        with suppress(PreflightError):  # no python there: the newest known release is assumed, and said
            seen = checking.facts(seat.host, profile.env.get("PYTHONPATH"))
    plan = launching.plan_for(seat.project, profile, seen, release)
    return answers.rendered(plan, profile)


def preflight(seat: Seat, profile: Profile, *, takeover: bool) -> Answer:
    prepared = prepare(seat, profile)
    more = tuple(secrets.checks(prepared.plan.secrets, os.environ))
    return answers.preflight(prepared.with_checks(more), seat.host.label, takeover=takeover)


def prepare(seat: Seat, wanted: Profile | Plan) -> launching.Prepared:
    """Everything that can be known before anything changes. A profile is rendered, a plan is taken as it is."""
    seen = checking.facts(seat.host, dict(wanted.env).get("PYTHONPATH"))
    plan = wanted if isinstance(wanted, Plan) else launching.plan_for(seat.project, wanted, seen, None)
    return launching.prepare(seat.project, seat.host, plan, seen, seat.desk.operator)
