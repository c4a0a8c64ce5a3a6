"""Secrets reach the server and nobody else: not ps, not our files, not what we print."""

from __future__ import annotations

from pathlib import Path

import pytest
import requests

from sglfab.testing.place import gone, place_in

FROM_ENV, FROM_FILE, FROM_COMMAND = "hf_8e1dQ2'\"$HOME x", "api-key-of-71ad93", "from-a-command-55aa"
VALUES = (FROM_ENV, FROM_FILE, FROM_COMMAND)


@pytest.fixture(scope="module")
def secretive(tmp_path_factory):
    """A server with three secrets, whose set-up even prints one; and everything that `fab` said about it."""
    root = tmp_path_factory.mktemp("secretive")
    (root / "key").write_text(FROM_FILE + "\n")
    (root / "command").write_text(FROM_COMMAND)
    with place_in(root / "host") as place:
        place.host.write_profile(
            secrets={
                "env": {"HF_TOKEN": {"env": "THE_TOKEN"}, "OTHER_TOKEN": {"command": f"cat {root}/command"}},
                "args": {"api-key": {"file": str(root / "key")}},
            },
            setup=["echo \"ServerArgs(api_key='$OTHER_TOKEN', port=1)\"", 'echo "no place that tells: $HF_TOKEN."'],
        )
        knowing = place.fab.where(THE_TOKEN=FROM_ENV)
        launched = knowing("launch", "--profile", "standin", "--json")
        assert launched.code == 0, launched
        run = launched.json["run"]
        said = knowing.all(
            ("launch", "--profile", "standin", "--dry-run"),
            ("launch", "--profile", "standin", "--dry-run", "--json"),
            ("render", "--profile", "standin"),
            ("runs", "--json"),
            ("status", "--json"),
            ("logs", "--lines", "500"),
        )
        said += place.fab.all(("launch", "--profile", "standin"))
        yield {"place": place, "run": run, "said": [launched, *said], "unset": said[-1], "knowing": knowing}


def environ_of(pid):
    return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")


def test_the_server_really_gets_them(secretive):
    place, run = secretive["place"], secretive["run"]
    environ = environ_of(place.pid(run))
    assert f"HF_TOKEN={FROM_ENV}".encode() in environ
    assert f"OTHER_TOKEN={FROM_COMMAND}".encode() in environ
    url = f"http://127.0.0.1:{place.host.port}/model_info"
    assert requests.get(url, timeout=5).status_code == 401
    assert requests.get(url, timeout=5, headers={"Authorization": f"Bearer {FROM_FILE}"}).status_code == 200


def test_no_command_line_of_any_process_shows_one(secretive):
    """Every process of the machine that can be read: the server's session, its keeper, and whatever else."""
    seen = b""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            seen += (process / "cmdline").read_bytes()
        except OSError:
            continue
    assert b"start.py" in seen
    for value in VALUES:
        assert value.encode() not in seen, value


def test_the_keeper_does_not_hold_the_argument_in_its_environment(secretive):
    keeper = secretive["place"].runs()[secretive["run"]]["keeper"]["pid"]
    assert not any(FROM_FILE.encode() in variable for variable in environ_of(keeper))


def test_no_file_of_ours_holds_one(secretive):
    folder = secretive["place"].host.state_dir
    files = {f: f.read_bytes() for f in folder.rglob("*") if f.is_file()}
    names = {f.name for f in files}
    assert {"run.json", "launch.sh", "start.py", "keeper.log", "watch.jsonl", "verdict.json", "server.log"} <= names
    for path, data in files.items():
        shown = [v for v in VALUES if v.encode() in data]
        allowed = [FROM_COMMAND, FROM_ENV] if path.name == "server.log" else []  # the server itself printed it
        assert set(shown) <= set(allowed), path


def test_nothing_that_is_printed_shows_one(secretive):
    for done in secretive["said"]:
        for value in VALUES:
            assert value not in done.said, done.words


def test_what_the_server_printed_is_shown_with_the_secret_hidden(secretive):
    shown = next(done for done in secretive["said"] if done.words[0] == "logs").out
    assert "ServerArgs(api_key='***', port=1)" in shown
    assert "no place that tells: ***." in shown


def test_a_missing_secret_is_found_before_anything_is_stopped(secretive):
    done = secretive["unset"]
    assert done.code == 2
    assert "secret-unset" in done.err
    assert "THE_TOKEN" in done.err
    assert not gone(secretive["place"].pid(secretive["run"]))


def test_restart_asks_for_them_again(secretive):
    place = secretive["place"]
    with_them = secretive["knowing"]("restart", "--no-wait", "--json")
    assert with_them.code == 0, with_them
    assert f"HF_TOKEN={FROM_ENV}".encode() in environ_of(place.pid(with_them.json["run"]))
