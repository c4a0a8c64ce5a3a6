"""What a child, several parents and --set make of one another."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from sglfab import profiles
from sglfab.model import Profile

BASE = """
description: base
port: 8000
hosts: [gpu1, gpu2]
args: {tp-size: 8, model-path: /m, mem-fraction-static: 0.85}
env: {NCCL_DEBUG: INFO, A: "1"}
setup: [module load cuda]
"""


@dataclass
class Case:
    child: str
    expect: dict[str, Any]
    more: dict[str, str] = field(default_factory=dict)
    sets: tuple[str, ...] = ()


CASES = {
    "an alias replaces the parent's canonical name": Case("args: {tensor-parallel-size: 4}", {"args.tp-size": 4}),
    "an abbreviation replaces it too": Case("args: {tp: 4}", {"args.tp-size": 4}),
    "underscores are dashes": Case("args: {tp_size: 4}", {"args.tp-size": 4}),
    "leading dashes are understood": Case("args: {--tp-size: 4}", {"args.tp-size": 4}),
    "model is model-path": Case("args: {model: /other}", {"args.model-path": "/other"}),
    "what the child does not say stays": Case(
        "args: {tp: 4}", {"args.mem-fraction-static": 0.85, "port": 8000, "env.NCCL_DEBUG": "INFO"}
    ),
    "a list replaces": Case("hosts: [gpu9]", {"hosts": ("gpu9",)}),
    "one name is a list of one": Case("hosts: gpu9", {"hosts": ("gpu9",)}),
    "an empty list empties": Case("hosts: []", {"hosts": ()}),
    "null deletes a flag": Case("args: {mem-fraction-static: null}", {"args.mem-fraction-static": None}),
    "null deletes a variable": Case("env: {NCCL_DEBUG: null}", {"env.NCCL_DEBUG": None, "env.A": "1"}),
    "null deletes a whole mapping": Case("env: null", {"env": {}}),
    "null gives a setting its default back": Case("port: null", {"port": 30000}),
    "nothing about a mapping leaves it alone": Case("env: {}", {"env": {"NCCL_DEBUG": "INFO", "A": "1"}}),
    "mappings of flags merge deeply": Case(
        "args: {cuda-graph-config: {decode: {max_bs: 4}}}",
        {"args.cuda-graph-config": {"decode": {"backend": "full", "max_bs": 4}}},
        more={"mid.yaml": "extends: base\nargs: {cuda-graph-config: {decode: {backend: full}}}"},
    ),
    "a scalar replaces a mapping": Case(
        "args: {cuda-graph-config: '{}'}",
        {"args.cuda-graph-config": "{}"},
        more={"mid.yaml": "extends: base\nargs: {cuda-graph-config: {decode: {backend: full}}}"},
    ),
    "disable-cuda-graph is the intent": Case("args: {disable-cuda-graph: true}", {"cuda_graphs": False}),
    "and leaves args": Case("args: {disable-cuda-graph: true}", {"args.disable-cuda-graph": None}),
    "disable-cuda-graph false takes the intent back": Case(
        "args: {disable-cuda-graph: false}",
        {"cuda_graphs": None},
        more={"mid.yaml": "extends: base\ncuda_graphs: false"},
    ),
    "a child turns graphs on again": Case(
        "cuda_graphs: true", {"cuda_graphs": True}, more={"mid.yaml": "extends: base\nargs: {disable-cuda-graph: true}"}
    ),
    "--set a flag by its bare name": Case("{}", {"args.tp-size": 2}, sets=("tp-size=2",)),
    "--set a flag by its path": Case("{}", {"args.tp-size": 2}, sets=("args.tp=2",)),
    "--set null deletes": Case("{}", {"args.tp-size": None}, sets=("tp=null",)),
    "--set a variable": Case("{}", {"env.B": "x=y", "env.A": "1"}, sets=("env.B=x=y",)),
    "--set a list": Case("{}", {"hosts": ("a", "b")}, sets=("hosts=[a, b]",)),
    "--set into a mapping": Case(
        "args: {cuda-graph-config: {decode: {bs: [1]}}}",
        {"args.cuda-graph-config": {"decode": {"bs": [1], "backend": "full"}}},
        sets=("cuda-graph-config.decode.backend=full",),
    ),
    "the later --set wins": Case("{}", {"args.tp-size": 2}, sets=("tp=4", "tp-size=2")),
    "--set of a setting": Case("{}", {"port": 9000}, sets=("port=9000",)),
    "allowances with and without _s": Case(
        "wait: {allowances: {serving_s: 10, load-weights: 600}}",
        {"wait.allowances": {"serving": 10.0, "load-weights": 600.0}},
    ),
    "limits by their letter": Case("ulimits: {n: 1024}", {"ulimits": {"nofile": "1024"}}),
    "--no- of an automatic flag is false": Case(
        "args: {no-lora-strict-loading: true}", {"args.lora-strict-loading": False, "args.no-lora-strict-loading": None}
    ),
}


def look(profile: Profile, path: str) -> Any:
    head, _, rest = path.partition(".")
    value = getattr(profile, head)
    if not rest:
        return dict(value) if head in ("args", "env", "ulimits") else value
    return dict(getattr(value, rest)) if head == "wait" else value.get(rest)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_merge(team, case: Case) -> None:
    parent = "mid" if "mid.yaml" in case.more else "base"
    child = f"extends: {parent}\n" + ("" if case.child == "{}" else case.child)
    profile = profiles.load(team({"base.yaml": BASE, "child.yaml": child, **case.more}), "child", sets=case.sets)
    assert {path: look(profile, path) for path in case.expect} == case.expect


def test_of_several_parents_the_later_wins(team) -> None:
    files = {
        "a.yaml": "args: {tp: 1, model: /a}\nenv: {X: a}",
        "b.yaml": "args: {tp-size: 2}\nenv: {Y: b}",
        "c.yaml": "extends: [a, b]\nenv: {Y: c}",
    }
    profile = profiles.load(team(files), "c")
    assert profile.args == {"tp-size": 2, "model-path": "/a"}
    assert profile.env == {"X": "a", "Y": "c"}


def test_two_ways_to_one_grandparent_are_no_cycle(team) -> None:
    files = {
        "top.yaml": "port: 1234\nargs: {tp: 8}",
        "left.yaml": "extends: top\nargs: {tp: 4}",
        "right.yaml": "extends: top",
        "both.yaml": "extends: [left, right]",
    }
    profile = profiles.load(team(files), "both")
    assert profile.args == {"tp-size": 8}
    assert profile.files == ("profiles/top.yaml", "profiles/left.yaml", "profiles/right.yaml", "profiles/both.yaml")


def test_a_teams_profile_can_extend_the_shipped_one_that_it_hides(team) -> None:
    profile = profiles.load(team({"eagle3.yaml": "extends: eagle3\nargs: {tp: 4}"}), "eagle3")
    assert profile.args["tp-size"] == 4
    assert profile.args["speculative-algorithm"] == "EAGLE3"


def test_a_childs_secret_source_replaces_the_parents(team) -> None:
    files = {
        "base.yaml": "secrets: {env: {HF_TOKEN: {env: HF}}, args: {api-key: {env: A}}}",
        "child.yaml": "extends: base\nsecrets: {env: {HF_TOKEN: {file: /f}}, args: {api_key: null}}",
    }
    (secret,) = profiles.load(team(files), "child").secrets
    assert (secret.target, secret.env, secret.file) == ("env.HF_TOKEN", None, "/f")


def test_every_value_knows_where_it_came_from(team) -> None:
    files = {
        "base.yaml": "port: 8000\nargs:\n  tp-size: 8\n  model-path: /m\nhosts:\n  - a\n",
        "child.yaml": "extends: base\nargs:\n  tp: 4\nenv:\n  X: 1\n",
    }
    origins = profiles.load(team(files), "child", sets=("env.Y=2",)).origins
    assert {key: str(origin) for key, origin in origins.items()} == {
        "port": "profiles/base.yaml:1",
        "args.tp-size": "profiles/child.yaml:3",
        "args.model-path": "profiles/base.yaml:4",
        "hosts": "profiles/base.yaml:5",
        "env.X": "profiles/child.yaml:5",
        "env.Y": "--set (env.Y)",
    }


def test_a_path_to_a_file_is_a_profile_named_after_it(team, tmp_path) -> None:
    team({"base.yaml": "port: 8000"})
    (tmp_path / "mine.yaml").write_text("extends: profiles/base.yaml\nargs: {tp: 2}")
    profile = profiles.load(team({}), "./mine.yaml")
    assert (profile.name, profile.port, profile.args) == ("mine", 8000, {"tp-size": 2})


@pytest.mark.parametrize(
    ("given", "interpreter"),
    [
        (None, None),
        ("python3.11", "python3.11"),
        ("/usr/bin/python3", "/usr/bin/python3"),
        ("/opt/venv", "/opt/venv/bin/python"),
        ("~/venvs/sglang/", "~/venvs/sglang/bin/python"),
    ],
)
def test_python_is_an_interpreter_or_an_environment(team, given: str | None, interpreter: str | None) -> None:
    text = f"python: {given}" if given else "port: 1"
    assert profiles.load(team({"a.yaml": text}), "a").python == interpreter
