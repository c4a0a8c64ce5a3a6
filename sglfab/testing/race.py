"""Three ways to wait for the same real server, side by side: `python -m sglfab.testing.race`.

seed: the loop of the session that sglfab was born from, as product.md prints it, with `sleep 1`.
status: the same loop on the status code. ours: `fab wait-health`.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sglfab.testing.fab import Fab

WAYS = ("seed", "status", "ours")
CRASH_PATIENCE_S = 8.0  # how long the loops may go on after the crash before they are called blind

SEED = (
    "for i in $(seq 1 30); do if curl -s http://localhost:{port}/health 2>/dev/null | grep -q ok; then "
    'echo "Server ready after ${{i}}0s"; exit 0; fi; echo "Waiting... ${{i}}0s"; sleep 1; done; exit 1'
)
STATUS = (
    "for i in $(seq 1 600); do "
    "if [ \"$(curl -s -o /dev/null -w '%{{http_code}}' http://localhost:{port}/health)\" = 200 ]; "
    "then echo ready; exit 0; fi; sleep 1; done; exit 1"
)


@dataclass(frozen=True)
class Delays:
    """Seconds from the event to each way's answer; None: it never answered rightly while we looked."""

    event: str
    seed: float | None
    status: float | None
    ours: float | None
    run: str


class Waiter:
    """One way of waiting, as a real process; `answered` is the monotonic time of the last thing that it printed."""

    def __init__(self, argv: list[str], fab: Fab) -> None:
        self.answered: float | None = None
        self.output = b""
        self.process = subprocess.Popen(
            argv,
            cwd=fab.cwd,
            env=fab.environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    def _follow(self) -> None:
        assert self.process.stdout is not None
        while chunk := os.read(self.process.stdout.fileno(), 65536):
            self.answered = time.monotonic()
            self.output += chunk
        self.process.wait()

    def join(self, timeout_s: float) -> None:
        self._thread.join(timeout_s)

    def end(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGTERM)
        self._thread.join(10)


def first_200(port: int, until: float) -> float | None:
    """The earliest moment at which a /health could have answered 200: a new probe every 50 ms, overlapping."""
    seen: list[float] = []

    def probe() -> None:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=30) as reply:
                if reply.status == 200:
                    seen.append(time.monotonic())
        except (urllib.error.URLError, OSError):
            pass

    while not seen and time.monotonic() < until:
        threading.Thread(target=probe, daemon=True).start()
        time.sleep(0.05)
    return min(seen) if seen else None


def waiters(run: str, port: int, fab: Fab) -> dict[str, Waiter]:
    return {
        "seed": Waiter(["bash", "-c", SEED.format(port=port)], fab),
        "status": Waiter(["bash", "-c", STATUS.format(port=port)], fab),
        "ours": Waiter(fab.argv("wait-health", "--run", run, "--json"), fab),
    }


def start(profile: str, fab: Fab) -> tuple[str, int]:
    """Launch without waiting; run id and port."""
    started = fab("launch", "--profile", profile, "--no-wait", "--json")
    if started.code:
        raise RuntimeError(str(started))
    run = started.json["run"]
    return run, record(run, fab)["plan"]["port"]


def record(run: str, fab: Fab) -> Any:
    return next(one for one in fab("runs", "--json").json["runs"] if one["id"] == run)


def ready_delays(profile: str, fab: Fab) -> Delays:
    """From the first obtainable 200 to each way's answer. The server is left running."""
    run, port = start(profile, fab)
    racing = waiters(run, port, fab)
    try:
        reference = first_200(port, time.monotonic() + 120)
        for waiter in racing.values():
            waiter.join(90)
        took = {way: _delay(waiter, reference) for way, waiter in racing.items()}
        return Delays("ready", **took, run=run)
    finally:
        for waiter in racing.values():
            waiter.end()


def crash_delays(profile: str, fab: Fab) -> Delays:
    """From `kill -9` of a scheduler during load to each way's answer."""
    run, port = start(profile, fab)
    racing = waiters(run, port, fab)
    try:
        victim = scheduler_of(run, fab)
        os.kill(victim, signal.SIGKILL)
        killed = time.monotonic()
        racing["ours"].join(30)
        for waiter in racing.values():
            waiter.join(max(0.0, CRASH_PATIENCE_S - (time.monotonic() - killed)))
        took = {way: _delay(waiter, killed, right=3 if way == "ours" else 0) for way, waiter in racing.items()}
        return Delays("crash", **took, run=run)
    finally:
        for waiter in racing.values():
            waiter.end()
        fab("stop", "--run", run, "--grace", "1")


def _delay(waiter: Waiter, since: float | None, right: int = 0) -> float | None:
    if since is None or waiter.answered is None or waiter.process.returncode != right:
        return None
    return round(waiter.answered - since, 3)


def scheduler_of(run: str, fab: Fab) -> int:
    """The pid of a titled scheduler in the run's session."""
    main = record(run, fab)["main"]["pid"]
    until = time.monotonic() + 60
    while time.monotonic() < until:
        found = [int(p.name) for p in Path("/proc").iterdir() if p.name.isdecimal() and _is_scheduler(p, main)]
        if found:
            return found[0]
        time.sleep(0.1)
    raise TimeoutError(f"no scheduler of {run} within 60 s")


def _is_scheduler(process: Path, session: int) -> bool:
    try:
        if b"scheduler" not in (process / "cmdline").read_bytes():
            return False
        return int((process / "stat").read_text().rpartition(")")[2].split()[3]) == session
    except (OSError, ValueError):
        return False


def markdown(rows: list[Delays]) -> str:
    shown = [f"| {r.event} | {_cell(r.seed)} | {_cell(r.status)} | {_cell(r.ours)} |" for r in rows]
    return "\n".join(
        ["| event | seed's loop | loop on the status code | `fab wait-health` |", "|---|---|---|---|", *shown]
    )


def _cell(delay: float | None) -> str:
    return "never" if delay is None else f"{delay:.2f} s"


def main() -> int:
    fab = Fab()
    profile = sys.argv[1] if len(sys.argv) > 1 else "cpu-demo"
    rows = [ready_delays(profile, fab), crash_delays(profile, fab)]
    print(json.dumps([asdict(row) for row in rows], indent=1), file=sys.stderr)
    print(markdown(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
