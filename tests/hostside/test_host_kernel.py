"""What the kernel says about memory and GPUs: from /dev/kmsg, from the journal, from the cgroup's counter."""

import os
import threading
import time

import pytest

from sglfab.hostside.cgroups import oom_counter
from sglfab.hostside.watch_kernel import Journal, KernelWatch, Kmsg
from sglfab.hostside.watch_subject import Subject

RECORDS = [
    pytest.param(
        "6,1,2500000,-;Out of memory: Killed process 7", 2.5, "Out of memory: Killed process 7", id="a plain one"
    ),
    pytest.param("4,2,1000000,c,caller=T1;NVRM: Xid 79", 1.0, "NVRM: Xid 79", id="one with more fields"),
    pytest.param(
        "6,3,0,-;text; with; semicolons\n SUBSYSTEM=pci\n",
        0.0,
        "text; with; semicolons",
        id="one with continuation lines",
    ),
    pytest.param("broken", 0.0, "", id="one that is none"),
]


@pytest.mark.parametrize(("record", "since_boot_s", "text"), RECORDS)
def test_a_record_of_the_kernel_log(record, since_boot_s, text):
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    os.write(writer, record.encode())
    kmsg = Kmsg(reader)
    [(wall, seen)] = list(kmsg.new(0.0))
    assert seen == text
    boot_wall = time.time() - time.clock_gettime(time.CLOCK_MONOTONIC)
    assert wall - boot_wall == pytest.approx(since_boot_s, abs=0.1)
    os.close(reader)
    os.close(writer)


JOURNALCTL = """#!/bin/sh
# Asked from a cursor on it has one line more; `short-unix` is seconds since 1970, then host, then the text.
case "$*" in
*--after-cursor=c1*) echo "1700000009.5 gpu1 kernel: NVRM: Xid 79"; echo "-- cursor: c2" ;;
*--after-cursor=c2*) ;;
*) echo "1700000001.5 gpu1 kernel: Out of memory: Killed process 7"; echo "-- cursor: c1" ;;
esac
"""


@pytest.fixture
def journal(tmp_path, monkeypatch):
    (tmp_path / "journalctl").write_text(JOURNALCTL)
    (tmp_path / "journalctl").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return Journal()


def test_the_journal_is_read_from_where_the_last_look_ended(journal):
    assert journal.readable()
    assert list(journal.new(1700000000.0)) == [(1700000001.5, "gpu1 kernel: Out of memory: Killed process 7")]
    assert list(journal.new(1700000000.0)) == [(1700000009.5, "gpu1 kernel: NVRM: Xid 79")]
    assert list(journal.new(1700000000.0)) == []


def test_a_journal_that_is_closed_to_us(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert Journal().readable() is False


def watched(tmp_path, before, after):
    """What a watch tells of a counter that stood at `before` at the launch and stands at `after` now."""
    counter, told = tmp_path / "memory.events", []
    counter.write_text(f"oom_kill {after}\n")
    subject = Subject(server=None, port=None, host="", log=None, oom={"path": str(counter), "count": before})
    watch = KernelWatch(subject, lambda kind, data: told.append((kind, data)))
    watch.tell_kills()
    watch.tell_kills()
    return [data for _, data in told]


@pytest.mark.parametrize(
    ("before", "after", "told"), [(0, 2, [{"oom_kill": 2}]), (5, 5, []), (5, 6, [{"oom_kill": 1}])]
)
def test_only_kills_since_the_launch_count(tmp_path, before, after, told):
    assert watched(tmp_path, before, after) == told


MAIN = 77
V1 = "12:pids:/box\n4:memory:/kube/pod7\n0::/kube/pod7\n"
V2 = "0::/kube/pod7\n"
# id: (/proc/PID/cgroup, the counter files that are there with their counts, what is read)
CGROUPS = {
    "v1, nested": (V1, {"memory/kube/pod7": 3, "memory": 9}, ("memory/kube/pod7/memory.oom_control", 3)),
    "v1 in a container: its own group is the root of the mount": (V1, {"memory": 2}, ("memory/memory.oom_control", 2)),
    "v2, nested": (V2, {"kube/pod7": 1, "kube": 8}, ("kube/pod7/memory.events", 1)),
    "v2 in a container that sees the host's path": (V2, {"": 4}, ("memory.events", 4)),
    "v2 in a container with a namespace of its own": ("0::/\n", {"": 4}, ("memory.events", 4)),
    "v1 and v2 side by side, memory under v2": (
        "1:name=systemd:/x\n0::/x\n",
        {"unified/x": 5},
        ("unified/x/memory.events", 5),
    ),
    "the root of v2 counts nothing": ("0::/\n", {}, None),
    "no memory controller": ("12:pids:/box\n", {"memory": 2}, None),
    "a process that is gone": (None, {"": 4}, None),
}


@pytest.mark.parametrize(("groups", "counters", "found"), CGROUPS.values(), ids=CGROUPS.keys())
def test_the_counter_of_the_servers_own_cgroup(tmp_path, groups, counters, found):
    root, proc = tmp_path / "cgroup", tmp_path / "proc" / str(MAIN)
    proc.mkdir(parents=True)
    if groups is not None:
        (proc / "cgroup").write_text(groups)
    for folder, count in counters.items():
        (root / folder).mkdir(parents=True, exist_ok=True)
        name = "memory.oom_control" if folder.startswith("memory") else "memory.events"
        (root / folder / name).write_text(f"low 0\noom_kill {count}\n")
    expected = found and {"path": str(root / found[0]), "count": found[1]}
    assert oom_counter(MAIN, root=str(root), proc=str(tmp_path / "proc")) == expected


def test_a_look_before_a_death_says_that_there_is_nothing(tmp_path):
    told, closed = [], threading.Event()
    subject = Subject(server=None, port=None, host="", log=None)
    watch = KernelWatch(subject, lambda kind, data: told.append((kind, data)))
    watch.start(closed)
    readable = [data for kind, data in told if kind == "kernel"]
    told.clear()
    watch.look()
    closed.set()
    assert [data["lines"] for kind, data in told if kind == "kernel"][-1:] == ([[]] if readable else [])
