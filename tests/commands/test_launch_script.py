"""launch.sh, run by a real bash: every value arrives at the server as it was written."""

from __future__ import annotations

import json
import os
import resource
import stat
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

DUMP = f"""#!{sys.executable}
import json, os, resource, sys
print(json.dumps({{"argv": sys.argv[1:], "env": dict(os.environ), "cwd": os.getcwd(),
                   "nofile": resource.getrlimit(resource.RLIMIT_NOFILE)[0], "pid": os.getpid()}}))
"""
HEAD = ["-m", "sglang.launch_server", "--model-path", "/m"]
TAIL = ["--port", "30000"]


@dataclass
class Seen:
    """What a program saw that launch.sh became."""

    argv: list[str]
    env: dict[str, str]
    cwd: str
    nofile: int
    pid: int


@pytest.fixture
def python(tmp_path: Path) -> Path:
    """A `python3` that prints what it is given."""
    file = tmp_path / "a b" / "python3"
    file.parent.mkdir()
    file.write_text(DUMP)
    file.chmod(file.stat().st_mode | stat.S_IXUSR)
    return file


def run_script(script: str, folder: Path, **env: str) -> subprocess.CompletedProcess[str]:
    file = folder / "launch.sh"
    file.write_text(script, encoding="utf-8")
    given = {"PATH": os.environ["PATH"], "HOME": str(folder), **env}
    return subprocess.run(["bash", str(file)], env=given, capture_output=True, text=True, check=False, timeout=60)


def seen(script: str, folder: Path, **env: str) -> Seen:
    done = run_script(script, folder, **env)
    assert done.returncode == 0, done.stderr
    return Seen(**json.loads(done.stdout))


def profile_text(python: Path, **keys: Any) -> str:
    args = {"model-path": "/m", **keys.pop("args", {})}
    return yaml.safe_dump({"python": str(python), "args": args, **keys}, allow_unicode=True)


AWKWARD = {
    "spaces": "two  words ",
    "single quotes": "it's",
    "double quotes": 'say "hi"',
    "substitution": "$(touch /tmp/sglfab-never) `id` ${HOME} $HOME",
    "newlines": "one\ntwo\n\n",
    "a tab and a carriage return": "a\tb\rc",
    "backslashes": "C:\\path\\n",
    "JSON": '{"a": ["b c", null], "d": "\'"}',
    "globs": "*.py ? [a-z] ~ ~root",
    "signs": "a;b&c|d<e>f#g!h%i^j(k)l",
    "unicode": "Grüße 🙂 — «ok»",
    "braces of a template": "{{ plan }} {% raw %}",
    "a comment": "# not a comment",
    "a placeholder of ours": "SGLFAB_SECRET:args.api-key",
}


@pytest.mark.parametrize("value", AWKWARD.values(), ids=AWKWARD.keys())
def test_a_value_arrives_as_written(plan, python: Path, tmp_path: Path, value: str) -> None:
    text = profile_text(python, args={"served-model-name": value}, env={"VALUE": value})
    found = seen(plan(text).script, tmp_path)
    assert found.argv == [*HEAD, "--served-model-name", value, *TAIL]
    assert found.env["VALUE"] == value


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(st.characters(blacklist_categories=("Cs", "Cc", "Co", "Cn")), min_size=1, max_size=40))
def test_any_text_arrives_as_written(plan, python: Path, tmp_path: Path, value: str) -> None:
    text = profile_text(python, args={"chat-template": f"x{value}"}, env={"VALUE": value})
    found = seen(plan(text).script, tmp_path)
    assert found.argv == [*HEAD, "--chat-template", f"x{value}", *TAIL]
    assert found.env["VALUE"] == value


def test_a_mapping_arrives_as_json(plan, python: Path, tmp_path: Path) -> None:
    config = {"decode": {"bs": [1, 2], "note": "it's $HOME"}}
    found = seen(plan(profile_text(python, args={"json-model-override-args": config})).script, tmp_path)
    assert json.loads(found.argv[5]) == config


def test_setup_runs_before_and_the_profile_has_the_last_word(plan, python: Path, tmp_path: Path) -> None:
    setup = ["load() { export LOADED=$1 OURS=module; }", "load cuda/12.9", "export MULTI='a\nb'"]
    found = seen(plan(profile_text(python, setup=setup, env={"OURS": "profile"})).script, tmp_path)
    assert (found.env["LOADED"], found.env["OURS"], found.env["MULTI"]) == ("cuda/12.9", "profile", "a\nb")


@pytest.mark.parametrize("line", ["false", "module load cuda/99", "cd /nowhere"])
def test_a_setup_line_that_fails_starts_nothing_and_is_named(plan, python: Path, tmp_path: Path, line: str) -> None:
    done = run_script(plan(profile_text(python, setup=["true", line])).script, tmp_path)
    assert done.returncode != 0
    assert done.stdout == ""
    assert f"launch.sh: setup failed with status {done.returncode}: {line}" in done.stderr


@pytest.mark.parametrize("line", ["false || true", "if false; then true; fi", "set +e", "x=$(false) || :"])
def test_a_setup_line_that_may_fail_does_no_harm(plan, python: Path, tmp_path: Path, line: str) -> None:
    assert seen(plan(profile_text(python, setup=[line])).script, tmp_path).argv == [*HEAD, *TAIL]


def test_the_working_folder(plan, python: Path, tmp_path: Path) -> None:
    folder = tmp_path / "with space $x"
    folder.mkdir()
    assert seen(plan(profile_text(python, cwd=str(folder))).script, tmp_path).cwd == str(folder)


def test_a_home_folder_is_the_hosts(plan, python: Path, tmp_path: Path) -> None:
    (tmp_path / "my work").mkdir()
    found = seen(plan(profile_text(Path("~/a b/python3"), cwd="~/my work")).script, tmp_path)
    assert found.cwd == str(tmp_path / "my work")


def test_a_folder_that_is_not_there_starts_nothing(plan, python: Path, tmp_path: Path) -> None:
    done = run_script(plan(profile_text(python, cwd="/nowhere")).script, tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert "/nowhere" in done.stderr


def test_limits(plan, python: Path, tmp_path: Path) -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    assert seen(plan(profile_text(python, ulimits={"nofile": 300})).script, tmp_path).nofile == 300
    assert seen(plan(profile_text(python, ulimits={"n": "hard"})).script, tmp_path).nofile == hard


PROXIES = {
    "nothing known": ({}, {}, "127.0.0.1,localhost,::1"),
    "the host's own": ({"no_proxy": "corp"}, {}, "corp,127.0.0.1,localhost,::1"),
    "the host's own in capitals": ({"NO_PROXY": "corp"}, {}, "corp,127.0.0.1,localhost,::1"),
    "the profile's": ({"no_proxy": "corp"}, {"NO_PROXY": "a b"}, "a b,127.0.0.1,localhost,::1"),
    "the profile's, emptied": ({"no_proxy": "*"}, {"no_proxy": ""}, "127.0.0.1,localhost,::1"),
}


@pytest.mark.parametrize("case", PROXIES.values(), ids=PROXIES.keys())
def test_loopback_never_goes_through_a_proxy(plan, python: Path, tmp_path: Path, case: tuple) -> None:
    host, own, value = case
    found = seen(plan(profile_text(python, env=own)).script, tmp_path, **host)
    assert (found.env["no_proxy"], found.env["NO_PROXY"]) == (value, value)


def test_the_address_that_it_listens_on_goes_through_no_proxy_either(plan, python: Path, tmp_path: Path) -> None:
    found = seen(plan(profile_text(python, args={"host": "10.0.0.7"})).script, tmp_path)
    assert found.env["no_proxy"].split(",")[-1] == "10.0.0.7"


@pytest.mark.parametrize(
    ("host", "asked"), [("10.0.0.7", "10.0.0.7"), ("0.0.0.0", "127.0.0.1"), ("::", "::1"), (None, "127.0.0.1")]
)
def test_which_address_is_asked(plan, host: str | None, asked: str) -> None:
    args = "{model-path: /m}" if host is None else f"{{model-path: /m, host: '{host}'}}"
    assert plan(f"args: {args}").http_host == asked


def test_launch_sh_becomes_the_server(plan, python: Path, tmp_path: Path) -> None:
    """Its pid is the server's: no shell stays in between to swallow signals."""
    file = tmp_path / "launch.sh"
    file.write_text(plan(profile_text(python, setup=["true"])).script)
    process = subprocess.Popen(["bash", str(file)], stdout=subprocess.PIPE, text=True)
    out, _ = process.communicate(timeout=60)
    assert json.loads(out)["pid"] == process.pid


def test_the_plan_says_what_it_holds(plan) -> None:
    found = plan(
        "port: 8000\ncwd: /w\npatches: [x]\nstop: {grace_s: 5}\nwait: {deadline_s: 60}\n"
        "args: {model-path: /m, tp: 4, speculative-algorithm: EAGLE3, speculative-draft-model-path: /d}"
    )
    assert (found.port, found.cwd, found.patches, found.stop_grace_s) == (8000, "/w", ("x",), 5.0)
    assert (found.tp_size, found.model_path, found.draft_path, found.python) == (4, "/m", "/d", "python3")
    assert (found.wait.deadline_s, found.starter) == (60.0, None)
    json.dumps(found.to_json())
