"""What a stranger typed and got no answer, or a wrong one: each began as a failing case."""

from __future__ import annotations

import gzip
import subprocess
import sys
import time

import pytest

from sglfab.testing.fab import Fab
from sglfab.testing.fixtures import find_free_port, is_free

fab = Fab()

HOSTS = {
    "a port": (["127.0.0.1:1"], 1),
    "a user": (["root@127.0.0.1:1"], 1),
    "two, one with a user": (["root@127.0.0.1:1,127.0.0.1:2"], 2),
    "the same twice": (["127.0.0.1:1,127.0.0.1:1"], 1),
}


@pytest.mark.parametrize(("hosts", "answers"), HOSTS.values(), ids=HOSTS.keys())
def test_every_way_to_name_a_host_is_answered_once(hosts, answers):
    done = fab("-H", *hosts, "status", "--json")
    assert done.code == 7, done
    told = done.json.get("hosts", [done.json])
    assert [one["error"]["code"] for one in told] == ["ssh-unreachable"] * answers


def test_two_tasks_on_one_line_are_both_answered():
    done = fab("-H", "127.0.0.1:1", "status")
    assert done.err.count("ssh-unreachable") == 1
    plain = fab("profiles", "profiles")
    assert plain.out.count("cpu-demo-debug") == 2 * fab("profiles").out.count("cpu-demo-debug")


def test_a_compressed_log_is_refused_and_a_strange_one_is_said_to_be_strange(tmp_path):
    (tmp_path / "server.log.gz").write_bytes(gzip.compress(b"torch.OutOfMemoryError: CUDA out of memory.\n"))
    done = fab("diagnose", "--log", str(tmp_path / "server.log.gz"))
    assert (done.code, "log-compressed" in done.err, "zcat" in done.err) == (2, True, True), done
    (tmp_path / "notes.txt").write_text("milk\nbread\n")
    strange = fab("diagnose", "--log", str(tmp_path / "notes.txt"), "--json")
    assert any("recognised" in note for note in strange.json["notes"])
    empty = fab("diagnose", "--log", "-", "--json", input="")
    assert (empty.code, empty.json["notes"]) == (0, ["stdin is empty"])


@pytest.fixture
def team(tmp_path):
    (tmp_path / "profiles").mkdir()
    return tmp_path


def test_an_unknown_patch_set_is_told_by_render(team):
    (team / "profiles" / "typo.yaml").write_text("extends: eagle3\npatches: [eagle3-hiden-states]\n")
    done = fab("render", "--profile", "typo", "--release", "0.5.12", "--configs", str(team))
    assert (done.code, "patch-set-unknown" in done.err) == (2, True), done


def test_a_secret_that_is_not_there_is_found_by_preflight(team):
    text = "extends: cpu-demo\nsecrets: {env: {HF_TOKEN: {env: NOT_SET_ANYWHERE}}}\n"
    (team / "profiles" / "sec.yaml").write_text(text)
    done = fab("preflight", "--profile", "sec", "--configs", str(team), "--json")
    found = [check for check in done.json["checks"] if check["name"] == "secret-unset"]
    assert (done.code, len(found)) == (10, 1), done
    assert "NOT_SET_ANYWHERE" in found[0]["text"]
    assert found[0]["try"] == "export NOT_SET_ANYWHERE=…"
    assert done.json["verdict"] is None
    assert set(done.json["error"]) == {"code", "what", "where", "try"}
    assert all(done.json["error"].values())


def test_a_folder_that_is_called_like_a_profile_hides_no_other(team):
    (team / "profiles" / "dir.yaml").mkdir()
    done = fab("profiles", "--configs", str(team))
    assert done.code == 0, done
    assert "eagle3" in done.out


@pytest.fixture
def elsewhere(tmp_path):
    """`fab` with a state folder of its own: its waits are recorded."""
    return fab.where(SGLFAB_STATE_DIR=str(tmp_path))


def test_a_wait_that_ran_out_of_time_says_what_it_knew(elsewhere):
    done = elsewhere("wait-health", "--url", "http://127.0.0.1:1", "--deadline", "1", "--json")
    assert (done.code, done.json["verdict"]) == (5, "timed_out")
    assert any("/health answered last: refused" in note for note in done.json["notes"])


@pytest.fixture(scope="module")
def file_server(tmp_path_factory):
    """`python -m http.server` on a folder in which the paths of SGLang are files: GET is 200, POST is 501."""
    folder = tmp_path_factory.mktemp("files")
    for name in ("health", "model_info"):
        (folder / name).write_text("a file\n")
    port = find_free_port()
    argv = [sys.executable, "-m", "http.server", str(port), "--bind", "127.0.0.1", "--directory", str(folder)]
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        while is_free(port):
            time.sleep(0.02)
        yield server.pid, port
        server.kill()


@pytest.mark.parametrize("way", ["--url", "--pid"])
def test_a_wait_for_a_server_that_is_no_sglang_ends(file_server, way, elsewhere):
    pid, port = file_server
    named = ["--url", f"127.0.0.1:{port}"] if way == "--url" else ["--pid", str(pid), "--port", str(port), "--yes"]
    done = elsewhere("wait-health", *named, "--json", "--deadline", "30")
    assert (done.code, done.json["verdict"]) == (7, "unreachable"), done
    assert any("no SGLang server" in note and "501" in note for note in done.json["notes"])


def test_a_url_beside_a_host_is_said_to_be_asked_from_here(file_server, elsewhere):
    done = elsewhere("-H", "127.0.0.1:1", "wait-health", "--url", f"127.0.0.1:{file_server[1]}", "--deadline", "30")
    assert (done.code, "no SGLang server" in done.out) == (7, True), done
    assert "--url is asked from this machine, not from 127.0.0.1:1" in done.err


def test_tls_asked_of_plain_http_is_told_at_once(file_server, elsewhere):
    done = elsewhere("wait-health", "--url", f"https://127.0.0.1:{file_server[1]}", "--json")
    assert (done.code, done.json["error"]["code"]) == (7, "url-unreachable"), done
    assert "http://127.0.0.1" in done.json["error"]["try"]


@pytest.mark.parametrize("host", ["", "user@", ",,", "127.0.0.1:abc", "-oProxyCommand=x", "a b"])
def test_a_name_that_names_no_host_is_told_and_nothing_runs(host):
    done = fab("-H", host, "status")
    assert (done.code, "bad-host" in done.err, "Traceback" in done.said) == (2, True, False), done
    as_json = fab("-H", host, "status", "--json")
    assert as_json.json["error"]["code"] == "bad-host"


SSH_CONFIGS = {
    "that is not there": (None, "No such file"),
    "that is none": ("garbage\nHost\n", "garbage"),
    "that is no text": (b"\xff\xed\x00", "utf-8"),
}


@pytest.mark.parametrize(("content", "why"), SSH_CONFIGS.values(), ids=SSH_CONFIGS.keys())
def test_an_ssh_config_at_which_fabric_stumbles_is_told(tmp_path, content, why):
    file = tmp_path / "config"
    if content is not None:
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
    done = fab("-S", str(file), "profiles")
    assert (done.code, "ssh-config-unreadable" in done.err, why in done.err) == (2, True, True), done


def test_an_ssh_config_of_the_user_that_is_broken_is_told_too(tmp_path):
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh" / "config").write_text("garbage\n")
    done = fab.where(HOME=str(tmp_path))("profiles", "--json")
    assert (done.code, done.json["error"]["where"]) == (2, "~/.ssh/config"), done
    assert fab.where(HOME=str(tmp_path))("-S", "/dev/null", "profiles").code == 0


def test_a_finding_that_is_unknown_has_a_page_too():
    done = fab("explain", "unknown")
    assert (done.code, "no signature" in done.out) == (0, True), done
