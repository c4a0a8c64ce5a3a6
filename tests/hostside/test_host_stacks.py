"""Stacks on request: with the real py-spy where there is one, and with scripted ones that fail as it can."""

import json
import os
import signal
import stat
import sys
from pathlib import Path

import pytest

from sglfab.hostside.watch_stacks import StackWatch, find, threads_of
from sglfab.testing.cpu.layout import default_kit

ANSWER = [
    {"thread_name": "pump", "active": True, "frames": []},
    {
        "thread_name": "MainThread",
        "active": False,
        "frames": [{"name": "inner", "filename": "/e/lib/a/b.py", "short_filename": "a/b.py", "line": 7}] * 50,
    },
    {"thread_name": None, "active": False, "frames": [{"name": "f", "filename": "<string>", "line": 0}]},
]


def test_the_main_thread_comes_first_and_everything_is_bounded():
    first, second, third = threads_of(ANSWER)
    assert (first["name"], first["active"], first["frames"]) == ("MainThread", False, ["inner (a/b.py:7)"] * 40)
    assert (second["name"], second["active"]) == ("pump", True)
    assert third["frames"] == ["f (<string>:0)"]


@pytest.fixture
def py_spy(host, tmp_path):
    """Puts a scripted py-spy on the host's PATH; `does` is shell text."""

    def write(does):
        program = tmp_path / "path" / "py-spy"
        program.parent.mkdir(exist_ok=True)
        program.write_text("#!/bin/sh\n" + does + "\n")
        program.chmod(0o755)
        host.env["PATH"] = f"{program.parent}:{os.environ['PATH']}"

    return write


def seen_of(op, kind):
    return [event["data"] for event in op.events if event["kind"] == kind]


def ask(op):
    """As a pipe may deliver it: in pieces, behind lines that ask for nothing."""
    for piece in (b'no JSON\n{"ask": 5}\n{"ask": "nothing known"}\n[]\n{"ask": "sta', b'cks"}\n'):
        op.process.stdin.write(piece)
        op.process.stdin.flush()


TREE = ["sglang::scheduler_TP0", "sglang::scheduler_TP1", "sglang::detokenizer", "ninja"]


def test_every_watched_process_is_dumped_when_asked_for_and_only_then(host, py_spy, tmp_path):
    (tmp_path / "answer").write_text(json.dumps(ANSWER))
    py_spy(f'echo "$*" >> {tmp_path}/calls\ncat {tmp_path}/answer')
    run = host.launch({"children": TREE})
    with host.open("watch", run_id=run["id"], record={"wait": "w"}) as op:
        op.until(lambda e: e["kind"] == "processes" and len(e["data"]["alive"]) == 5)
        op.until(lambda e: e["kind"] == "tick")
        assert seen_of(op, "stacks") == []
        ask(op)
        for _ in range(4):
            op.until(lambda e: e["kind"] == "stacks")
    ranks = sorted((one["role"], one["rank"]) for one in seen_of(op, "stacks") if one["role"] == "scheduler")
    assert ranks == [("scheduler", "TP0"), ("scheduler", "TP1")]
    assert {one["role"] for one in seen_of(op, "stacks")} == {"main", "scheduler", "detokenizer"}
    calls = (tmp_path / "calls").read_text().splitlines()
    assert sorted(calls) == sorted(f"dump --nonblocking --json --pid {one['pid']}" for one in seen_of(op, "stacks"))
    recorded = [json.loads(line) for line in Path(run["dir"], "watch.jsonl").read_text().splitlines()]
    assert [line["data"] for line in recorded if line["kind"] == "stacks"] == seen_of(op, "stacks")


DENIED = """cat >&2 <<.
Error: Failed to get process executable name. Check that the process is running.

Caused by:
    0: Permission denied (os error 13)
    1: Operation not permitted (os error 1)

Stack backtrace:
   0: <E as anyhow::context::ext::StdError>::ext_context
.
exit 1"""
# id: (what py-spy does, words of the gap)
GAPS = {
    "it may not look": (DENIED, "Operation not permitted (os error 1)"),
    "it says nothing": ("exit 3", "it failed and said nothing"),
    "its answer is cut": ("echo '[{\"thread_name\"'", "its answer cannot be read"),
}


@pytest.mark.parametrize(("does", "words"), GAPS.values(), ids=GAPS.keys())
def test_what_cannot_be_dumped_is_one_gap(host, py_spy, does, words):
    py_spy(does)
    run = host.launch({"children": TREE[:2]})
    with host.open("watch", run_id=run["id"]) as op:
        op.until(lambda e: e["kind"] == "processes" and len(e["data"]["alive"]) == 3)
        ask(op)
        text = op.until(lambda e: e["kind"] == "gap" and "py-spy" in e["data"]["text"])["data"]["text"]
    assert words in text
    assert all(str(one["pid"]) in text for one in seen_of(op, "processes")[-1]["alive"])
    assert seen_of(op, "stacks") == []


def test_a_host_without_py_spy(host, tmp_path):
    """The interpreter of the tests may have one beside it: another one runs hostside here."""
    bare = tmp_path / "bare"
    bare.mkdir()
    (bare / "python3").symlink_to(sys.executable)
    host.program = (str(bare / "python3"), *host.program[1:])
    run = host.launch({"children": TREE[:1]})
    host.env["PATH"] = str(bare)
    with host.open("watch", run_id=run["id"]) as op:
        op.until(lambda e: e["kind"] == "processes" and len(e["data"]["alive"]) == 2)
        ask(op)
        op.until(lambda e: e["kind"] == "gap" and "neither beside" in e["data"]["text"])


def test_a_dump_that_never_ends_is_given_up(py_spy, tmp_path, monkeypatch):
    monkeypatch.setattr("sglfab.hostside.watch_stacks._TIMEOUT_S", 0.3)
    py_spy("exec sleep 60")
    monkeypatch.setenv("PATH", str(tmp_path / "path") + ":" + os.environ["PATH"])
    told = []
    watch = StackWatch(os.getpid(), lambda kind, data: told.append((kind, data)))
    watch.take([{"pid": os.getpid(), "rank": "TP0", "role": "scheduler"}])
    watch._at_work.join(10)
    assert [(kind, data["text"]) for kind, data in told] == [("gap", f"py-spy: pid {os.getpid()}: no answer in time")]


@pytest.fixture
def real_py_spy():
    program = default_kit().venv / "bin" / "py-spy"
    if not (program.exists() and program.stat().st_mode & stat.S_IXUSR):
        pytest.skip(f"no {program}: make sglang")
    return program


PROGRAM = "import time\ndef waits_here():\n    print('there', flush=True)\n    time.sleep(600)\nwaits_here()\n"


@pytest.mark.parametrize("stopped", [False, True], ids=["running", "stopped"])
def test_the_real_py_spy_shows_where_a_process_waits(real_py_spy, bystander, tmp_path, monkeypatch, stopped):
    (tmp_path / "rank.py").write_text(PROGRAM)
    process = bystander([sys.executable, str(tmp_path / "rank.py")], stdout=-1)
    assert process.stdout.readline() == b"there\n"
    if stopped:
        process.send_signal(signal.SIGSTOP)
    monkeypatch.setenv("PATH", str(real_py_spy.parent) + ":" + os.environ["PATH"])
    assert find(os.getpid())
    told = []
    watch = StackWatch(process.pid, lambda kind, data: told.append((kind, data)))
    watch.take([{"pid": process.pid, "rank": "TP0", "role": "scheduler"}])
    watch._at_work.join(20)
    [(kind, data)] = told
    assert (kind, data["rank"]) == ("stacks", "TP0")
    assert data["threads"][0]["frames"][0].startswith("waits_here (rank.py:")
    process.stdout.close()
