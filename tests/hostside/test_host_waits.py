"""Records of waits for servers that are no runs of ours: where they lie, how many stay, and who else may look."""

from __future__ import annotations

import json
import os
import stat

import pytest

from sglfab.hostside.waits import KEPT, folder_of, prune_waits

REFUSED = {"what": "health", "state": "refused", "status": None, "detail": "", "ours": None, "ms": 0}


def tell(op, kind, data):
    op.process.stdin.write(json.dumps({"tell": {"kind": kind, "data": data}}).encode() + b"\n")
    op.process.stdin.flush()


def kind(name):
    return lambda event: event["kind"] == name


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_what_the_operators_side_saw_is_recorded_in_the_order_in_which_it_is_handed_back(host, tmp_path):
    log = tmp_path / "log"
    log.write_text("hello\n")
    with host.open("watch", log=str(log), record={"wait": "w"}) as op:
        start = op.until(kind("start"))
        op.until(kind("log"))
        for ms in range(3):
            tell(op, "http", {**REFUSED, "ms": ms})
            op.until(kind("http"))
            op.until(kind("tick"))
    told = lines(host.state / "waits" / start["data"]["record"] / "watch.jsonl")
    assert told[0]["data"] == {"wait": "w"}
    recorded = [{key: line[key] for key in ("t", "kind", "data")} for line in told[1:]]
    assert recorded[: len(op.events)] == op.events
    assert [e["data"]["ms"] for e in op.events if e["kind"] == "http"] == [0, 1, 2]


def test_where_nothing_is_named_nothing_of_the_host_is_looked_at(host):
    with host.open("watch", record={"wait": "w"}) as op:
        op.until(kind("start"))
        tell(op, "http", REFUSED)
        op.until(kind("http"))
        for _ in range(4):
            op.until(kind("tick"))
    assert {event["kind"] for event in op.events} == {"start", "http", "tick"}


@pytest.mark.parametrize("asked", [{}, {"record": None}], ids=["not asked for", "null"])
def test_a_watch_records_nothing_unless_asked_to(host, asked):
    with host.open("watch", **asked) as op:
        assert op.until(kind("start"))["data"]["record"] is None
        op.until(kind("tick"))
    assert not (host.state / "waits").exists()


def test_a_later_connection_goes_on_with_the_record_of_its_wait(host):
    with host.open("watch", record={"wait": "w", "seen": []}) as op:
        name = op.until(kind("start"))["data"]["record"]
    with host.open("watch", record={"wait": "w", "seen": [1]}, record_id=name) as op:
        assert op.until(kind("start"))["data"]["record"] == name
    record = host.state / "waits" / name / "watch.jsonl"
    assert [line["data"]["seen"] for line in lines(record) if line["kind"] == "wait"] == [[], [1]]


def test_a_state_folder_that_cannot_be_written_is_a_gap(host):
    host.state.write_text("no folder\n")
    with host.open("watch", record={"wait": "w"}) as op:
        assert op.until(kind("start"))["data"]["record"] is None
        assert op.until(kind("gap"))["data"]["text"].startswith("record: ")
        op.until(kind("tick"))
    assert [event["kind"] for event in op.events].count("gap") == 1


def made(state, count, *, text="x", age_s=3600):
    """That many waits, a minute apart; their names, the oldest first."""
    names = [f"20260101-00{number:02}00-abcd" for number in range(count)]
    for name in names:
        folder = state / "waits" / name
        folder.mkdir(parents=True)
        if text is not None:
            (folder / "watch.jsonl").write_text(text)
        then = folder.stat().st_mtime - age_s
        os.utime(folder, (then, then))
    return names


def left(state):
    return sorted(folder.name for folder in (state / "waits").iterdir())


def test_a_new_wait_takes_the_place_of_the_oldest(tmp_path):
    names = made(tmp_path, KEPT + 2)
    folder = folder_of(str(tmp_path), None)
    assert left(tmp_path) == sorted([*names[3:], os.path.basename(folder)])
    assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700


def test_two_waits_never_share_a_folder(tmp_path, monkeypatch):
    drawn = iter(["aaaa", "aaaa", "bbbb"])
    monkeypatch.setattr("secrets.token_hex", lambda size: next(drawn))
    monkeypatch.setattr("time.strftime", lambda form: "20260101-000000")
    folders = [os.path.basename(folder_of(str(tmp_path), None)) for _ in range(2)]
    assert folders == ["20260101-000000-aaaa", "20260101-000000-bbbb"]


@pytest.mark.parametrize("name", ["../../runs/p-1", "", "20260101-000000-abcd/..", "p-20260101-000000-abcd"])
def test_a_name_that_is_none_of_ours_leads_nowhere_else(tmp_path, name):
    folder = folder_of(str(tmp_path), name)
    assert os.path.dirname(folder) == str(tmp_path / "waits")
    assert os.path.isdir(folder)


STAYS = {
    "one of the newest": {"keep": 1},
    "one of which it is only said": {"dry": True},
    "one whose record is about to begin": {"text": None, "age_s": 0},
    "one whose record has just begun": {"text": "", "age_s": 0},
}


@pytest.mark.parametrize("case", STAYS.values(), ids=STAYS.keys())
def test_what_is_not_pruned(tmp_path, case):
    given = {"keep": 0, "dry": False, **case}
    names = made(tmp_path, 1, **{key: given[key] for key in ("text", "age_s") if key in given})
    prune_waits(str(tmp_path), keep=given["keep"], dry=given["dry"])
    assert left(tmp_path) == names


GOES = {
    "one that just ended": {"age_s": 0},
    "one that never got a record": {"text": None},
    "one whose record is empty": {"text": ""},
}


@pytest.mark.parametrize("case", GOES.values(), ids=GOES.keys())
def test_what_is_pruned(tmp_path, case):
    names = made(tmp_path, 2, **case)
    assert prune_waits(str(tmp_path), keep=1)["removed"] == names[:1]
    assert left(tmp_path) == names[1:]


def test_a_wait_in_use_is_not_pruned_and_what_is_not_ours_never(host):
    names = made(host.state, 2)
    (host.state / "waits" / "mine").mkdir()
    (host.state / "waits" / "note").write_text("")
    with host.open("watch", record={"wait": "w"}, record_id=names[0]) as op:
        op.until(kind("tick"))
        pruned = host.ok("prune", keep=0)
        assert pruned == {"removed": names[1:], "freed_bytes": 1}
    assert left(host.state) == [names[0], "mine", "note"]
    assert host.ok("waits")["waits"] == [{"id": names[0], "path": str(host.state / "waits" / names[0] / "watch.jsonl")}]
    assert host.ok("prune", keep=0)["removed"] == names[:1]
