"""What changed since a profile was last ready."""

from __future__ import annotations

import pytest

from sglfab.flows.history import changed

ARGV = ["python", "-m", "sglang.launch_server", "--model-path", "/m", "--tp-size", "8", "--trust-remote-code"]


def run(name, created, *, verdict="ready", profile="p", version="0.5.12", **plan):
    whole = {"argv": ARGV, "env": [["A", "1"]], "patches": [], "cwd": None, "setup": [], **plan}
    told = {"verdict": verdict} if verdict else None
    return {
        "id": name,
        "created": created,
        "profile": profile,
        "sglang_version": version,
        "plan": whole,
        "verdict": told,
    }


BEFORE = run("old", "2026-01-01")
CASES = {
    "nothing": ({}, ()),
    "a value": ({"argv": [*ARGV[:6], "4", ARGV[7]]}, ("--tp-size: 8 → 4",)),
    "a new flag": ({"argv": [*ARGV, "--dp-size=2"]}, ("--dp-size: (absent) → 2",)),
    "a switch taken away": ({"argv": ARGV[:-1]}, ("--trust-remote-code: on → (absent)",)),
    "several values of one flag": ({"argv": [*ARGV, "--bs", "1", "2"]}, ("--bs: (absent) → 1 2",)),
    "the interpreter": (
        {"argv": ["/v/python", *ARGV[1:]]},
        ("command: python -m sglang.launch_server → /v/python -m sglang.launch_server",),
    ),
    "only the order of flags": ({"argv": [*ARGV[:3], *ARGV[5:], *ARGV[3:5]]}, ()),
    "a variable": ({"env": [["A", "2"]]}, ("env A: 1 → 2",)),
    "the version": ({"version": "0.5.23"}, ("SGLang: 0.5.12 → 0.5.23",)),
    "the patches": ({"patches": ["x"]}, ("patches: (absent) → x",)),
}


@pytest.mark.parametrize(("plan", "lines"), CASES.values(), ids=CASES.keys())
def test_each_difference_is_one_line(plan, lines):
    now = run("new", "2026-01-02", verdict=None, **plan)
    assert changed(now, [now, BEFORE]) == lines


OTHERS = {
    "no run was ready": [run("old", "2026-01-01", verdict="crashed")],
    "only one of another profile": [run("old", "2026-01-01", profile="q")],
    "only a later one": [run("later", "2026-01-03")],
    "none but itself": [],
}


@pytest.mark.parametrize("others", OTHERS.values(), ids=OTHERS.keys())
def test_without_a_ready_run_before_it_nothing_is_said(others):
    now = run("new", "2026-01-02", argv=["other"])
    assert changed(now, [now, *others]) == ()


def test_the_newest_ready_run_is_compared_with_and_a_crashed_one_between_is_not():
    now = run("new", "2026-01-04", verdict=None, env=[["A", "4"]])
    between = run("crashed", "2026-01-03", verdict="crashed", env=[["A", "3"]])
    ready = run("ready", "2026-01-02", env=[["A", "2"]])
    assert changed(now, [now, between, ready, BEFORE]) == ("env A: 2 → 4",)
