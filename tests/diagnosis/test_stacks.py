"""When stacks are asked for, and what they say about the odd rank."""

from __future__ import annotations

from typing import Any

import pytest

from sglfab.diagnosis.hostfacts import Stack
from sglfab.diagnosis.stacks import compared
from tests.diagnosis.test_judge_live import Wait, serving

REDUCE = ("all_reduce (torch/distributed/distributed_c10d.py:2501)", "reduce (sglang/srt/parallel_state.py:88)", "main")
REDUCE_ELSEWHERE = (
    "all_reduce (torch/distributed/distributed_c10d.py:2502)",
    "reduce (sglang/srt/parallel_state.py:88)",
    "main",
)
LOAD = ("load (sglang/srt/model_loader/loader.py:33)", "main")


def rank(number: int, frames: tuple[str, ...], *, active: bool = False) -> Stack:
    return Stack(1.0, 100 + number, "scheduler", f"TP{number}", active, frames)


EIGHT = [rank(n, REDUCE) for n in range(8)]
WHERE = f"in {REDUCE[0]}, called by {REDUCE[1]}"
# id: (stacks, the line, the odd rank)
COMPARED: dict[str, tuple[list[Stack], str | None, str | None]] = {
    "one rank is elsewhere": (
        [*EIGHT[:3], rank(3, LOAD, active=True), *EIGHT[4:]],
        f"7 of 8 ranks wait {WHERE}; TP3 runs in load (sglang/srt/model_loader/loader.py:33)",
        "TP3",
    ),
    "two ranks are elsewhere: neither is the odd one": (
        [*EIGHT[:6], rank(6, LOAD), rank(7, LOAD)],
        f"6 of 8 ranks wait {WHERE}; TP6, TP7 wait in load (sglang/srt/model_loader/loader.py:33)",
        None,
    ),
    "all are at the same place": (EIGHT, f"8 of 8 ranks wait {WHERE}", None),
    "another line of the same function is the same place": (
        [rank(0, REDUCE), rank(1, REDUCE), rank(2, REDUCE_ELSEWHERE)],
        f"3 of 3 ranks wait {WHERE}",
        None,
    ),
    "of two, nobody is the odd one": (
        [rank(0, REDUCE), rank(1, LOAD)],
        f"TP0 waits {WHERE}; TP1 waits in load (sglang/srt/model_loader/loader.py:33)",
        None,
    ),
    "a single process": (
        [Stack(1.0, 1, "main", None, True, LOAD)],
        "the main process runs in load (sglang/srt/model_loader/loader.py:33)",
        None,
    ),
    "everybody elsewhere is cut": (
        [rank(n, (f"f{n} (a.py:1)",)) for n in range(6)],
        "; ".join(f"TP{n} waits in f{n} (a.py:1)" for n in range(4)) + "; 2 more places",
        None,
    ),
    "no Python code": ([rank(0, ())], "TP0 waits in no Python code", None),
    "no stacks": ([], None, None),
}


@pytest.mark.parametrize(("stacks", "line", "odd"), COMPARED.values(), ids=COMPARED.keys())
def test_stacks_side_by_side(stacks: list[Stack], line: str | None, odd: str | None) -> None:
    assert [(one.text, one.rank, one.source) for one in compared(stacks)] == ([(line, odd, "process")] if line else [])


def loading(**expected: Any) -> Wait:
    begun = "".join(f"[2026-12-01 01:23:06 TP{n}] Load weight begin. avail mem=70 GB\n" for n in (0, 1))
    return Wait(**expected).start().alive(0.1, 1, 2, 3, 4).log(1, begun)


def asked(wait: Wait, *times: float) -> list[float]:
    return [t for t in times if wait.judge.asks_for_stacks(t)]


def test_stacks_are_asked_for_once_after_half_of_the_allowance() -> None:
    wait = loading(allowances={"load-weights": 100})
    assert asked(wait, 10, 49, 51, 52, 90) == [51]
    wait.log(95, "\n")
    assert asked(wait, 96, 140, 146, 147) == [146]


HEALTHY = {
    "it serves and idles": serving(allowances={"serving": 10}).alive(7, 1, 2, 3, 4, cpu=5),
    "a compiler is at work": loading(allowances={"load-weights": 10}).see(
        2,
        "processes",
        alive=[{"pid": 9, "role": "compiler", "title": "cicc", "state": "R", "cpu_s": 1, "read_kb": 0}],
        gone=[],
    ),
    "no process is known": Wait(allowances={"import": 10}).start(),
    "it answers, and its first token is awaited": loading(allowances={"load-weights": 10}).http(2, "health", "200"),
}


@pytest.mark.parametrize("wait", HEALTHY.values(), ids=HEALTHY.keys())
def test_nobody_is_looked_into_while(wait: Wait) -> None:
    assert asked(wait, 20, 200, 2000) == []


def test_a_stopped_rank_is_asked_for_well_before_it_is_stuck() -> None:
    wait = serving(allowances={"serving": 10}).alive(7, 1, 2, 3, 4, stopped=(3,), cpu=5)
    assert asked(wait, 8, 11.9, 12.1, 13, 16) == [12.1]


def dumped(wait: Wait, t: float, **places: tuple[str, ...]) -> Wait:
    pids = {"TP0": 2, "TP1": 3}
    for name, frames in places.items():
        threads = [
            {"name": "MainThread", "active": False, "frames": list(frames)},
            {"name": "x", "frames": ["y (z:1)"]},
        ]
        wait.see(t, "stacks", pid=pids[name], rank=name, role="scheduler", threads=threads)
    return wait.see(t, "stacks", pid=4, rank=None, role="detokenizer", threads=[])


def stuck(wait: Wait) -> Any:
    for t in range(10, 120, 10):
        wait.alive(t, 1, 2, 3, 4, cpu=1.0).http(t, "health", "refused", ours=None)
    verdict = wait.at(119)
    assert verdict.verdict == "stuck"
    return verdict


def test_a_stall_says_where_its_ranks_are() -> None:
    primary = stuck(dumped(loading(allowances={"load-weights": 100}), 51, TP0=REDUCE, TP1=LOAD)).primary
    assert primary.evidence[-1].text.startswith("TP0 waits in all_reduce (torch/")
    assert "TP1 waits in load (" in primary.evidence[-1].text


def test_stacks_from_before_the_last_line_say_nothing_about_a_stall() -> None:
    wait = dumped(loading(allowances={"load-weights": 50}), 30, TP0=REDUCE, TP1=LOAD).log(35, "\n")
    assert all("all_reduce" not in one.text for one in stuck(wait).primary.evidence)


def test_a_wait_that_its_cap_ended_says_it_too() -> None:
    wait = dumped(loading(allowances={"load-weights": 100}, deadline_s=60), 51, TP0=REDUCE, TP1=LOAD)
    verdict = wait.at(61)
    assert verdict.verdict == "timed_out"
    assert any("all_reduce" in note for note in verdict.notes)


def test_busy_gpus_stand_beside_a_stall() -> None:
    gpus = [{"index": 0, "util": 100}, {"index": 1, "util": 0}, {"index": 2, "util": None}]
    primary = stuck(loading(allowances={"load-weights": 100}).see(5, "gpu", gpus=gpus)).primary
    assert [one.text for one in primary.evidence if one.source == "gpu"] == ["GPUs busy: 0: 100 %, 1: 0 %"]
