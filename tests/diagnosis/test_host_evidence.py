"""What the host tells beside the log: the kernel, the GPUs, shared memory."""

from __future__ import annotations

from typing import Any

import pytest

from tests.diagnosis.test_judge_live import REAL, Wait, real_log

OOM = "Out of memory: Killed process {} ({}) total-vm:1203423kB, anon-rss:983232kB"
MEMCG = (
    "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,"
    "oom_memcg=/box,task_memcg=/box,task={1},pid={0},uid=0"
)
XID = "NVRM: Xid (PCI:0000:3b:00): {}, pid=2, name=sglang::schedul, something"


def killed(*seen: dict[str, Any], looked: bool = True) -> Any:
    """A scheduler (pid 2) died by SIGKILL at 5.2 s; the log says so, and no more. seen: what the kernel said."""
    wait = Wait().start().alive(0.1, 1, 2, 3, 4).log(5, real_log("kill_scheduler"))
    if looked:
        wait.see(0.2, "kernel", lines=[])
    for data in seen:
        wait.see(5.1, "kernel", **data)
    if looked:
        wait.see(5.19, "kernel", lines=[])
    return wait.alive(5.2, 1, 3, 4, gone=(2,))


# id: (observations of the kernel, category, confidence, words of the first evidence)
KILLS = {
    "the kernel's line names our scheduler": ([{"lines": [OOM.format(2, "sglang::schedul")]}], "high", "process 2"),
    "the line of a cgroup's limit": ([{"lines": [MEMCG.format(2, "sglang::schedul")]}], "high", "oom_memcg=/box"),
    "the counter alone": ([{"oom_kill": 1}], "high", "counter grew by 1"),
    "the counter is a total, not a growth since the last look": ([{"oom_kill": 1}, {"oom_kill": 2}], "high", "by 2"),
    "in a container pids differ, the name tells": (
        [{"lines": [], "same_pids": False}, {"lines": [OOM.format(77529, "sglang::schedul")]}],
        "high",
        "77529",
    ),
}


@pytest.mark.parametrize(("seen", "confidence", "words"), KILLS.values(), ids=KILLS.keys())
def test_a_memory_kill_is_proved(seen: list[dict[str, Any]], confidence: str, words: str) -> None:
    primary = killed(*seen).at(6.3).primary
    assert (primary.category, primary.confidence) == ("host.oom_killer", confidence)
    assert primary.evidence[0].source == "kernel"
    assert words in primary.evidence[0].text


# id: (observations of the kernel, what is ruled out)
OTHERS = {
    "nothing": ([], "its log has no such line"),
    "somebody else's process": ([{"lines": [OOM.format(4711, "java")]}], "4711 (java)"),
    "another server's scheduler": ([{"lines": [OOM.format(4711, "sglang::schedul")]}], "no process of this server"),
}


@pytest.mark.parametrize(("seen", "words"), OTHERS.values(), ids=OTHERS.keys())
def test_a_kill_that_the_kernel_did_not_make_is_unknown(seen: list[dict[str, Any]], words: str) -> None:
    verdict = killed(*seen).at(6.3)
    assert verdict.primary.category == "unknown"
    assert any("OOM killer" in text and words in text for text in verdict.ruled_out)


def test_a_kernel_log_that_cannot_be_read_is_a_gap_and_the_confidence_low() -> None:
    verdict = killed(looked=False).at(6.3)
    assert (verdict.primary.category, verdict.primary.confidence) == ("host.oom_killer", "low")
    assert any("kernel log" in gap for gap in verdict.gaps)


def test_a_bare_kill_waits_for_the_journal_and_no_longer_than_two_seconds() -> None:
    wait = Wait().start().alive(0.1, 1, 2, 3, 4).see(0.2, "kernel", lines=[]).log(5, real_log("kill_scheduler"))
    wait.alive(5.2, 1, 3, 4, gone=(2,))
    assert wait.says(6.3) == "loading"
    assert wait.says(6.9) == "crashed"
    wait.see(6.4, "kernel", lines=[OOM.format(2, "sglang::schedul")])
    assert wait.at(6.5).primary.confidence == "high"


def test_the_kernels_kill_comes_before_what_other_ranks_say_of_it() -> None:
    """The survivors' tracebacks are consequences, whatever they look like."""
    wait = Wait().start().alive(0.1, 1, 2, 3, 4).see(0.2, "kernel", lines=[]).log(5, real_log("err_trunc_shard"))
    wait.see(5.1, "kernel", lines=[OOM.format(2, "sglang::schedul")])
    verdict = wait.alive(5.2, 1, 3, 4, gone=(2,)).at(6.3)
    assert verdict.primary.category == "host.oom_killer"
    assert any(f.category == "files.corrupt" for f in verdict.findings)


def test_a_killed_compiler_stands_beside_the_cause_that_the_log_tells() -> None:
    wait = Wait().start().alive(0.1, 1, 2, 3, 4)
    cicc = {"pid": 9, "start": 1, "role": "compiler", "title": "cicc -O3", "state": "R", "cpu_s": 1, "read_kb": 0}
    wait.see(0.2, "processes", alive=[cicc], gone=[]).log(5, real_log("err_trunc_shard"))
    wait.see(5.1, "kernel", lines=[OOM.format(9, "cicc")])
    primary = wait.see(6, "exit", code=-9, signal="SIGKILL").at(6.9).primary
    assert primary.category == "files.corrupt"
    assert "(cicc)" in primary.evidence[-1].text


def crash(case: str) -> Wait:
    """A wait whose log is that of a labelled case, before its end is seen."""
    log = (REAL.parent / "dev" / case / "server.log").read_bytes().decode()
    return Wait().start().alive(0.1, 1, 2).log(5, log)


def ended(wait: Wait) -> Any:
    return wait.see(6, "exit", code=-9, signal="SIGKILL").at(6.9)


XIDS = {
    "a broken GPU comes before the kernel error it caused": (79, "hardware.xid"),
    "an Xid of the program's own fault only stands beside it": (31, "kernel.illegal_memory"),
}


@pytest.mark.parametrize(("number", "category"), XIDS.values(), ids=XIDS.keys())
def test_an_xid(number: int, category: str) -> None:
    gpus = [{"index": 3, "bus": "00000000:3B:00.0", "used_mb": 1, "total_mb": 2, "util": 0}]
    wait = crash("d031-illegal-capture").see(1, "gpu", gpus=gpus).see(5.1, "kernel", lines=[XID.format(number)])
    primary = ended(wait).primary
    assert primary.category == category
    assert any(e.source == "kernel" and e.text.endswith("(GPU 3)") for e in primary.evidence)


def test_an_xid_says_nothing_about_a_wrong_flag() -> None:
    verdict = ended(crash("d044-flag-foreign").see(5.1, "kernel", lines=[XID.format(79)]))
    assert verdict.primary.category == "config.bad_flag"
    assert all(e.source != "kernel" for e in verdict.primary.evidence)


def gpu(index: int, used: int, *processes: dict[str, Any]) -> dict[str, Any]:
    return {"index": index, "used_mb": used, "total_mb": 81920, "util": 0, "processes": list(processes)}


OURS = {"pid": 2, "user": "ann", "name": "python", "used_mb": 38000}
THEIRS = {"pid": 4711, "user": "bob", "name": "/usr/bin/python3", "used_mb": 40000}


def test_another_process_on_the_gpu_stands_beside_a_lack_of_memory() -> None:
    wait = crash("d002-kv-none-tp8").see(4, "gpu", gpus=[gpu(0, 38000, OURS), gpu(1, 78000, OURS, THEIRS)])
    after = wait.see(6, "exit", code=-9, signal="SIGKILL").see(6.1, "gpu", gpus=[gpu(0, 3), gpu(1, 40003, THEIRS)])
    texts = [e.text for e in after.at(6.9).primary.evidence if e.source == "gpu"]
    assert texts == [
        "GPU 0: 38000 of 81920 MB used, 0 % busy",
        "GPU 1: 78000 of 81920 MB used, 0 % busy",
        "GPU 1: other processes hold 40000 MB: pid 4711 (/usr/bin/python3 of bob) 40000 MB",
    ]


def test_gpus_are_no_evidence_for_a_wrong_flag() -> None:
    verdict = ended(crash("d044-flag-foreign").see(4, "gpu", gpus=[gpu(0, 78000, THEIRS)]))
    assert all(e.source == "log" for e in verdict.primary.evidence)


def test_small_shared_memory_stands_beside_nccls_complaint() -> None:
    wait = crash("d050-nccl-shm").see(1, "shm", path="/dev/shm", total_mb=64, free_mb=60)
    primary = ended(wait.see(2, "shm", path="/dev/shm", total_mb=64, free_mb=0.5)).primary
    assert primary.category == "nccl.shm"
    assert primary.evidence[-1].text == "/dev/shm: 64 MB in all, at the least 0.5 MB of it free"


@pytest.mark.parametrize(("free_mb", "category"), [(0.0, "memory.shm"), (30_000.0, "unknown")])
def test_a_silent_bus_error_is_full_shared_memory_only_where_it_was_full(free_mb: float, category: str) -> None:
    wait = Wait().start().alive(0.1, 1, 2).see(0.2, "kernel", lines=[])
    wait.see(1, "shm", path="/dev/shm", total_mb=64, free_mb=free_mb)
    assert wait.see(6, "exit", code=-7, signal="SIGBUS").at(6.9).primary.category == category
