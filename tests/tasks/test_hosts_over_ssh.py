"""`fab -H`: a real sshd on loopback, the stand-in behind it."""

from __future__ import annotations

import json
import os
import shlex
import signal

import pytest

from sglfab.testing import sshd as real_sshd
from sglfab.testing.fab import ROOT, ended, read_until
from sglfab.testing.fixtures import end_runs, find_free_port
from sglfab.testing.place import gone

pytestmark = pytest.mark.ssh


@pytest.fixture(scope="module")
def sshd(tmp_path_factory):
    why = real_sshd.missing()
    if why and os.environ.get("SGLFAB_REQUIRE_REAL"):
        pytest.fail(why)
    if why:
        pytest.skip(why)
    with real_sshd.running(tmp_path_factory.mktemp("sshd")) as running:
        running.host("also")
        running.host("dead", Port=str(find_free_port()))
        other = real_sshd.make_key(running.folder / "other_key").with_suffix(".pub").read_text()
        (running.folder / "wrong_hosts").write_text(f"[127.0.0.1]:{running.port} {other}")
        running.host("changed", UserKnownHostsFile=str(running.folder / "wrong_hosts"))
        yield running
        end_runs(running.state_dir)


@pytest.fixture
def remote(place, sshd):
    """The place, whose runs lie in the state folder behind that sshd."""
    place.host.write_profile(wait={"reconnect_s": 30})
    yield place
    end_runs(sshd.state_dir)


def over(place, sshd, hosts="box"):
    return place.fab.where("-S", str(sshd.config), "-H", hosts)


def main_pid(sshd, run):
    return json.loads((sshd.state_dir / "runs" / run / "run.json").read_text())["main"]["pid"]


def test_a_wait_is_recorded_where_its_watcher_runs_and_replayed_from_there(place, sshd):
    fab = over(place, sshd)
    dead = ROOT / "tests" / "cases" / "real" / "err_trunc_shard" / "server.log"
    url = ("--url", f"127.0.0.1:{place.host.port}")
    there = fab("wait-health", "--log", str(dead), *url, "--json")
    here = fab("wait-health", *url, "--deadline", "0.1", "--json")
    for done, state, reach in ((there, sshd.state_dir, "-H box "), (here, place.host.state_dir, "")):
        told = done.json
        said, _, line = told["notes"].pop().partition(": fab ")
        (record,) = (state / "waits").iterdir()
        again = place.fab(*shlex.split(line), "--json")
        assert (said, again.code, again.json) == ("recorded", done.code, told)
        assert line == f"-S {sshd.config} {reach}diagnose --replay {record.name}"


def test_every_host_is_visited_and_the_worst_answer_is_the_exit_code(place, sshd):
    done = over(place, sshd, "box,dead,also")("status", "--json")
    assert done.code == 7, done
    assert [host["host"] for host in done.json["hosts"]] == ["box", "dead", "also"]
    alive, dead, also = done.json["hosts"]
    assert alive["runs"] == also["runs"] == []
    assert dead["error"]["code"]
    assert dead["verdict"] is None


def test_a_host_that_is_not_who_it_was_is_not_talked_to(place, sshd):
    done = over(place, sshd, "changed")("status", "--json")
    assert (done.code, done.json["error"]["code"]) == (7, "host-key-mismatch"), done
    assert "ssh-keygen" in done.json["error"]["try"]


def test_a_server_is_launched_waited_for_and_stopped_over_there(remote, sshd):
    fab = over(remote, sshd)
    launched = fab("launch", "--profile", "standin", "--json")
    assert (launched.code, launched.json["verdict"], launched.json["host"]) == (0, "ready", "box"), launched
    pid = main_pid(sshd, launched.json["run"])
    here = remote.fab("status", "--json")
    assert here.json["runs"] == []
    assert not gone(pid)
    stopped = fab("stop", "--json")
    assert (stopped.code, stopped.json["stopped"]) == (0, True)
    assert gone(pid)


def test_a_wait_outlives_its_connection(remote, sshd):
    remote.host.write_profile(setup=[remote.gate])
    fab = over(remote, sshd)
    run = fab("launch", "--profile", "standin", "--no-wait", "--json").json["run"]
    waiting = fab.start("wait-health", "--run", run, "--json")
    read_until(waiting, "stage")
    sshd.signal_connections(signal.SIGKILL)
    assert "the server is untouched" in read_until(waiting, "reconnecting")
    remote.open_gate()
    done = ended(waiting)
    assert (done.code, done.json["verdict"]) == (0, "ready"), done
    assert fab("diagnose", "--replay", run, "--json").json == done.json
    file = sshd.state_dir / "runs" / run / "watch.jsonl"
    assert fab("diagnose", "--replay", str(file), "--json").json == done.json


def test_a_host_that_stays_away_is_unreachable_and_its_server_untouched(remote, tmp_path):
    remote.host.write_profile(setup=[remote.gate], wait={"reconnect_s": 3})
    with real_sshd.running(tmp_path / "own") as own:
        fab = over(remote, own)
        run = fab("launch", "--profile", "standin", "--no-wait", "--json").json["run"]
        waiting = fab.start("wait-health", "--run", run, "--json")
        read_until(waiting, "stage")
        serving = own.connections()
        own.stop()
        for connection in serving:
            os.kill(connection, signal.SIGKILL)
        done = ended(waiting)
        pid = main_pid(own, run)
        assert (done.code, done.json["verdict"]) == (7, "unreachable"), done
        assert any("untouched" in gap for gap in done.json["gaps"])
        assert not gone(pid)
        end_runs(own.state_dir)


def test_the_line_to_resume_reaches_the_same_host(remote, sshd):
    remote.host.write_profile(setup=[remote.gate])
    fab = over(remote, sshd)
    waiting = fab.start("launch", "--profile", "standin", "--json")
    read_until(waiting, "stage")
    os.killpg(waiting.pid, signal.SIGINT)
    done = ended(waiting)
    assert done.code == 130
    (note,) = [note for note in done.json["notes"] if "Resume" in note]
    assert f"fab -S {sshd.config} -H box wait-health --run {done.json['run']}" in note
    assert not gone(main_pid(sshd, done.json["run"]))
