"""Which blocker decides the exit code of a launch, and which runs are meant."""

from __future__ import annotations

import pytest

from sglfab.errors import ExitCode, InputError
from sglfab.flows.preflight import Readiness, refusal
from sglfab.flows.runs import Wanted, pick
from sglfab.model import Check

OK, NOTE = Check("port", "ok", "free"), Check("profile", "warning", "deprecated")
LOCK, OTHER = Check("lock", "blocker", "ann"), Check("other-operator", "blocker", "ann's run", "--takeover")
PATCH, PORT = Check("patch-conflict", "blocker", "edited"), Check("port-busy", "blocker", "pid 7")

FORBIDDEN = {
    "a lock": ((OK, LOCK), False, ExitCode.LOCKED),
    "another operator's run": ((OTHER,), False, ExitCode.LOCKED),
    "a conflict": ((NOTE, PATCH), False, ExitCode.PATCH),
    "a busy port": ((PORT,), False, ExitCode.PREFLIGHT),
    "a lock before all others": ((PORT, PATCH, LOCK), False, ExitCode.LOCKED),
    "a conflict before a busy port": ((PORT, PATCH), False, ExitCode.PATCH),
    "a busy port in spite of --takeover": ((OTHER, PORT), True, ExitCode.PREFLIGHT),
    "a lock in spite of --takeover": ((LOCK,), True, ExitCode.LOCKED),
}
ALLOWED = {
    "all well": ((OK,), False),
    "a warning": ((OK, NOTE), False),
    "no check": ((), False),
    "another operator's run, with --takeover": ((OTHER,), True),
}


@pytest.mark.parametrize(("checks", "takeover", "code"), FORBIDDEN.values(), ids=FORBIDDEN.keys())
def test_forbids(checks, takeover, code):
    error = refusal(Readiness("gpu1", checks, ()), takeover=takeover)
    assert error is not None
    assert (error.exit_code, error.where) == (code, "gpu1")
    blockers = [c for c in checks if c.state == "blocker" and not (takeover and c is OTHER)]
    assert ("fab preflight lists all" in error.what) == (len(blockers) > 1)


@pytest.mark.parametrize(("checks", "takeover"), ALLOWED.values(), ids=ALLOWED.keys())
def test_does_not_forbid(checks, takeover):
    assert refusal(Readiness("gpu1", checks, ()), takeover=takeover) is None


def run(name, *, profile="p", port=1, alive=True):
    return {"id": name, "profile": profile, "plan": {"port": port}, "alive": alive}


RUNS = [run("c", port=3, alive=False), run("b", profile="q", port=2), run("a"), run("z", alive=False)]
MEANT = {
    "by its id": (Wanted(run="b"), False, "b"),
    "by its profile": (Wanted(profile="p"), False, "a"),
    "by its port": (Wanted(port=2), False, "b"),
    "a live one before a newer dead one": (Wanted(profile="p"), True, "a"),
    "a dead one by its id": (Wanted(run="c"), True, "c"),
    "the newest dead one of a port": (Wanted(port=3), True, "c"),
}
NOT_MEANT = {
    "several live ones": (Wanted(), RUNS, True, "several-runs"),
    "a dead one where a live one is needed": (Wanted(run="c"), RUNS, False, "no-run"),
    "a dead one that nobody named": (Wanted(), RUNS[:1], True, "no-run"),
    "an id that nobody knows": (Wanted(run="x"), RUNS, True, "no-such-run"),
    "nothing at all": (Wanted(), [], True, "no-run"),
}


@pytest.mark.parametrize(("wanted", "dead_ok", "name"), MEANT.values(), ids=MEANT.keys())
def test_the_run_meant(wanted, dead_ok, name):
    assert pick(RUNS, wanted, where="gpu1", dead_ok=dead_ok)["id"] == name


@pytest.mark.parametrize(("wanted", "runs", "dead_ok", "code"), NOT_MEANT.values(), ids=NOT_MEANT.keys())
def test_no_run_meant(wanted, runs, dead_ok, code):
    with pytest.raises(InputError) as error:
        pick(runs, wanted, where="gpu1", dead_ok=dead_ok)
    assert error.value.code == code
    assert error.value.try_
