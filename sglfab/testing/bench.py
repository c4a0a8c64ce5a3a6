"""The real SGLang on the CPU under `fab`: start it, find its processes, wait for it while something is done to it."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sglfab.testing.cpu.layout import CpuKit
from sglfab.testing.cpu.plain import server_env
from sglfab.testing.fab import Fab
from sglfab.testing.fixtures import find_free_port
from sglfab.testing.race import Waiter


@dataclass(frozen=True)
class Bench:
    """One state folder, one port, one copy of the models, for the runs of one test."""

    fab: Fab
    folder: Path
    port: int
    kit: CpuKit

    def launch(self, *sets: str, profile: str = "cpu-demo") -> dict[str, Any]:
        """Start without waiting; the run's record."""
        words = [word for assignment in (f"port={self.port}", *sets) for word in ("--set", assignment)]
        started = self.fab("launch", "--profile", profile, "--no-wait", "--json", *words)
        assert started.code == 0, started
        return self.run(started.json["run"])

    def run(self, run_id: str) -> dict[str, Any]:
        return next(run for run in self.fab("runs", "--json").json["runs"] if run["id"] == run_id)

    def verdict(self, *words: str) -> tuple[int, dict[str, Any]]:
        done = self.fab(*words, "--json", timeout_s=180)
        return done.code, done.json

    def replayed(self, run_id: str) -> dict[str, Any]:
        """What the record of a run's last wait gives; without the note that there were others."""
        _, again = self.verdict("diagnose", "--replay", run_id)
        return {**again, "notes": [note for note in again["notes"] if not note.startswith("judged the last of")]}

    def read(self, run: dict[str, Any], name: str) -> str:
        path = Path(run["dir"]) / name
        return path.read_bytes().decode("utf-8", "replace") if path.exists() else ""

    def until(self, true: Callable[[], Any], otherwise: str, within_s: float = 120) -> Any:
        until = time.monotonic() + within_s
        while not (found := true()):
            assert time.monotonic() < until, otherwise
            time.sleep(0.05)
        return found

    def exit_json(self, run: dict[str, Any]) -> dict[str, Any]:
        told: dict[str, Any] = json.loads(self.until(lambda: self.read(run, "exit.json"), "no exit.json"))
        return told

    def process(self, run: dict[str, Any], title: str) -> int:
        """The pid in the run's own session whose command line begins with title."""

        def found() -> int | None:
            pids = (int(stat.parent.name) for stat in Path("/proc").glob("[0-9]*/stat") if _session(stat) == session)
            return next((pid for pid in pids if _cmdline(pid).startswith(title)), None)

        session = run["main"]["pid"]
        return int(self.until(found, f"no {title} in the session of {run['id']}"))

    @contextmanager
    def foreign(self, *flags: str) -> Iterator[subprocess.Popen[bytes]]:
        """A server that somebody else started, logging into foreign.log; `flags` must make it end by itself."""
        with (self.folder / "foreign.log").open("wb") as out:
            server = subprocess.Popen(
                [str(self.kit.python), "-m", "sglang.launch_server", "--model-path", "x", *flags],
                stdout=out,
                stderr=out,
                stdin=subprocess.DEVNULL,
                env={**os.environ, **server_env(self.kit)},
                start_new_session=True,
            )
        try:
            yield server
        finally:
            server.wait(60)

    @contextmanager
    def waiting(
        self, run: dict[str, Any], *words: str
    ) -> Iterator[Callable[[float], tuple[int, dict[str, Any], float]]]:
        """`fab wait-health` as a process that is there before the event.

        Gives a function from the event's monotonic time to (exit code, verdict, seconds from the event to it).
        """
        waiter = Waiter(self.fab.argv("wait-health", "--run", run["id"], "--json", *words), self.fab)
        self.until(lambda: '"processes"' in self.read(run, "watch.jsonl"), "the wait has not begun")

        def verdict(since: float) -> tuple[int, dict[str, Any], float]:
            waiter.join(120)
            assert waiter.answered is not None
            return int(waiter.process.returncode), json.loads(waiter.output), waiter.answered - since

        try:
            yield verdict
        finally:
            waiter.end()

    def clean_up(self) -> None:
        for run in self.fab("runs", "--json").json["runs"]:
            if run["alive"] or run["leftover"]:
                self.fab("stop", "--run", run["id"], "--grace", "1")


def make_bench(kit: CpuKit, folder: Path) -> Bench:
    """A bench in `folder`; what a test puts into folder/configs/profiles is found."""
    (folder / "configs" / "profiles").mkdir(parents=True)
    env = {"SGLFAB_STATE_DIR": str(folder / "state"), "SGLFAB_CPU": str(kit.root)}
    fab = Fab(env={**env, "SGLFAB_CONFIGS": str(folder / "configs")})
    return Bench(fab, folder, find_free_port(), kit)


def _session(stat: Path) -> int | None:
    try:
        return int(stat.read_text().rpartition(")")[2].split()[3])
    except OSError:
        return None


def _cmdline(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""
