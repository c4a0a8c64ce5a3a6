"""`fab diagnose --replay`: the wait of a run, judged again from its record."""

from __future__ import annotations

import shutil

import pytest

LOCATIONS = {
    "by its run": lambda served, folder: served.run,
    "by its file": lambda served, folder: str(served.place.folder(served.run) / "watch.jsonl"),
    "by the folder of its run": lambda served, folder: str(served.place.folder(served.run)),
    "from a copy": lambda served, folder: shutil.copy(served.place.folder(served.run) / "watch.jsonl", folder / "kept"),
}


@pytest.mark.parametrize("location", LOCATIONS.values(), ids=LOCATIONS.keys())
def test_the_replay_answers_what_the_wait_answered(served, tmp_path, location):
    done = served.place.fab("diagnose", "--replay", str(location(served, tmp_path)), "--json")
    assert (done.code, done.json) == (0, served.launched.json), done


def test_a_person_sees_the_verdict_with_its_timeline(served):
    done = served.place.fab("diagnose", "--replay", served.run)
    assert done.code == 0, done
    assert done.out.startswith("ready: serving at ")
    assert "Timeline" in done.out
    assert f"next: fab logs -f --run {served.run}" in done.out


def test_what_was_known_before_the_server_listened(served):
    done = served.place.fab("diagnose", "--replay", served.run, "--at", "0", "--json")
    assert (done.code, done.json["verdict"]) == (0, "loading"), done
    assert done.json["elapsed_s"] <= served.launched.json["elapsed_s"]  # both to a tenth of a second


WRONG = {
    "a run that is not there": (["--replay", "p-20260101-000000-abcd"], "no-such-run", "fab runs"),
    "a file that is not there": (["--replay", "./no.jsonl"], "record-unreadable", "ls -l no.jsonl"),
    "something else": (["--replay", "README.md"], "no-wait-recorded", "fab diagnose --log README.md"),
    "a log, too": (["--replay", "x", "--log", "y"], "two-sources", "--replay RUN"),
    "neither": ([], "no-log", "--replay RUN"),
    "a moment of a log": (["--log", "README.md", "--at", "3"], "at-needs-replay", "--replay"),
    "a moment before the wait": (["--replay", "x", "--at=-1"], "bad-number", ""),
    "a moment that is no number": (["--replay", "x", "--at", "soon"], "bad-number", ""),
}


def test_bad_input_is_told(served):
    answers = served.place.fab.all(*(("diagnose", *words, "--json") for words, _, _ in WRONG.values()), at_once=2)
    for name, (_, code, advice), done in zip(WRONG, WRONG.values(), answers, strict=True):
        assert (name, done.code, done.json["error"]["code"]) == (name, 2, code), done
        assert advice in done.json["error"]["try"], done


def test_a_run_that_nobody_waited_for_has_no_record(place):
    run = place.launch()
    done = place.fab("diagnose", "--replay", run, "--json")
    assert (done.code, done.json["error"]["code"]) == (2, "no-wait-recorded"), done
    assert f"wait-health --run {run}" in done.json["error"]["try"]
