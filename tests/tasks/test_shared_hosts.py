"""A host that others use too: locks, their runs, their ports, their edits; and hosts where a launch cannot work."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from sglfab.testing.fab import ended, read_until
from sglfab.testing.fixtures import find_free_port, start_of
from sglfab.testing.place import place_in
from sglfab.transports.host import Host
from sglfab.transports.local import LocalTransport


def test_of_two_launches_at_once_one_wins_and_the_other_learns_who(place):
    place.host.write_profile(script={"ignore_sigterm": True})
    old = place.pid(place.launch())
    assert place.fab("wait-health").code == 0  # from here on it ignores SIGTERM, so that its stop takes its time
    first = place.fab.start("launch", "--profile", "standin", "--no-wait", "--json")
    read_until(first, "stop: SIGTERM")
    reader = threading.Thread(target=first.stderr.read, daemon=True)
    reader.start()
    second = place.fab.where(SGLFAB_OPERATOR="late")(
        "launch", "--profile", "standin", "--no-wait", "--takeover", "--json"
    )
    assert second.code == 9, second
    named = second.json["error"]["what"]
    assert "tester" in named
    assert socket.gethostname() in named
    assert "launch of standin" in named
    assert first.poll() is None
    os.kill(old, signal.SIGKILL)
    out = first.stdout.read()
    assert first.wait(60) == 0, out
    reader.join(5)
    assert len(place.live) == 1


def test_a_lock_of_another_port_or_install_is_no_obstacle(place):
    host = Host(LocalTransport(), state_dir=str(place.host.state_dir))
    other = {
        "port": find_free_port(),
        "install": "/elsewhere/sglang",
        "operator": "ann",
        "laptop": "x",
        "what": "a launch",
    }
    os.environ["SGLFAB_LOCK_DIR"] = str(place.fab.env["SGLFAB_LOCK_DIR"])
    try:
        with host.stream("hold-locks", other) as held:
            next(held)
            done = place.fab("preflight", "--profile", "standin", "--json")
    finally:
        del os.environ["SGLFAB_LOCK_DIR"]
    assert done.code == 0, done
    assert "lock" not in {check["name"] for check in done.json["checks"]}


def test_a_live_run_of_another_operator_needs_takeover(place):
    theirs = place.fab.where(SGLFAB_OPERATOR="ann")("launch", "--profile", "standin", "--no-wait", "--json").json["run"]
    refused, dry = place.fab.all(
        ("launch", "--profile", "standin", "--no-wait", "--json"),
        ("launch", "--profile", "standin", "--dry-run", "--json"),
    )
    assert (refused.code, refused.json["error"]["code"]) == (9, "other-operator")
    assert "ann" in refused.json["error"]["what"]
    assert refused.json["error"]["try"] == "--takeover"
    assert dry.code == 9
    assert place.live == [theirs]
    taken = place.fab("launch", "--profile", "standin", "--no-wait", "--takeover", "--json")
    assert taken.code == 0, taken
    assert place.live == [taken.json["run"]]


def test_a_busy_port_is_found_before_anything_is_stopped(place):
    run = place.launch()
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        place.host.port = listener.getsockname()[1]
        place.host.write_profile()
        done = place.fab("launch", "--profile", "standin", "--no-wait", "--json")
    assert (done.code, done.json["error"]["code"]) == (10, "port-busy")
    assert f"pid {os.getpid()}" in done.json["error"]["what"]
    assert Path("/proc/self/cmdline").read_text().split("\0")[0] in done.json["error"]["what"]
    assert done.json["error"]["try"].endswith(f"fab stop --pid {os.getpid()}")
    assert place.live == [run]


def test_a_foreign_edit_in_a_file_to_be_patched_leaves_the_old_server_alone(place):
    run = place.launch()
    pid = place.pid(run)
    edited = place.host.standin.sglang / "srt" / "models" / "deepseek_v2.py"
    edited.write_text(edited.read_text() + "\n# an idea of somebody else\n")
    before = edited.read_bytes()
    place.host.write_profile(patches=["eagle3-hidden-states"])
    launched, dry, checked = place.fab.all(
        ("launch", "--profile", "standin", "--no-wait", "--json"),
        ("launch", "--profile", "standin", "--dry-run", "--json"),
        ("preflight", "--profile", "standin", "--json"),
    )
    assert (launched.code, launched.json["error"]["code"]) == (6, "patch-conflict")
    assert (dry.code, checked.code) == (6, 10)
    assert place.live == [run]
    assert start_of(pid) is not None
    assert edited.read_bytes() == before


NOWHERE = "/nonexistent/python3"
BARE = {
    "no python there: launch": (NOWHERE, ("launch", "--profile", "standin", "--json"), 10, "no-python"),
    "no python there: preflight": (NOWHERE, ("preflight", "--profile", "standin", "--json"), 10, "no-python"),
    "no python there: patch-status": (NOWHERE, ("patch-status", "--profile", "standin", "--json"), 2, "no-python"),
    "no sglang in it: launch": (sys.executable, ("launch", "--profile", "standin", "--json"), 10, "no-sglang"),
    "no sglang in it: preflight": (sys.executable, ("preflight", "--profile", "standin", "--json"), 10, "no-sglang"),
    "no sglang in it: patch-debug": (sys.executable, ("patch-debug", "--profile", "standin", "--json"), 2, "sglang"),
}  # fmt: skip


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    answers = {}
    with place_in(tmp_path_factory.mktemp("bare") / "host") as place:
        for python in (NOWHERE, sys.executable):
            place.host.write_profile(python=python)
            mine = {name: case for name, case in BARE.items() if case[0] == python}
            answers |= dict(zip(mine, place.fab.all(*(case[1] for case in mine.values())), strict=True))
        (tool_less := place.host.root / "empty").mkdir()
        answers["no python3 in PATH: status"] = place.fab.where(PATH=str(tool_less))("status", "--json")
        assert place.runs() == {}
    return answers


@pytest.mark.parametrize(("python", "words", "code", "named"), BARE.values(), ids=BARE.keys())
def test_a_host_without_python_or_sglang_gets_an_answer(bare, request, python, words, code, named):
    done = bare[request.node.callspec.id]
    assert done.code == code, done
    assert named in done.out
    assert "Traceback" not in done.said


def test_commands_that_need_no_profile_look_for_python3(bare):
    done = bare["no python3 in PATH: status"]
    assert (done.code, done.json["error"]["code"]) == (2, "no-python")


def test_a_state_folder_that_cannot_be_made_is_found_before_anything_is_stopped(place, tmp_path):
    (tmp_path / "file").touch()
    lost = place.fab.where(SGLFAB_STATE_DIR=str(tmp_path / "file" / "state"))
    done = lost("launch", "--profile", "standin", "--no-wait", "--json")
    assert (done.code, done.json["error"]["code"]) == (10, "state-dir"), done
    assert str(tmp_path / "file" / "state") in done.json["error"]["what"]
    assert _servers_of(place) == []


def test_a_disk_that_fills_while_the_run_folder_is_written_leaves_no_run_and_no_server(place):
    """A limit of 1 KiB a file stands for the full disk; the program for the host was brought there before."""
    assert place.fab("status").code == 0
    line = [
        "bash",
        "-c",
        'ulimit -f 1; exec "$0" "$@"',
        *place.fab.argv("launch", "--profile", "standin", "--no-wait", "--json"),
    ]
    limited = subprocess.Popen(
        line, cwd=place.fab.cwd, env=place.fab.environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    done = ended(limited)
    assert done.code == 2, done
    assert done.json["error"]["code"] == "disk-full"
    assert not list((place.host.state_dir / "runs").iterdir())
    assert _servers_of(place) == []


def _servers_of(place):
    """pids of this host's servers, recorded or not."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if words[0] == place.host.python.encode():
            found.append(process.name)
    return found
