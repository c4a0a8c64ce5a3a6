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
    "one that holds another": ("hush-hush hush.", ["hush", "hush-hush"], "********* ****."),
    "several bytes a character": ("ключ.", ["ключ"], "********."),
    "nothing to hide": ("key=hush", [], "key=hush"),
    "an empty secret": ("key=hush", [""], "key=hush"),
    "a key that nobody knew, as Python": (
        "ServerArgs(api_key='hush', port=1)",
        [],
        "ServerArgs(api_key='****', port=1)",
    ),
    "a key that nobody knew, as JSON": (
        """{'admin_api_key': "h'h", "ssl_keyfile_password": "ы"}""",
        [],
        """{'admin_api_key': "***", "ssl_keyfile_password": "**"}""",
    ),
    "no key": ("api_key=None, api_key='', tokenizer_path='/m'", [], "api_key=None, api_key='', tokenizer_path='/m'"),
    "a secret that is not there": ("a b", ["hush"], "a b"),
    "half a secret that goes on as another word": ("hu|m hu|sh.", ["hush"], "hum ****."),
    "a secret in three pieces": ("key=h|us|h!", ["hush"], "key=****!"),
    "a secret of several bytes a character in two pieces": ("кл|юч.", ["ключ"], "********."),
}


def recorded(tmp_path, observations, secrets=(), **wait):
    """The lines of watch.jsonl after its first."""
    recorder = Recorder(str(tmp_path), wait, secrets)
    assert [recorder.write(one) for one in observations] == [None] * len(observations)
    recorder.close()
    first, *rest = map(json.loads, (tmp_path / "watch.jsonl").read_text().splitlines())
    assert (first["kind"], first["data"]) == ("wait", wait)
    assert {line["watch"] for line in rest} <= {first["watch"]}
    return rest


@pytest.mark.parametrize(("printed", "secrets", "kept"), HIDDEN.values(), ids=HIDDEN.keys())
def test_what_is_recorded_of_a_log(tmp_path, printed, secrets, kept):
    offset, observations = 3, []
    for piece in printed.split("|"):
        observations.append({"t": 1.0, "kind": "log", "data": {"offset": offset, "data": piece}})
        offset += len(piece.encode())
    seen = [line["data"] for line in recorded(tmp_path, observations, secrets)]
    assert "".join(data["data"] for data in seen) == kept
    ends = [data["offset"] + len(data["data"].encode()) for data in seen]
    assert [data["offset"] for data in seen] == [3, *ends[:-1]]  # no byte of the log is missing or twice there
    assert ends[-1] == offset


def test_secrets_are_hidden_in_whatever_else_was_seen(tmp_path):
    title = {"alive": [{"pid": 7, "title": "python --api-key hush"}], "gone": []}
    (seen,) = recorded(tmp_path, [{"t": 1.0, "kind": "processes", "data": title}], ["hush"])
    assert seen["data"] == {"alive": [{"pid": 7, "title": "python --api-key ****"}], "gone": []}
    assert title["alive"][0]["title"].endswith("hush")


def test_a_connection_that_comes_later_goes_on_with_the_clock_of_its_wait(tmp_path):
    (seen,) = recorded(tmp_path, [{"t": 1.25, "kind": "tick", "data": {}}], shift_s=10.5)
    assert seen["t"] == 11.75
