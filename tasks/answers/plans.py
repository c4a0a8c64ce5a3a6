"""Answers about plans: rendered, checked, not carried out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from sglfab.commands import explain_render
from sglfab.errors import ExitCode
from sglfab.flows.launch import Prepared
from sglfab.flows.preflight import refusal
from sglfab.model import SCHEMA, Check, Json, Plan, Profile
from sglfab.profiles import Summary
from sglfab.report import tables
from sglfab.report.consoles import answer_console
from sglfab.report.plan import Effects, print_plan, print_render

from ..desk import Answer


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


def _check(check: Check) -> Json:
    return {"name": check.name, "state": check.state, "text": check.text, "try": check.try_}


def preflight(prepared: Prepared, host: str, *, takeover: bool) -> Answer:
    """Every check; exit 10 when one of them is a blocker, and then the error that a launch would end with."""
    checks = prepared.readiness.checks
    blocked = refusal(prepared.readiness, takeover=takeover)
    named = {"schema": SCHEMA, "verdict": None, "host": host, "profile": prepared.plan.profile}
    error = {"error": blocked.to_json()} if blocked else {}
    payload = {**named, **error, "checks": [_check(c) for c in checks]}
    code = ExitCode.PREFLIGHT if blocked else ExitCode.OK
    return Answer(payload, code, lambda: tables.print_checks(checks, console=answer_console()))


def _patches(prepared: Prepared) -> tuple[str, ...]:
    if prepared.patch:
        return (prepared.patch.summary,)
    return tuple(f"{name} (whether it fits was not checked)" for name in prepared.plan.patches)


def dry_launch(prepared: Prepared, host: str, *, takeover: bool) -> Answer:
    """The plan; the exit code is that of the launch itself, where something forbids it."""
    effects = Effects(
        stops=tuple(f"run {run['id']} (port {run['plan']['port']})" for run in prepared.readiness.replaces),
        patches=_patches(prepared),
    )
    checked = preflight(prepared, host, takeover=takeover)
    refused = refusal(prepared.readiness, takeover=takeover)
    payload = {**checked.payload, "dry_run": True, "effects": asdict(effects), "plan": prepared.plan.to_json()}

    def show() -> None:
        print_plan(prepared.plan, effects, console=answer_console(), host=host)
        if refused:
            checked.show()

    return Answer(payload, refused.exit_code if refused else ExitCode.OK, show)
