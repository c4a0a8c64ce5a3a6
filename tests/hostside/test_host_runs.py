"""The list of runs, its pruning, and servers that somebody else started."""

import json
import os
import sys
from pathlib import Path

import pytest

from sglfab.hostside.foreign import flag
from sglfab.model import plan_from_json

HERE = Path(__file__).parent


@pytest.fixture
def some_runs(host, exit_status):
    for number in range(3):
        exit_status(host.launch({"exit": {"code": number}}, f"dead-{number}"))
    host.launch({}, "live-1", profile="other")
    return host


def ids(runs):
    return [run["id"] for run in runs]


def test_runs_are_listed_newest_first(some_runs):
    runs = some_runs.ok("runs", profile=None)["runs"]
    assert ids(runs) == ["live-1", "dead-2", "dead-1", "dead-0"]
    assert [run["alive"] for run in runs] == [True, False, False, False]
    assert [(run["exit"] or {}).get("code") for run in runs] == [None, 2, 1, 0]
    assert ids(some_runs.ok("runs", profile="other")["runs"]) == ["live-1"]


def test_what_is_no_run_is_passed_over(some_runs):
    (some_runs.state / "runs" / "broken").mkdir()
    (some_runs.state / "runs" / "broken" / "run.json").write_text("{")
    (some_runs.state / "runs" / "a-file").write_text("")
    assert len(some_runs.ok("runs", profile=None)["runs"]) == 4


PRUNES = [
    pytest.param(2, ["dead-0", "dead-1"], id="the oldest go first"),
    pytest.param(0, ["dead-0", "dead-1", "dead-2"], id="a live run always stays"),
    pytest.param(9, [], id="fewer than the cap"),
]


@pytest.mark.parametrize(("keep", "removed"), PRUNES)
def test_pruning(some_runs, keep, removed):
    told = some_runs.ok("prune", keep=keep, dry=True)
    assert len(some_runs.ok("runs", profile=None)["runs"]) == 4, "a dry run removes nothing"
    done = some_runs.ok("prune", keep=keep, dry=False)
    assert done["removed"] == told["removed"] == removed
    assert (done["freed_bytes"] > 0) == bool(removed)
    assert {"dead-0", "dead-1", "dead-2", "live-1"} - set(ids(some_runs.ok("runs", profile=None)["runs"])) == set(
        removed
    )


def test_a_run_that_is_being_launched_is_not_pruned(host):
    folder = host.state / "runs" / "young"
    folder.mkdir(parents=True)
    (folder / "run.json").write_text(json.dumps({"id": "young", "main": None, "created_wall": 1}))
    assert host.ok("prune", keep=0, dry=False)["removed"] == []


def test_no_state_at_all(host):
    assert host.ok("runs", profile=None) == {"runs": []}
    assert host.ok("prune", keep=0, dry=False) == {"removed": [], "freed_bytes": 0}


@pytest.fixture
def foreign(bystander, port, eventually, tmp_path):
    order = json.dumps({"port": port, "children": ["sglang::scheduler_TP0"]})
    argv = [sys.executable, str(HERE / "fake_server.py"), order, "--tp-size", "2", "--api-key", "topsecret1"]
    argv += [f"--port={port}", "--model-path", "/m", "--max-total-tokens", "4096"]
    with open(tmp_path / "log", "wb") as log:
        server = bystander(argv, stdout=log, stderr=log, start_new_session=True)
    eventually(lambda: b"all stands" in (tmp_path / "log").read_bytes())
    return server


def test_a_foreign_server_is_shown_without_its_secrets(host, foreign, port, tmp_path):
    seen = host.ok("inspect-pid", pid=foreign.pid)
    assert (seen["ports"], seen["port"], seen["log"]) == ([port], port, str(tmp_path / "log"))
    assert seen["session"] == foreign.pid
    assert "topsecret1" not in json.dumps(seen)
    assert "--api-key ***" in seen["cmdline"]
    assert "--max-total-tokens 4096" in seen["cmdline"]


def test_an_adopted_server_is_a_run_like_others(host, foreign, port, alive, tmp_path):
    run = host.ok("adopt", pid=foreign.pid, profile="theirs", operator="ann", laptop="lap", log=None)["run"]
    assert (run["alive"], run["adopted"], run["keeper"]) == (True, True, None)
    assert run["log"] == str(tmp_path / "log")
    assert "topsecret1" not in Path(run["dir"], "run.json").read_text()
    plan = plan_from_json(run["plan"])
    assert (plan.port, plan.tp_size, plan.model_path) == (port, 2, "/m")
    reply = host.ok("stop", run_id=run["id"], grace_s=2)
    assert (reply["was_running"], reply["stopped"], reply["exit"]) == (True, True, None)
    assert not alive(foreign.pid)


@pytest.mark.parametrize("op", ["inspect-pid", "adopt"])
def test_a_pid_that_is_nobody(host, op):
    assert host.call(op, pid=2**22 + 1)[1]["code"] == "pid-unknown"
    assert not (host.state / "runs").exists()


FLAGS = [
    pytest.param(["--port", "1"], "1", id="a word of its own"),
    pytest.param(["--port=2"], "2", id="joined"),
    pytest.param(["--port", "1", "--port", "3"], "3", id="the last one counts"),
    pytest.param(["--portal", "1"], None, id="another flag with the same beginning"),
    pytest.param(["--port"], None, id="no value"),
    pytest.param([], None, id="no flag"),
]


@pytest.mark.parametrize(("argv", "value"), FLAGS)
def test_a_flag_of_a_command_line(argv, value):
    assert flag(["python", *argv], "--port") == value


def test_the_state_folder_is_private_and_named_by_the_machine(tmp_path, host):
    host.env.update(HOME=str(tmp_path / "home"))
    host.env.pop("SGLFAB_STATE_DIR", None)
    facts = host.ok("facts", state_dir=None)
    assert facts["state_dir"] == str(tmp_path / "home" / ".sglfab" / facts["machine_id"])
    host.env["SGLFAB_STATE_DIR"] = str(tmp_path / "elsewhere")
    assert host.ok("facts", state_dir=None)["state_dir"] == str(tmp_path / "elsewhere")


def test_a_state_folder_that_cannot_be(host):
    host.state = Path("/proc/nothing/here")
    _, error, _ = host.call("launch", **host.request({}))
    assert error["code"] == "state-dir-unusable"
    assert os.listdir(host.tmp) == []


@pytest.mark.parametrize("state", ["runs here", "./x", "~no-such-user/x"])
def test_a_state_folder_that_depends_on_the_current_folder_is_refused(host, state):
    _, error, _ = host.call("runs", state_dir=state)
    assert (error["code"], error["where"], error["exit"]) == ("state-dir-unusable", state, 2)
