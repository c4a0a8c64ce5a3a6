"""Ctrl-C at a real terminal: 130, the server goes on, the terminal as before, and a line that resumes when typed."""

from __future__ import annotations

import os
import re
import shlex
import signal

import pytest

from sglfab.testing.fab import ended, read_until
from sglfab.testing.place import gone
from sglfab.testing.terminal import Terminal

LONG = {"delays": {"kv-cache": 600}}  # SGLang names the stage when it is done with it: until then it is post-load


@pytest.fixture
def at_terminal(place):
    def start(*words):
        return Terminal(place.fab.argv(*words), cwd=place.fab.cwd, env=place.fab.environ)

    return start


def assert_left_well(terminal):
    assert terminal.end() == 130, terminal.screen
    assert terminal.settings() == terminal.before
    assert terminal.cursor_visible()
    assert "Traceback" not in terminal.screen


def typed_after(terminal, word):
    """The words of the `fab …` line that the screen shows after `word`."""
    line = re.search(rf"{word}: (fab .*)", terminal.screen)
    assert line, terminal.screen
    return shlex.split(line[1])[1:]


def test_during_the_wait_of_a_launch(place, at_terminal):
    place.host.write_profile(setup=[place.gate])
    with at_terminal("launch", "--profile", "standin") as terminal:
        terminal.until("/health")
        terminal.ctrl_c()
        assert_left_well(terminal)
        resume = typed_after(terminal, "Resume")
    (run,) = place.live
    assert resume == ["wait-health", "--run", run]
    place.open_gate()
    resumed = place.fab(*resume, "--json")
    assert (resumed.code, resumed.json["verdict"], resumed.json["run"]) == (0, "ready", run)


def test_a_sigterm_during_the_wait_is_as_good_as_ctrl_c(place, at_terminal):
    place.host.write_profile(setup=[place.gate])
    with at_terminal("launch", "--profile", "standin") as terminal:
        terminal.until("/health")
        os.kill(terminal.process.pid, signal.SIGTERM)
        assert_left_well(terminal)
        assert typed_after(terminal, "Resume") == ["wait-health", "--run", *place.live]


def test_before_anything_was_stopped(place, at_terminal):
    """The command of a secret takes its time: nothing has begun on the host."""
    run = place.launch()
    pid = place.pid(run)
    place.host.write_profile(secrets={"env": {"HF_TOKEN": {"command": "echo asking >&2; exec sleep 60"}}})
    with at_terminal("launch", "--profile", "standin") as terminal:
        terminal.until("asking")
        terminal.ctrl_c()
        assert_left_well(terminal)
        assert typed_after(terminal, "Again") == ["launch", "--profile", "standin"]
    assert place.live == [run]
    assert not gone(pid)


def test_while_the_old_server_is_being_stopped(place, at_terminal):
    """It has got its SIGTERM; whether it ends is its own matter. Nothing new was started."""
    place.host.write_profile(script={"ignore_sigterm": True})
    run = place.launch()
    assert place.fab("wait-health").code == 0
    with at_terminal("launch", "--profile", "standin") as terminal:
        terminal.until("SIGTERM")
        terminal.ctrl_c()
        assert_left_well(terminal)
        assert "nothing was started" in terminal.screen
    assert list(place.runs()) == [run]


def test_during_a_wait_for_a_foreign_server_that_was_confirmed_at_the_terminal(place, at_terminal):
    server = place.host.start(LONG)
    with at_terminal("wait-health", "--pid", str(server.pid)) as terminal:
        terminal.until("go on? [y/N]")
        terminal.type(b"y\n")
        terminal.until("post-load")
        terminal.ctrl_c()
        assert_left_well(terminal)
        resume = typed_after(terminal, "Resume")
    assert resume[:3] == ["wait-health", "--log", str(place.host.root / "server.log")]
    assert server.poll() is None
    again = place.fab(*resume, "--yes", "--json", "--deadline", "1")
    assert (again.code, again.json["verdict"]) == (5, "timed_out")


def test_a_question_answered_with_no_changes_nothing(place, at_terminal):
    server = place.host.start(LONG)
    with at_terminal("stop", "--pid", str(server.pid)) as terminal:
        terminal.until("go on? [y/N]")
        assert "sglang.launch_server" in terminal.screen
        terminal.type(b"\n")
        assert terminal.end() == 2
    assert server.poll() is None


def test_with_json_the_object_so_far_is_printed(place):
    place.host.write_profile(script=LONG)
    waiting = place.fab.start("launch", "--profile", "standin", "--json")
    read_until(waiting, "post-load")
    os.killpg(waiting.pid, signal.SIGINT)
    done = ended(waiting)
    assert done.code == 130
    assert (done.json["verdict"], done.json["stage"]) == ("loading", "post-load")
    assert done.json["run"] in place.live
    assert any("Resume: fab wait-health --run" in note for note in done.json["notes"])


def test_with_json_before_the_start_too(place):
    place.host.write_profile(secrets={"env": {"HF_TOKEN": {"command": "echo asking >&2; exec sleep 60"}}})
    waiting = place.fab.start("launch", "--profile", "standin", "--json")
    assert waiting.stderr.readline() == "asking\n"
    os.killpg(waiting.pid, signal.SIGINT)
    done = ended(waiting)
    assert (done.code, done.json["verdict"], done.json["run"]) == (130, "loading", None)
    assert place.runs() == {}
