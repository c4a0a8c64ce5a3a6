"""A wait and its record come to the same verdict, whatever became of the connection; bad records say what is wrong."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from scripted_host import ScriptedHost, StillClock

from sglfab.diagnosis import catalogue
from sglfab.diagnosis.expectation import Expectation
from sglfab.diagnosis.judge import Judge
from sglfab.errors import InputError
from sglfab.flows.replaying import Record, is_path, judged_again, local_record
from sglfab.flows.wait import Interrupted, wait
from sglfab.hostside.watch_record import Recorder
from sglfab.project import Project
from sglfab.transports.base import ChannelLost

ROOT = Path(__file__).resolve().parents[2]
KNOWN = catalogue.load(Project(ROOT))
LOST = ChannelLost("broken pipe")
LOG = (ROOT / "tests" / "cases" / "real" / "dsv2_tp2" / "server.log").read_text()
DEAD = (ROOT / "tests" / "cases" / "real" / "err_trunc_shard" / "server.log").read_text()
EXPECT = Expectation(
    allowances={"serving": 10},
    tp_size=2,
    draft=False,
    former={"load-weights": (3.0, 4.0)},
    host="gpu1",
    url="http://127.0.0.1:1",
    profile="p",
    run="p-1",
    sglang_version="0.5.23",
)


def event(t, kind, **data):
    return {"t": t, "kind": kind, "data": data}


def health(t, state):
    return event(t, "http", what="health", state=state, status=None, ms=1, detail="", ours=True)


def log(t, text, offset=0):
    return event(t, "log", offset=offset, data=text)


START = event(0.0, "start", wall=9.0, run="p-1", started_wall=1.0, main=7, port=1, tp_size=2, patches=[], log="l")
TOKEN = event(9.5, "http", what="generate", state="200", status=200, ms=1, detail="", ours=True, body={})
READY = (log(8.0, LOG), health(9.0, "200"), TOKEN)
CRASH = (log(8.0, DEAD), event(8.1, "exit", code=-9, signal="SIGKILL", orphans=[]), event(9.0, "tick"))
UNKNOWN = event(1.0, "a kind of the years to come", anything=[1])


@dataclass
class RecordingHost(ScriptedHost):
    """Records as hostside does. after_loss: what a watcher still sees and writes when nobody hears it any more."""

    folder: Path = Path()
    after_loss: tuple = ()

    def stream(self, op, request, *, idle_s):
        self.recorder = Recorder(str(self.folder), request["record"])
        return super().stream(op, request, idle_s=idle_s)

    def _events(self, script):
        for step in script:
            if isinstance(step, BaseException):
                for unheard in self.after_loss:
                    self.recorder.write(unheard)
                raise step
            self.recorder.write(step)
            yield step


WAITS = {
    "ready": ([[START, UNKNOWN, *READY]], "ready"),
    "crashed": ([[START, *CRASH]], "crashed"),
    "after one lost connection": (
        [[START, log(1.0, LOG[:5000]), LOST], [START, log(1.0, LOG[5000:]), *READY[1:]]],
        "ready",
    ),
    "after two, the first at once": ([[START, LOST], [START, LOST], [START, *READY]], "ready"),
    "after a watch that never began": ([[START, LOST], [LOST], [START, *CRASH]], "crashed"),
    "interrupted": ([[START, log(1.0, LOG[:5000]), KeyboardInterrupt()]], "loading"),
}


def waited(host, expect=EXPECT):
    judge = Judge(KNOWN, expect=expect)
    try:
        return wait(host, {"record": True}, judge, reconnect_s=30.0, report=lambda said: None, clock=StillClock())
    except Interrupted as stopped:
        return stopped.verdict


def replayed(folder, **at):
    return judged_again(KNOWN, local_record(str(folder)), **at)


@pytest.mark.parametrize("unheard", [(), CRASH, READY], ids=["nothing", "a crash", "ready"])
@pytest.mark.parametrize(("watches", "verdict"), WAITS.values(), ids=WAITS.keys())
def test_the_record_gives_the_verdict_of_the_wait(tmp_path, watches, verdict, unheard):
    """Also where the watcher wrote more than the operator got before the connection was lost for good."""
    live = waited(RecordingHost(list(watches), folder=tmp_path, after_loss=unheard))
    assert live.verdict == verdict
    again = replayed(tmp_path)
    if verdict == "loading" and not unheard:
        assert again.notes[-1].endswith("without a verdict")
        again = replace(again, notes=again.notes[:-1])
    if verdict != "loading" or not unheard:
        assert again.to_json() == live.to_json()


def test_what_the_wait_expected_is_in_its_record(tmp_path):
    quick = replace(EXPECT, deadline_s=5.0)
    live = waited(RecordingHost([[START, event(6.0, "tick")]], folder=tmp_path), quick)
    assert (live.verdict, replayed(tmp_path).to_json()) == ("timed_out", live.to_json())


AT = {
    "before anything": (0, "loading", None),
    "before the token": (9.2, "loading", None),
    "between two observations": (8.5, "loading", None),
    "at the verdict": (9.5, "ready", "the wait ended 9.5 s after it began"),
    "long after": (1e6, "ready", "the wait ended 9.5 s after it began"),
}


@pytest.mark.parametrize(("at_s", "verdict", "note"), AT.values(), ids=AT.keys())
def test_what_was_known_at_a_moment(tmp_path, at_s, verdict, note):
    waited(RecordingHost([[START, *READY]], folder=tmp_path))
    found = replayed(tmp_path, at_s=at_s)
    assert found.verdict == verdict
    assert found.elapsed_s == round(8.0 + min(at_s, 9.5), 1)  # the server was 8 s old when the wait began
    assert found.notes == ((note,) if note else ())


def test_beyond_the_end_of_an_interrupted_wait_nothing_is_known(tmp_path):
    waited(RecordingHost([[START, event(3.0, "tick"), KeyboardInterrupt()]], folder=tmp_path))
    found = replayed(tmp_path, at_s=100.0)
    assert (found.verdict, found.elapsed_s) == ("loading", 11.0)
    assert "the record ends 3.0 s after the wait began" in found.notes[-1]


def test_of_several_waits_the_last_is_judged_although_their_lines_mix(tmp_path):
    waited(RecordingHost([[START, *READY]], folder=tmp_path))
    file = tmp_path / "watch.jsonl"
    first = file.read_text().splitlines()
    live = waited(RecordingHost([[START, *CRASH]], folder=tmp_path))
    second = file.read_text().splitlines()[len(first) :]
    file.write_text("\n".join([*first[:2], *second[:2], *first[2:], *second[2:]]) + "\n")
    found = replayed(tmp_path)
    assert found.verdict == live.verdict == "crashed"
    assert found.notes == (*live.notes, "judged the last of 2 waits in this record")


def line(t=0.0, kind="tick", data=None, watch="w"):
    return json.dumps({"t": t, "kind": kind, "data": data or {}, "watch": watch}) + "\n"


GOOD = {"schema": 1, "wait": "a", "shift_s": 0.0, "seen": [], "expect": EXPECT.to_json()}
BEGIN = line(kind="wait", data=GOOD)
REFUSED = {
    "an empty file": ("", "no-wait-recorded", "is empty"),
    "a server's log": (LOG, "no-wait-recorded", "its first line is not one of a watch.jsonl"),
    "JSON of somebody else": ('{"a": 1}\n', "no-wait-recorded", "its first line is not"),
    "JSON that is no object": ("[]\n", "no-wait-recorded", "its first line is not"),
    "JSON without an end": ("[" * 100_000, "no-wait-recorded", "its first line is not"),
    "a time that is none": (line(t=True), "no-wait-recorded", "its first line is not"),
    "a record without its beginning": (line() + line(t=1.0), "no-wait-recorded", "its beginning is missing"),
    "another schema": (line(kind="wait", data={**GOOD, "schema": 2}), "record-of-another-version", "another version"),
    "an expectation of another version": (
        line(kind="wait", data={**GOOD, "expect": {**GOOD["expect"], "patience": 1}}),
        "record-of-another-version",
        "another version",
    ),
    "an observation that holds nothing": (
        BEGIN + line(kind="processes", data={"alive": [{}]}),
        "record-damaged",
        "line 2 does not hold",
    ),
    "an expectation of a wrong type": (
        line(kind="wait", data={**GOOD, "expect": {**GOOD["expect"], "deadline_s": "soon"}}),
        "record-of-another-version",
        "another version",
    ),
}


@pytest.mark.parametrize(("text", "code", "what"), REFUSED.values(), ids=REFUSED.keys())
def test_what_cannot_be_judged_is_refused(tmp_path, text, code, what):
    (tmp_path / "watch.jsonl").write_text(text)
    with pytest.raises(InputError) as error:
        replayed(tmp_path)
    assert error.value.code == code
    assert what in error.value.what
    assert str(tmp_path) in error.value.where
    assert error.value.try_


NOTED = {
    "whole": (BEGIN + line(t=1.0), None),
    "its last line cut": (BEGIN + line(t=1.0) + line(t=2.0)[:20], "the last line of the record is cut"),
    "its last newline missing": ((BEGIN + line(t=1.0)).rstrip("\n"), None),
    "a line cut by a full disk": (
        BEGIN + line(t=0.5)[:20] + line(t=1.0) + line(t=1.0),
        "lines of the record that could not be read: 1, the first is 2",
    ),
    "a wait of another version": (
        BEGIN + line(t=1.0) + line(kind="wait", data={**GOOD, "schema": 2}, watch="x") + line(t=2.0, watch="x"),
        "not judged: what another version of fab recorded from line 3 on",
    ),
    "a blank line": (BEGIN + "\n" + line(t=1.0), "lines of the record that could not be read: 1, the first is 2"),
    "bytes that are no text": (BEGIN + line(t=1.0) + "\x80", "the last line of the record is cut"),
}


@pytest.mark.parametrize(("text", "note"), NOTED.values(), ids=NOTED.keys())
def test_what_can_be_judged_is_judged_and_what_is_missing_said(tmp_path, text, note):
    (tmp_path / "watch.jsonl").write_bytes(text.encode("latin-1"))
    found = replayed(tmp_path)
    assert found.notes == ("the record ends 1.0 s after the wait began, without a verdict", *([note] if note else []))


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(InputError) as error:
        replayed(tmp_path / "no.jsonl")
    assert error.value.code == "record-unreadable"


NAMES = {"p-20261201-080000-ab12": False, "runs/p": True, "./p": True, "kept.jsonl": True, "~/p": True}


@pytest.mark.parametrize(("word", "path"), NAMES.items(), ids=NAMES.keys())
def test_a_word_is_a_run_or_a_path(word, path):
    assert is_path(word) is path


def test_a_record_is_read_anew_for_each_look():
    lines = [BEGIN.encode(), line(t=1.0).encode()]
    record = Record("x", lambda: iter(lines))
    assert judged_again(KNOWN, record) == judged_again(KNOWN, record)
