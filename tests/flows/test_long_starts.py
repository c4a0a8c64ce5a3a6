"""A healthy start of 20 minutes, 5 of them quiet, never leaves `loading`: a recorded one, stretched in time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import pytest

from sglfab.diagnosis import catalogue
from sglfab.diagnosis.expectation import Expectation, share
from sglfab.diagnosis.judge import Judge
from sglfab.diagnosis.recording import contents, readable
from sglfab.model import Observation
from sglfab.project import Project

ROOT = Path(__file__).resolve().parents[2]
KNOWN = catalogue.load(Project(ROOT))
RECORD = (ROOT / "tests" / "replays" / "ready" / "watch.jsonl").read_bytes().splitlines()
WHOLE_S, QUIET_S = 1200.0, 300.0
STAGES = ("init-distributed", "load-weights", "post-load", "kv-cache", "warmup")
QUICK = dict.fromkeys((share(stage, draft) for stage in STAGES for draft in (False, True)), (4.0, 5.0, 6.0))


@lru_cache(maxsize=1)
def recorded() -> tuple[Expectation, tuple[Observation, ...]]:
    (wait,) = contents(RECORD).waits.values()
    return wait.expect, tuple(line.seen for line in wait.observations(readable(RECORD)))


def split_after(text: str) -> tuple[list[Observation], list[Observation]]:
    """The recorded wait up to the last line of its log with a text, and the rest; "" is for before the first line."""
    _, seen = recorded()
    logged = [n for n, one in enumerate(seen) if one.kind == "log"]
    if not text:
        return list(seen[: logged[0]]), list(seen[logged[0] :])
    at = max(n for n in logged if text in seen[n].data["data"])
    log = seen[at].data["data"]
    end = log.index("\n", log.rindex(text)) + 1
    first, second = (replace(seen[at], data={"offset": 0, "data": part}) for part in (log[:end], log[end:]))
    return [*seen[:at], first], [second, *seen[at + 1 :]]


def stretched(text: str, quiet_s: float, *, busy: bool) -> Iterator[Observation]:
    """The recorded wait made 15 minutes long, with quiet_s after a line of its log in which nothing more is printed."""
    before, after = split_after(text)
    factor = (WHOLE_S - QUIET_S) / after[-1].t
    began = before[-1].t * factor
    yield from (replace(one, t=one.t * factor) for one in before)
    yield from quiet(before, began, quiet_s, busy=busy)
    yield from (replace(one, t=one.t * factor + quiet_s) for one in after)


def quiet(before: list[Observation], began_s: float, quiet_s: float, *, busy: bool) -> Iterator[Observation]:
    """Every two seconds the processes as last seen, at work or not, and a port that refuses."""
    alive = next(one.data["alive"] for one in reversed(before) if one.kind == "processes")
    refused = next(one.data for one in before if one.kind == "http")
    for passed in range(2, int(quiet_s), 2):
        work = passed if busy else 0
        worked = [{**p, "cpu_s": p["cpu_s"] + work, "read_kb": (p["read_kb"] or 0) + 9000 * work} for p in alive]
        yield Observation(began_s + passed, "processes", {"alive": worked, "gone": []})
        yield Observation(began_s + passed, "http", refused)


def verdicts(observations: Iterator[Observation], expect: Expectation) -> list[str]:
    """What was said at every observation and at every second between, up to the first that ends the wait."""
    judge, said, second = Judge(KNOWN, expect=expect), ["loading"], 0
    for one in observations:
        while second < one.t and said[-1] == "loading":
            said.append(judge.verdict(float(second)).verdict)
            second += 1
        if said[-1] != "loading":
            return said
        judge.feed(one)
        said.append(judge.verdict(one.t).verdict)
    return said


FORMER = {"no former starts": {}, "only quick former starts": QUICK}
LINES = {
    "while it imports": "",
    "while ranks find each other": "Init parallel begin",
    "while weights load": "Load weight begin",
    "after the weights": "Load weight end",
    "after the KV cache": "Memory pool end",
    "before the first token": "Uvicorn running",
}


@pytest.mark.parametrize("former", FORMER.values(), ids=FORMER.keys())
@pytest.mark.parametrize("busy", [True, False], ids=["at work", "idle"])
@pytest.mark.parametrize("line", LINES.values(), ids=LINES.keys())
def test_five_quiet_minutes_are_healthy(line, busy, former):
    said = verdicts(stretched(line, QUIET_S, busy=busy), replace(recorded()[0], former=former))
    assert len(said) > WHOLE_S
    assert set(said[:-1]) == {"loading"}
    assert said[-1] == "ready"


ENDS = {
    "idle, and former starts were quick": (False, QUICK, "stuck"),
    "idle, and nothing is known of former starts": (False, {}, "ready"),
    "at work, and former starts were quick": (True, QUICK, "ready"),
}


@pytest.mark.parametrize(("busy", "former", "last"), ENDS.values(), ids=ENDS.keys())
def test_half_a_quiet_hour(busy, former, last):
    said = verdicts(stretched("Load weight begin", 1800.0, busy=busy), replace(recorded()[0], former=former))
    assert set(said[:-1]) == {"loading"}
    assert said[-1] == last
