"""Servers that we did not start: judged by pid, URL or log, adopted, stopped; never without being asked for."""

from __future__ import annotations

import re
import shlex
import stat

import pytest
import requests

from sglfab.testing.fab import ROOT
from sglfab.testing.fixtures import find_free_port
from sglfab.testing.place import place_in

KEY = "hush-hush-4711"


@pytest.fixture(scope="module")
def foreign(tmp_path_factory):
    """One server that nobody launched with our tool, and what each way to name it answered."""
    with place_in(tmp_path_factory.mktemp("foreign") / "host") as place:
        server = place.host.start({}, "--api-key", KEY)
        pid, url = str(server.pid), f"http://127.0.0.1:{place.host.port}"
        knowing = place.fab.where(SGLFAB_API_KEY=KEY)
        proxied = knowing.where(
            http_proxy="http://127.0.0.1:9", HTTP_PROXY="http://127.0.0.1:9", all_proxy="http://127.0.0.1:9"
        )
        ready = knowing("wait-health", "--pid", pid, "--yes", "--json")
        asked, stopping, keyless, keyless_url = place.fab.all(
            ("wait-health", "--pid", pid),
            ("stop", "--pid", pid),
            ("wait-health", "--pid", pid, "--yes", "--json", "--deadline", "20"),
            ("wait-health", "--url", url, "--json", "--deadline", "20"),
        )
        log = place.host.root / "server.log"
        with log.open("a") as printed:
            printed.write(f"a plugin says: Authorization: Bearer {KEY}\n")
        by_url, by_log, by_both = proxied.all(
            ("wait-health", "--url", url, "--json"),
            ("wait-health", "--log", str(log), "--json", "--deadline", "20"),
            ("wait-health", "--url", url, "--log", str(log), "--json"),
        )
        answers = {"ready": ready, "asked": asked, "stopping": stopping, "keyless": keyless, "keyless url": keyless_url}
        answers |= {"url": by_url, "log": by_log, "url and log": by_both}
        yield {**answers, "server": server, "place": place}


@pytest.mark.parametrize("way", ["asked", "stopping"])
def test_without_a_terminal_and_yes_a_pid_is_shown_and_refused(foreign, way):
    done = foreign[way]
    assert done.code == 2
    assert "not-confirmed" in done.err
    assert "sglang.launch_server" in done.err
    assert foreign["server"].poll() is None


@pytest.mark.parametrize("way", ["ready", "url", "url and log"])
def test_it_is_judged_ready(foreign, way):
    done = foreign[way]
    assert (done.code, done.json["verdict"], done.json["run"]) == (0, "ready", None), done
    assert done.json["url"] == f"http://127.0.0.1:{foreign['place'].host.port}"


def test_a_log_alone_is_judged_by_its_ready_line(foreign):
    assert (foreign["log"].code, foreign["log"].json["verdict"]) == (0, "ready"), foreign["log"]
    assert foreign["log"].json["gaps"]


@pytest.mark.parametrize("way", ["keyless", "keyless url"])
def test_without_its_key_a_server_is_not_waited_for_in_vain(foreign, way):
    done = foreign[way]
    assert (done.code, done.json["verdict"]) == (0, "ready"), done
    assert any("401" in gap for gap in done.json["gaps"])


def test_its_key_is_never_shown(foreign):
    for way in ("ready", "asked", "stopping", "keyless", "url", "log", "url and log"):
        assert KEY not in foreign[way].said, way


def test_nothing_of_it_became_a_run(foreign):
    assert foreign["place"].runs() == {}


def recorded(done):
    """The words of the line that replays a wait, as its last note says it."""
    line = re.fullmatch(r"recorded: fab (diagnose --replay \d{8}-\d{6}-[0-9a-f]{4})", done.json["notes"][-1])
    assert line, done
    return shlex.split(line[1])


WAITS = ("ready", "keyless", "keyless url", "url", "log", "url and log")


def test_each_wait_is_recorded_and_its_record_gives_the_same_answer(foreign):
    answers = [foreign[way] for way in WAITS]
    replayed = foreign["place"].fab.all(*((*recorded(done), "--json") for done in answers))
    for way, live, again in zip(WAITS, answers, replayed, strict=True):
        told = {**live.json, "notes": live.json["notes"][:-1]}
        assert (way, again.code, again.json) == (way, live.code, told)


def test_the_records_are_private_and_hold_no_key(foreign):
    waits = foreign["place"].host.state_dir / "waits"
    folders = list(waits.iterdir())
    assert {folder.name for folder in folders} == {recorded(foreign[way])[-1] for way in WAITS}
    assert {stat.S_IMODE(folder.stat().st_mode) for folder in (waits, *folders)} == {0o700}
    for folder in folders:
        (record,) = folder.iterdir()
        assert (record.name, stat.S_IMODE(record.stat().st_mode)) == ("watch.jsonl", 0o600)
        assert KEY not in record.read_text()


def test_a_person_reads_how_to_replay_a_wait_that_ended_badly(place):
    dead = ROOT / "tests" / "cases" / "real" / "err_trunc_shard" / "server.log"
    named = ("--url", f"127.0.0.1:{place.host.port}", "--log", str(dead))
    done = place.fab("wait-health", *named)
    again = place.fab(*shlex.split(re.search("recorded: fab (.*)", done.out)[1]))
    assert (done.code, again.code) == (3, 3), done
    assert again.out.splitlines()[0] == done.out.splitlines()[0]


def test_a_wait_that_nobody_recorded_is_told_with_the_newest_one(place):
    nothing = place.fab("diagnose", "--replay", "20260101-000000-abcd", "--json")
    assert (nothing.code, nothing.json["error"]["code"]) == (2, "no-such-wait")
    assert "fab wait-health" in nothing.json["error"]["try"]
    waited = place.fab("wait-health", "--url", f"127.0.0.1:{place.host.port}", "--deadline", "0.1", "--json")
    error = place.fab("diagnose", "--replay", "20260101-000000-abcd", "--json").json["error"]
    assert recorded(waited)[-1] in error["try"]


def test_a_state_folder_that_cannot_be_written_is_a_gap_of_the_wait(place):
    fab = place.fab.where(SGLFAB_STATE_DIR="/dev/null/state")
    done = fab("wait-health", "--url", f"127.0.0.1:{place.host.port}", "--deadline", "0.1", "--json")
    assert (done.code, done.json["verdict"]) == (5, "timed_out"), done
    assert any(gap.startswith("record: ") and "/dev/null/state" in gap for gap in done.json["gaps"])
    assert not any("--replay" in note for note in done.json["notes"])


def test_an_adopted_server_is_a_run_of_ours_until_it_is_stopped(place):
    server = place.host.start()
    adopted = place.fab("wait-health", "--pid", str(server.pid), "--adopt", "--yes", "--json")
    assert (adopted.code, adopted.json["verdict"], adopted.json["profile"]) == (0, "ready", "adopted"), adopted
    shown = place.fab("status", "--json").json["runs"]
    assert [(row["run"], row["pid"], row["health"]) for row in shown] == [(adopted.json["run"], server.pid, "200")]
    refused = place.fab("restart", "--json")
    assert (refused.code, refused.json["error"]["code"]) == (2, "adopted-no-plan")
    assert server.poll() is None
    stopped = place.fab("stop", "--json")
    assert (stopped.code, stopped.json["stopped"]) == (0, True)
    assert server.wait(5) == 0
    assert (place.folder(adopted.json["run"]) / "watch.jsonl").exists()
    assert not (place.host.state_dir / "waits").exists()


def test_stop_by_pid_ends_that_server_and_no_other(place):
    other = place.host.start()
    place.host.port = find_free_port()
    server = place.host.start()
    done = place.fab("stop", "--pid", str(server.pid), "--yes", "--json")
    assert (done.code, done.json["stopped"]) == (0, True), done
    server.wait(5)
    assert other.poll() is None


def test_another_server_on_the_port_of_a_url_is_still_a_server(place):
    """A URL names no process of ours: whoever answers is judged."""
    place.host.start()
    done = place.fab("wait-health", "--url", f"127.0.0.1:{place.host.port}", "--json")
    assert done.code == 0, done
    assert requests.get(f"{done.json['url']}/model_info", timeout=5).status_code == 200
