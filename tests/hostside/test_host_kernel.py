"""What the kernel says about memory and GPUs: from /dev/kmsg, from the journal, from the cgroup's counter."""

import os
import time

import pytest

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
