"""What a wait leaves beside its run: verdict.json, and a watch.jsonl without the secrets that the server printed."""

from __future__ import annotations

import json

import pytest

from sglfab.hostside.failure import HostError
from sglfab.hostside.recording import record
from sglfab.hostside.runs import describe
from sglfab.hostside.watch_record import Recorder


@pytest.fixture
def state(tmp_path):
    folder = tmp_path / "runs" / "p-1"
    folder.mkdir(parents=True)
    (folder / "run.json").write_text(json.dumps({"id": "p-1", "boot_id": "another"}))
    return tmp_path


def asked(state, run):
    return {"state_dir": str(state), "run_id": run, "verdict": {"verdict": "ready", "primary": None}}


def test_a_verdict_is_part_of_the_run_from_then_on(state):
    folder = str(state / "runs" / "p-1")
    assert describe(folder)["verdict"] is None
    assert record(asked(state, "p-1"), print, None) == {}
    kept = describe(folder)["verdict"]
    assert (kept["verdict"], kept["primary"]) == ("ready", None)
    assert kept["time"] > 1.7e9


def test_a_verdict_of_no_run_is_an_error(state):
    with pytest.raises(HostError) as error:
        record(asked(state, "p-2"), print, None)
    assert error.value.code == "run-unknown"


HIDDEN = {
    "a secret": ("key=hush!", ["hush"], "key=****!"),
    "one that holds another": ("hush-hush hush", ["hush", "hush-hush"], "********* ****"),
    "several bytes a character": ("ключ.", ["ключ"], "********."),
    "nothing to hide": ("key=hush", [], "key=hush"),
    "an empty secret": ("key=hush", [""], "key=hush"),
    "a secret that is not there": ("a b", ["hush"], "a b"),
}


@pytest.mark.parametrize(("printed", "secrets", "kept"), HIDDEN.values(), ids=HIDDEN.keys())
def test_what_is_recorded_of_a_log(tmp_path, printed, secrets, kept):
    recorder = Recorder(str(tmp_path), secrets)
    observation = {"t": 1.0, "kind": "log", "data": {"offset": 3, "data": printed}}
    assert recorder.write(observation) is None
    recorder.close()
    seen = json.loads((tmp_path / "watch.jsonl").read_text())
    assert seen["data"] == {"offset": 3, "data": kept}
    assert len(kept.encode()) == len(printed.encode())
    assert observation["data"]["data"] == printed
