"""exit.json says how the server ended, whatever ended it, and the keeper leaves nothing behind."""

import os
import signal
import subprocess

import pytest


def end_main(number):
    return lambda run: os.kill(run["main"]["pid"], number)


def end_group(number):
    return lambda run: os.killpg(run["main"]["pid"], number)


def leave_alone(run):
    pass


ENDINGS = [
    pytest.param({"exit": {"code": 0}}, leave_alone, 0, None, id="a normal exit"),
    pytest.param({"exit": {"code": 3}}, leave_alone, 3, None, id="an exit with a code of its own"),
    pytest.param({}, end_main(signal.SIGKILL), -9, "SIGKILL", id="SIGKILL of main"),
    pytest.param({}, end_main(signal.SIGTERM), -15, "SIGTERM", id="SIGTERM of main"),
    pytest.param({}, end_main(signal.SIGHUP), -1, "SIGHUP", id="a hang-up ends the server as it would any other"),
    pytest.param({}, end_group(signal.SIGKILL), -9, "SIGKILL", id="killpg of the server's group"),
    pytest.param({}, end_main(signal.SIGRTMIN + 3), -37, "SIG37", id="a real-time signal has a number only"),
]


@pytest.mark.parametrize(("order", "act", "code", "name"), ENDINGS)
def test_the_exit_status_is_recorded(host, exit_status, eventually, alive, order, act, code, name):
    run = host.launch(order)
    act(run)
    status = exit_status(run)
    assert (status["code"], status["signal"]) == (code, name)
    eventually(lambda: not alive(run["keeper"]["pid"]))
    assert host.ok("runs", profile=None)["runs"][0]["exit"]["code"] == code


def test_a_script_that_fails_before_the_server_is_an_exit_too(host, exit_status):
    run = host.ok("launch", **host.request({}, script="#!/bin/bash\nset -e\necho setting up\nfalse\n"))["run"]
    assert exit_status(run)["code"] == 1


def test_server_and_keeper_live_in_sessions_of_their_own(host):
    run = host.launch({"children": ["sglang::scheduler_TP0"]})
    sessions = {os.getsid(run["main"]["pid"]), os.getsid(run["keeper"]["pid"]), os.getsid(0)}
    assert len(sessions) == 3
    assert os.getpgid(run["keeper"]["pid"]) != os.getpgid(run["main"]["pid"])


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGQUIT])
def test_signals_that_end_others_leave_the_keeper_alone(host, exit_status, number):
    run = host.launch({})
    os.kill(run["keeper"]["pid"], number)
    os.kill(run["main"]["pid"], signal.SIGKILL)
    assert exit_status(run)["code"] == -9


def test_an_orphan_is_reaped_and_named(host, exit_status, eventually, alive):
    run = host.launch({"orphan_s": 3600, "children": ["sglang::scheduler_TP0"]})
    os.kill(run["main"]["pid"], signal.SIGKILL)
    assert exit_status(run)["orphans"] == []
    assert alive(run["keeper"]["pid"]), "somebody of the server is left, so the keeper stays"
    host.ok("stop", run_id=run["id"], grace_s=0)
    eventually(lambda: not alive(run["keeper"]["pid"]))
    assert {(o["code"], o["signal"]) for o in exit_status(run)["orphans"]} == {(-15, "SIGTERM")}
    assert len(exit_status(run)["orphans"]) == 2


def test_the_keeper_holds_nothing_of_whoever_launched(host):
    run = host.launch({})
    links = {
        os.readlink(f"/proc/{run['keeper']['pid']}/fd/{n}") for n in os.listdir(f"/proc/{run['keeper']['pid']}/fd")
    }
    assert {link for link in links if link.startswith(("pipe:", "socket:"))} == set()


def test_a_full_disk_does_not_swallow_the_exit_status(host, exit_status):
    host.move_to_small_disk(512)
    run = host.launch({})
    subprocess.run(["dd", "if=/dev/zero", f"of={host.state}/filler", "bs=1k"], capture_output=True, check=False)
    os.kill(run["main"]["pid"], signal.SIGKILL)
    assert exit_status(run)["code"] == -9


def test_the_keeper_is_cheap(host):
    run = host.launch({})
    with open(f"/proc/{run['keeper']['pid']}/status") as file:
        rss_kb = next(int(line.split()[1]) for line in file if line.startswith("VmRSS"))
    assert rss_kb < 40_000
