"""What changed since a profile was last ready."""

from __future__ import annotations

import pytest

from sglfab.flows.history import changed, former

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


def ended(name, took_s, *, verdict="ready", profile="eagle3", model="/m"):
    spans = [
        {"stage": "load-weights", "draft": False, "start_s": 10.0, "end_s": 10.0 + took_s},
        {"stage": "load-weights", "draft": True, "start_s": 50.0, "end_s": 51.0},
        {"stage": "kv-cache", "draft": False, "start_s": 51.0, "end_s": 52.0},
        {"stage": "kv-cache", "draft": False, "start_s": 55.0, "end_s": 57.0},
        {"stage": "warmup", "draft": False, "start_s": 60.0, "end_s": None},
    ]
    plan = {"model_path": model, "draft_path": None, "tp_size": 8}
    return {"id": name, "profile": profile, "plan": plan, "verdict": {"verdict": verdict, "timeline": spans}}


def test_the_former_times_are_those_of_the_ready_runs_of_this_profile_with_the_same_model():
    runs = [
        ended("now", 1.0),
        ended("a", 9.0),
        ended("b", 19.0),
        ended("crashed", 500.0, verdict="crashed"),
        ended("other", 500.0, profile="r1"),
        ended("--set args.model-path", 500.0, model="/n"),
    ]
    assert former(runs[0], runs) == {
        "load-weights": (9.0, 19.0),
        "load-weights/draft": (1.0, 1.0),
        "kv-cache": (3.0, 3.0),
    }
    assert former(runs[0], runs[:1]) == {}
