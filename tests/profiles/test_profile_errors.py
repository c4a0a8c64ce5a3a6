"""What an operator can get wrong in a profile, and the answer: a code, the line, and the closest right thing."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from sglfab import profiles
from sglfab.errors import ExitCode, InputError
from sglfab.project import Project


@dataclass
class Case:
    text: str
    code: str
    where: str
    says: str = ""
    try_: str = ""
    more: dict[str, str] = field(default_factory=dict)
    sets: tuple[str, ...] = ()


A = "profiles/a.yaml"
CASES = {
    "an unknown key": Case("port: 1\ndescripton: x", "profile-unknown-key", f"{A}:2", "descripton", "description"),
    "an unknown key inside": Case("wait:\n  deadline: 5", "profile-unknown-key", f"{A}:2", "of wait", "deadline_s"),
    "an unknown key of a secret": Case(
        "secrets: {args: {api-key: {envv: X}}}", "profile-unknown-key", f"{A}:1", "envv", "env"
    ),
    "a duplicate key": Case("port: 1\nargs: {}\nport: 2", "yaml-duplicate-key", f"{A}:3", f"first at {A}:1"),
    "a duplicate variable": Case("env:\n  A: 1\n  A: 2", "yaml-duplicate-key", f"{A}:3"),
    "one flag in two spellings": Case(
        "args:\n  tp: 4\n  tp-size: 8", "profile-duplicate-flag", f"{A}:3", f"--tp-size, which stands already at {A}:2"
    ),
    "an ambiguous abbreviation": Case("args: {pp: 2}", "profile-ambiguous-flag", f"{A}:1", "pp-size", "pp-size"),
    "text for a port": Case("port: '8000'", "profile-wrong-type", f"{A}:1", "1 to 65535, not text"),
    "a port out of range": Case("port: 70000", "profile-wrong-type", f"{A}:1", "not the number 70000"),
    "port zero": Case("port: 0", "profile-wrong-type", f"{A}:1"),
    "true for a port": Case("port: true", "profile-wrong-type", f"{A}:1", "the switch true"),
    "args.port out of range": Case("args: {port: 65536}", "profile-bad-port", f"{A}:1", "65536"),
    "args.port that is text": Case("args: {port: http}", "profile-bad-port", f"{A}:1"),
    "the port twice": Case("port: 1\nargs:\n  port: 2", "profile-port-twice", f"{A}:3", f"port at {A}:1"),
    "the port twice over a parent": Case(
        "extends: b\nport: 2", "profile-port-twice", "profiles/b.yaml:1", more={"b.yaml": "args: {port: 1}"}
    ),
    "a switch of YAML 1.1": Case("cuda_graphs: off", "profile-wrong-type", f"{A}:1", "true or false", "false"),
    "a switch as a variable": Case("env: {A: true}", "profile-wrong-type", f"{A}:1", "quotes"),
    "a list as a variable": Case("env:\n  A: [1]", "profile-wrong-type", f"{A}:2", "not a list"),
    "a name that no variable has": Case("env: {A-B: 1}", "profile-bad-name", f"{A}:1", "A-B"),
    "a variable that bash keeps": Case("env: {UID: 1}", "profile-own-variable", f"{A}:1", "shell"),
    "a variable of our own": Case("env: {SGLFAB_TRACE_DIR: /t}", "profile-own-variable", f"{A}:1", "fab"),
    "a list for args": Case("args: [--tp, 8]", "profile-wrong-type", f"{A}:1", "a mapping of launch options"),
    "a number in hosts": Case("hosts:\n  - gpu1\n  - 7", "profile-wrong-type", f"{A}:3", "must be text"),
    "a wait that is no number": Case("wait: {deadline_s: soon}", "profile-wrong-type", f"{A}:1", "seconds above 0"),
    "a wait below zero": Case("wait: {reconnect_s: -1}", "profile-wrong-type", f"{A}:1"),
    "a wait without an end": Case("wait: {reconnect_s: 1e999}", "profile-wrong-type", f"{A}:1"),
    "a stage that there is not": Case(
        "wait: {allowances: {serve_s: 1}}", "profile-unknown-stage", f"{A}:1", "serve_s", "serving_s"
    ),
    "a limit that there is not": Case("ulimits: {files: 1}", "profile-unknown-limit", f"{A}:1", "", "nofile"),
    "a limit of words": Case("ulimits: {nofile: many}", "profile-wrong-type", f"{A}:1"),
    "several things at once name the first": Case(
        "prot: 1\nport: x", "profile-unknown-key", f"{A}:1", "(and 1 more)", "port"
    ),
    "extends of nobody": Case("extends: egale3", "profile-unknown", f"{A}:1", "egale3", "eagle3"),
    "extends itself": Case("extends: a", "profile-cycle", f"{A}:1", "a → a"),
    "extends in a circle": Case(
        "extends: b",
        "profile-cycle",
        "profiles/c.yaml:2",
        "a → b → c → a",
        more={"b.yaml": "extends: [c]", "c.yaml": "port: 1\nextends: a"},
    ),
    "a broken parent names its own line": Case(
        "extends: b", "profile-unknown-key", "profiles/b.yaml:2", more={"b.yaml": "port: 1\nfoo: 1"}
    ),
    "a list": Case("- a\n- b", "profile-not-a-mapping", f"{A}:1", "a list"),
    "one word": Case("hello", "profile-not-a-mapping", f"{A}:1", "text"),
    "an empty file": Case("", "profile-empty", A),
    "only comments": Case("# nothing yet\n", "profile-empty", A),
    "a tab": Case("args:\n\ttp: 1", "yaml-syntax", f"{A}:2", "tab", "spaces"),
    "an open bracket": Case("port: 1\nhosts: [a", "yaml-syntax", f"{A}:2"),
    "a colon in text": Case("description: a: b", "yaml-syntax", f"{A}:1", try_="quotes"),
    "two documents": Case("port: 1\n---\nport: 2", "yaml-syntax", f"{A}:2", "second document"),
    "an unknown anchor": Case("args: *base", "yaml-syntax", f"{A}:1", "base"),
    "an anchor in itself": Case("args: &a {x: *a}", "yaml-recursive", f"{A}:1"),
    "a merge key": Case("args:\n  <<: {tp: 1}", "yaml-merge-key", f"{A}:2", try_="extends"),
    "a python tag": Case("args: !!python/object:os.system {}", "yaml-tag", f"{A}:1"),
    "a control character": Case("description: \x01", "yaml-syntax", A),
    "a key that is a number": Case("env: {1: a}", "yaml-key", f"{A}:1", "'1'"),
    "a NUL byte": Case('env: {A: "x\\0y"}', "profile-nul", f"{A}:1"),
    "nesting without end": Case("args: " + "[" * 3000, "yaml-syntax", A, "deep"),
    "a secret among the arguments": Case(
        "args:\n  api-key: hunter2", "profile-literal-secret", f"{A}:2", "args.api-key", "{env: API_KEY}"
    ),
    "a secret among the variables": Case(
        "env:\n  HF_TOKEN: hf_hunter2", "profile-literal-secret", f"{A}:2", "env.HF_TOKEN", "{env: HF_TOKEN}"
    ),
    "a password in a URL": Case("env: {http_proxy: 'http://me:hunter2@proxy'}", "profile-literal-secret", f"{A}:1"),
    "a secret by way of the environment": Case(
        "env: {WANDB: '${env:WANDB_API_KEY}'}", "profile-literal-secret", f"{A}:1", "WANDB_API_KEY"
    ),
    "a secret that comes from two places": Case(
        "secrets: {env: {T: {env: A, file: /f}}}", "profile-bad-secret", f"{A}:1", "env.T"
    ),
    "a folder relative to nothing": Case("cwd: work", "profile-relative-path", f"{A}:1", "'cwd'", "~/work"),
    "an environment relative to nothing": Case("python: venv", "profile-relative-path", f"{A}:1", "'python'", "~/venv"),
    "a secret from nowhere": Case("secrets: {env: {T: {}}}", "profile-bad-secret", f"{A}:1"),
    "a secret and a value": Case(
        "env: {T: plain}\nsecrets: {env: {T: {env: A}}}", "profile-secret-twice", f"{A}:1", "env.T"
    ),
    "a variable of this machine that is not set": Case(
        "python: ${env:NOWHERE}/bin", "profile-env-unset", f"{A}:1", "NOWHERE", "export NOWHERE"
    ),
    "graphs off and on": Case(
        "cuda_graphs: true\nargs:\n  disable-cuda-graph: true", "profile-contradiction", f"{A}:3", f"{A}:1"
    ),
    "a value for disable-cuda-graph": Case("args: {disable-cuda-graph: 1}", "flag-wrong-type", f"{A}:1", "switch"),
    "a bare --set": Case("port: 1", "set-malformed", "--set", "a key, = and a value", sets=("",)),
    "--set without a value": Case("port: 1", "set-malformed", "--set", "tp-size", sets=("tp-size",)),
    "--set with nothing after the sign": Case("port: 1", "set-malformed", "--set", "no value", "null", sets=("tp=",)),
    "--set with nothing before the sign": Case("port: 1", "set-malformed", "--set", sets=("=4",)),
    "--set of an unknown path": Case(
        "port: 1", "set-unknown-key", "--set wiat.deadline_s", "wiat", "wait", sets=("wiat.deadline_s=5",)
    ),
    "--set of a wrong type": Case("port: 1", "profile-wrong-type", "--set (port)", sets=("port=x",)),
    "--set of something not YAML": Case("port: 1", "yaml-syntax", "--set (hosts)", sets=("hosts=[a",)),
    "--set of extends": Case("port: 1", "set-extends", "--set", sets=("extends=b",)),
    "--set of a secret": Case("port: 1", "profile-literal-secret", "--set (api-key)", sets=("api-key=hunter2",)),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_error(team, case: Case) -> None:
    project = team({"a.yaml": case.text, **case.more})
    with pytest.raises(InputError) as caught:
        profiles.load(project, "a", sets=case.sets)
    error = caught.value
    assert (error.code, error.where) == (case.code, case.where)
    assert error.try_
    assert case.says in error.what
    assert case.try_ in error.try_
    assert "hunter2" not in f"{error.what}{error.where}{error.try_}"
    assert error.exit_code == ExitCode.INPUT


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("egale3-debug", "eagle3-debug"),
        ("cpu-dmo", "cpu-demo"),
        ("zzz", "fab profiles"),
        ("./nothing.yaml", "fab profiles"),
        ("EAGLE3", "eagle3"),
        ("Kimi-K2.5-INT4-TP8", "kimi-k2.5-int4-tp8"),
        ("eagle3.yaml", "eagle3"),
        ("configs/profiles/eagle3-debug", "eagle3-debug"),
    ],
)
def test_an_unknown_profile_names_the_closest(team, name: str, nearest: str) -> None:
    with pytest.raises(InputError) as caught:
        profiles.load(team({}), name)
    assert (caught.value.code, caught.value.where, caught.value.try_) == ("profile-unknown", "--profile", nearest)


def test_a_file_that_is_no_text_is_unreadable(team, tmp_path) -> None:
    project: Project = team({})
    (tmp_path / "profiles" / "a.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError) as caught:
        profiles.load(project, "a")
    assert caught.value.code == "file-unreadable"


def test_a_broken_profile_is_listed_with_its_error(team) -> None:
    project = team({"good.yaml": "description: fine\nargs: {model: /m, tp: 2}", "bad.yaml": "prot: 1"})
    found = {row.name: row for row in profiles.summaries(project)}
    assert (found["good"].error, found["good"].model, found["good"].tp) == ("", "/m", 2)
    assert "profiles/bad.yaml:1" in found["bad"].error
    assert "prot" in found["bad"].error


def test_a_profile_without_a_model_is_listed_as_one_that_cannot_be_launched(team) -> None:
    project = team(
        {"none.yaml": "description: nothing", "_part.yaml": "port: 1", "child.yaml": "extends: none\nargs: {model: /m}"}
    )
    found = {row.name: row.error for row in profiles.summaries(project)}
    assert "no model" in found["none"]
    assert "_none" in found["none"]
    assert found["child"] == ""


def test_the_teams_own_are_listed_first(team) -> None:
    project = team({"zzz.yaml": "port: 1", "eagle3.yaml": "extends: eagle3"})
    listed = [row.name for row in profiles.summaries(project)]
    assert listed[:3] == ["eagle3", "zzz", "cpu-demo"]
    assert len(listed) == len(set(listed))


def test_parts_for_others_are_not_listed(team) -> None:
    project = team({"_part.yaml": "port: 1", "whole.yaml": "extends: _part"})
    assert "_part" not in profiles.names(project)
    assert profiles.load(project, "whole").port == 1
