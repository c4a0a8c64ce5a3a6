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

ROOT = Path(__file__).resolve().parents[2]
FAB = str(Path(sys.executable).with_name("fab"))
WAYS = ("seed", "status", "ours")
CRASH_PATIENCE_S = 15.0  # how long the loops may go on after the crash before they are called blind

SEED = (
    "for i in $(seq 1 30); do if curl -s http://localhost:{port}/health 2>/dev/null | grep -q ok; then "
    'echo "Server ready after ${{i}}0s"; exit 0; fi; echo "Waiting... ${{i}}0s"; sleep 1; done; exit 1'
)
STATUS = (
    "for i in $(seq 1 60); do "
    "if [ \"$(curl -s -o /dev/null -w '%{{http_code}}' http://localhost:{port}/health)\" = 200 ]; "
    "then exit 0; fi; sleep 1; done; exit 1"
)


@dataclass(frozen=True)
class Delays:
    """Seconds from the event to each way's answer; None: it never answered rightly while we looked."""

    event: str
    seed: float | None
    status: float | None
    ours: float | None
    notes: str = ""


class Waiter:
    """One way of waiting, as a real process; `ended` is the monotonic time of its end."""

    def __init__(self, way: str, argv: list[str], env: dict[str, str]) -> None:
        self.way, self.ended = way, None
        # Proxies would be asked by curl too; the loops get the fair chance of a clean environment.
        self.process = subprocess.Popen(
            argv, cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
        )
        self.output = ("", "")
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    def _follow(self) -> None:
        self.output = self.process.communicate()
        self.ended = time.monotonic()

    def join(self, timeout_s: float) -> bool:
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

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


def waiters(run: str, port: int, env: dict[str, str]) -> dict[str, Waiter]:
    return {
        "seed": Waiter("seed", ["bash", "-c", SEED.format(port=port)], env),
        "status": Waiter("status", ["bash", "-c", STATUS.format(port=port)], env),
        "ours": Waiter("ours", [FAB, "wait-health", "--run", run, "--json"], env),
    }


def start(profile: str, env: dict[str, str]) -> tuple[str, int]:
    """Launch without waiting; run id and port."""
    done = subprocess.run(
        [FAB, "launch", "--profile", profile, "--no-wait", "--json"],
        cwd=ROOT,
        env=env,
        capture_output=True,
        text=True,
        check=True,
    )
    run = json.loads(done.stdout)["run"]
    listed = json.loads(fab(["status", "--run", run, "--json"], env).stdout)
    return run, listed["runs"][0]["port"]


def fab(words: list[str], env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run([FAB, *words], cwd=ROOT, env=env, capture_output=True, text=True, check=False)


def ready_delays(profile: str, env: dict[str, str]) -> Delays:
    """From the first obtainable 200 to each way's answer. The server is left running."""
    run, port = start(profile, env)
    racing = waiters(run, port, env)
    try:
        reference = first_200(port, time.monotonic() + 120)
        for waiter in racing.values():
            waiter.join(90)
        took = {way: _delay(waiter, reference) for way, waiter in racing.items()}
        return Delays("ready", **took, notes=f"run {run}; seed loop exit {racing['seed'].process.returncode}")
    finally:
        for waiter in racing.values():
            waiter.end()


def crash_delays(profile: str, env: dict[str, str]) -> Delays:
    """From `kill -9` of a scheduler during load to each way's answer."""
    run, port = start(profile, env)
    racing = waiters(run, port, env)
    try:
        victim = scheduler_of(run, env)
        time.sleep(1.0)
        os.kill(victim, signal.SIGKILL)
        killed = time.monotonic()
        racing["ours"].join(30)
        for waiter in racing.values():
            waiter.join(max(0.0, CRASH_PATIENCE_S - (time.monotonic() - killed)))
        took = {way: _delay(waiter, killed, right=3 if way == "ours" else 0) for way, waiter in racing.items()}
        return Delays("crash", **took, notes=f"run {run}; the loops were watched for {CRASH_PATIENCE_S:.0f} s after it")
    finally:
        for waiter in racing.values():
            waiter.end()
        fab(["stop", "--run", run], env)


def _delay(waiter: Waiter, since: float | None, right: int = 0) -> float | None:
    if since is None or waiter.ended is None or waiter.process.returncode != right:
        return None
    return round(waiter.ended - since, 3)


def scheduler_of(run: str, env: dict[str, str]) -> int:
    """The pid of a titled scheduler in the run's session."""
    main = next(r for r in json.loads(fab(["runs", "--json"], env).stdout)["runs"] if r["id"] == run)["main"]["pid"]
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
    env = dict(os.environ)
    profile = sys.argv[1] if len(sys.argv) > 1 else "cpu-demo"
    rows = [ready_delays(profile, env), crash_delays(profile, env)]
    fab(["stop", "--profile", profile], env)
    print(json.dumps([asdict(row) for row in rows], indent=1), file=sys.stderr)
    print(markdown(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
