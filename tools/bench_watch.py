"""What a wait costs while a log grows: bench_watch.py [seconds] [--mebibytes N] [--strangers N].

50 MiB in 10 minutes are 5 MiB in 60 s: the rate counts. The server is scripted: 8 ranks, a detokenizer, 16 compilers
and an HTTP side that answers 503; `strangers` are other processes of the host. CPU is utime + stime of the watcher and
what it started; the operator's side is this process: transport, reader, judge, and a view at every event, not drawn.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench_reader import lines

from sglfab.diagnosis import catalogue
from sglfab.diagnosis.expectation import Expectation
from sglfab.diagnosis.judge import Judge
from sglfab.flows.clock import SystemClock
from sglfab.flows.wait import wait
from sglfab.project import Project
from sglfab.testing.fixtures import end_session, find_free_port
from sglfab.transports.host import Host
from sglfab.transports.local import LocalTransport

ROOT = Path(__file__).resolve().parents[1]
HOSTSIDE = "hostside-"
SETTLE_S = 3.0  # the watcher's own start is no part of the figure
TITLES = [
    *(f"sglang::scheduler_TP{n}" for n in range(8)),
    "sglang::detokenizer",
    *(["cicc", "ptxas"] * 7),
    "ninja",
    "nvcc",
]


@contextmanager
def server(host: Host, folder: Path, port: int) -> Iterator[dict[str, Any]]:
    """A run of the scripted server of tests/hostside."""
    order = {"port": port, "children": TITLES, "ready_at": str(folder / "never")}
    script = f"#!/bin/bash\nexec {sys.executable} {ROOT / 'tests/hostside/fake_server.py'} '{json.dumps(order)}'\n"
    plan = {"port": port, "http_host": "127.0.0.1", "tp_size": 8, "patches": []}
    who = {"operator": "bench", "laptop": "bench", "sglang_version": "0.5.23", "profile": "bench", "keep_runs": 1}
    what = {"run_id": "bench-1", "plan": plan, "script": script, "starter": None, "secrets": {}, "probe": None}
    run = host.call("launch", {**who, **what, "patch_manifest": None})["run"]
    try:
        yield run
    finally:
        host.call("stop", {"run_id": "bench-1", "grace_s": 0})
        end_session(run["main"]["pid"])


@contextmanager
def strangers(count: int) -> Iterator[None]:
    started = [subprocess.Popen(["sleep", "3600"]) for _ in range(count)]
    try:
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()


def append(log: str, mebibytes: float, seconds: float) -> int:
    """In a process of its own: a real start-up log at once, then debug lines at an even rate."""
    pid = os.fork()
    if pid:
        return pid
    start = (ROOT / "tests/cases/dev/d063-ready-pcie/server.log").read_text(encoding="utf-8")
    source, began, written = lines(random.Random(1), 0.0), time.monotonic(), 0
    with open(log, "a", encoding="utf-8") as file:
        file.write(start.split("The server is fired up")[0])
        while (now := time.monotonic() - began) < seconds:
            while written < now / seconds * mebibytes * (1 << 20):
                written += file.write(next(source) + "\n")
            file.flush()
            time.sleep(0.1)
    os._exit(0)


class Costs:
    """CPU seconds of the watcher and of this process, from SETTLE_S on. Takes the place of a report."""

    def __init__(self) -> None:
        self.began: float | None = None
        self.events = 0
        self._entered = time.monotonic()
        self._pid: int | None = None
        self._before = (0.0, 0.0)

    def __call__(self, event: object) -> None:
        self.events += 1
        if self.began is None and time.monotonic() - self._entered > SETTLE_S:
            self._pid = _watcher()
            self.began, self._before = time.monotonic(), (_cpu_s(self._pid), time.process_time())
        if self.began is not None and self._pid is not None:
            self._after = (_cpu_s(self._pid), time.process_time())
            self._lasted = time.monotonic() - self.began

    def shares(self) -> tuple[float, float]:
        """Of one core: the watcher, the operator's side."""
        watcher, operator = (after - before for after, before in zip(self._after, self._before, strict=True))
        return watcher / self._lasted, operator / self._lasted


def _watcher() -> int:
    """The child of this process that runs hostside."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
            ours = parent == os.getpid() and HOSTSIDE in (stat.parent / "cmdline").read_bytes().decode()
        except (OSError, UnicodeDecodeError):
            continue
        if ours:
            return int(stat.parent.name)
    raise LookupError("no watcher")


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("seconds", nargs="?", type=float, default=60.0)
    parser.add_argument("--mebibytes", type=float, help="appended in that time; default: at the rate of 50 in 600 s")
    parser.add_argument("--strangers", type=int, default=400)
    asked = parser.parse_args()
    size = asked.mebibytes if asked.mebibytes is not None else asked.seconds * 50 / 600
    known = catalogue.load(Project(ROOT))
    with tempfile.TemporaryDirectory() as name, strangers(asked.strangers):
        folder, port, costs = Path(name), find_free_port(), Costs()
        host = Host(LocalTransport(), python=sys.executable, state_dir=str(folder / "state"))
        with server(host, folder, port) as run:
            writer = append(run["log"], size, asked.seconds + SETTLE_S)
            judge = Judge(known, expect=Expectation(deadline_s=asked.seconds + SETTLE_S))
            request = {"run_id": run["id"], "port": port, "http_host": "127.0.0.1", "from_offset": 0, "record": True}
            verdict = wait(host, request, judge, reconnect_s=1.0, report=costs, clock=SystemClock())
            os.waitpid(writer, 0)
    watcher, operator = costs.shares()
    print(
        f"{size:.1f} MiB in {asked.seconds:.0f} s, {len(TITLES) + 1} processes of the server, {asked.strangers} others"
    )
    print(f"watcher on the host: {watcher:.1%} of a core; operator's side: {operator:.1%}")
    print(f"{costs.events} events, verdict {verdict.verdict}")


if __name__ == "__main__":
    main()
