"""A stop ends one server, whatever it resists with, and nobody else."""

import json
import os
import signal
import sys
from pathlib import Path

import pytest

from sglfab.hostside.processes import look

HERE = Path(__file__).parent
CHILDREN = ["sglang::scheduler_TP0", "sglang::detokenizer"]


def steps(events):
    return " / ".join(event["step"] for event in events)


def members_of(run, alive):
    return [
        int(e.name)
        for e in Path("/proc").iterdir()
        if e.name.isdigit() and in_session(int(e.name), run) and alive(int(e.name))
    ]


def in_session(pid, run):
    try:
        return os.getsid(pid) == run["main"]["pid"]
    except OSError:
        return False


RESISTING = [
    pytest.param({}, [], "SIGTERM", id="a server that drains at SIGTERM"),
    pytest.param({"ignore_term": True}, [], "SIGKILL", id="a server that ignores SIGTERM"),
    pytest.param({"orphan_s": 3600}, [], "SIGTERM", id="a server with an orphan"),
    pytest.param({}, [signal.SIGSTOP], "SIGTERM", id="a server that was stopped by SIGSTOP"),
]


@pytest.mark.parametrize(("order", "before", "signal_name"), RESISTING)
def test_all_of_the_server_goes_and_nobody_else(host, port, alive, bystander, order, before, signal_name):
    twin = bystander(["sglang::scheduler_TP0", "3600"], executable="/bin/sleep")
    run = host.launch({"port": port, "children": CHILDREN, **order})
    for number in before:
        os.kill(run["main"]["pid"], number)
    reply, error, events = host.call("stop", run_id=run["id"], grace_s=1)
    assert error is None
    assert (reply["was_running"], reply["stopped"], reply["survivors"]) == (True, True, [])
    assert reply["exit"]["signal"] == signal_name
    assert reply["gpu_free"] in (None, True)
    assert members_of(run, alive) == []
    assert f"port {port} closed" in steps(events)
    assert alive(twin.pid), "a process of the same name is not ours"


def test_a_second_stop_finds_nothing_and_says_so(host):
    run = host.launch({})
    host.ok("stop", run_id=run["id"], grace_s=1)
    reply = host.ok("stop", run_id=run["id"], grace_s=1)
    assert (reply["was_running"], reply["stopped"], reply["exit"]["signal"]) == (False, True, "SIGTERM")


def test_children_that_outlive_main_are_stopped(host, alive, exit_status):
    run = host.launch({"children": CHILDREN})
    os.kill(run["main"]["pid"], signal.SIGKILL)
    exit_status(run)
    assert len(members_of(run, alive)) == 2
    assert host.ok("stop", run_id=run["id"], grace_s=1)["was_running"]
    assert members_of(run, alive) == []


def forge(run, **changes):
    path = Path(run["dir"], "run.json")
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def test_a_reused_pid_is_never_signalled(host, bystander, alive, exit_status):
    run = host.launch({"exit": {"code": 0}})
    exit_status(run)
    stranger = bystander(["sleep", "3600"], start_new_session=True)
    forge(run, main={"pid": stranger.pid, "start": look(stranger.pid).start - 1})
    assert host.ok("stop", run_id=run["id"], grace_s=0)["was_running"] is False
    assert alive(stranger.pid)


def test_a_run_of_another_boot_is_never_signalled(host, bystander, alive, exit_status):
    run = host.launch({"exit": {"code": 0}})
    exit_status(run)
    stranger = bystander(["sleep", "3600"], start_new_session=True)
    forge(run, main={"pid": stranger.pid, "start": look(stranger.pid).start}, boot_id="another")
    assert host.ok("stop", run_id=run["id"], grace_s=0)["was_running"] is False
    assert alive(stranger.pid)


def foreign(bystander, port, eventually, **options):
    order = json.dumps({"port": port, "children": CHILDREN})
    with open(options.pop("log"), "wb") as log:
        server = bystander([sys.executable, str(HERE / "fake_server.py"), order], stdout=log, stderr=log, **options)
    eventually(lambda: b"all stands" in Path(log.name).read_bytes())
    return server


def test_a_named_foreign_server_goes_with_its_children(host, port, bystander, eventually, alive, tmp_path):
    neighbour = bystander(["sleep", "3600"])
    server = foreign(bystander, port, eventually, log=tmp_path / "log")
    children = [
        pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if (p := look(pid)) and p.ppid == server.pid
    ]
    reply = host.ok("stop", pid=server.pid, grace_s=2)
    assert (reply["stopped"], reply["exit"]) == (True, None)
    assert len(children) == 2
    assert not any(map(alive, children))
    assert alive(neighbour.pid), "in the same session as the server, because both hang from one shell"


REFUSED = [
    pytest.param(os.getpid, "pid-refused", id="the shell that carries the command"),
    pytest.param(lambda: 1, "pid-refused", id="init"),
    pytest.param(lambda: 2**22 + 5, "pid-unknown", id="a pid that cannot be"),
]


@pytest.mark.parametrize(("pid", "code"), REFUSED)
def test_a_pid_that_must_not_be_stopped(host, pid, code):
    _, error, _ = host.call("stop", pid=pid(), grace_s=0)
    assert error["code"] == code


def test_a_pid_that_became_another_process_since_it_was_shown(host, bystander, alive):
    stranger = bystander(["sleep", "3600"])
    _, error, _ = host.call("stop", pid=stranger.pid, start=1, grace_s=0)
    assert error["code"] == "pid-reused"
    assert alive(stranger.pid)


def test_an_unknown_run(host):
    assert host.call("stop", run_id="nobody-1", grace_s=0)[1]["code"] == "run-unknown"


GPUS = [
    pytest.param("OURS", 100_000, True, id="our processes are listed, then not"),
    pytest.param("1", 100_000, None, id="other numbers, and memory in use: it cannot be told"),
    pytest.param("1", 4, True, id="other numbers, but the GPU is empty"),
]


@pytest.mark.parametrize(("pids", "used", "free"), GPUS)
def test_gpu_memory_is_confirmed_where_it_can_be(host, nvidia_smi, pids, used, free):
    run = host.launch({})
    nvidia_smi(gpus=[{"memory.used": str(used)}], apps=[{"pid": pids.replace("OURS", str(run["main"]["pid"]))}])
    [gpu] = host.ok("facts")["gpus"]
    assert gpu == {
        "index": 0,
        "name": "NVIDIA H200",
        "bus": "00000000:3B:00.0",
        "used_mb": used,
        "total_mb": 143771,
        "util": None,
    }
    assert host.ok("stop", run_id=run["id"], grace_s=5)["gpu_free"] is free


def test_what_is_left_of_a_dead_server_is_told(host, exit_status):
    run = host.launch({"children": CHILDREN})
    os.kill(run["main"]["pid"], signal.SIGKILL)
    exit_status(run)
    [seen] = host.ok("runs", profile=None)["runs"]
    assert (seen["alive"], seen["leftover"]) == (False, True)
    host.ok("stop", run_id=run["id"], grace_s=0)
    assert host.ok("runs", profile=None)["runs"][0]["alive"] is False
