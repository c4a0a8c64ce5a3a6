"""Verdicts about the real SGLang: each fault is really made, and its verdict must come within 2 s of it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from sglfab.testing.cpu.plain import server_env
from sglfab.testing.fab import Fab
from sglfab.testing.fixtures import find_free_port
from sglfab.testing.race import Waiter

pytestmark = [pytest.mark.sglang, pytest.mark.timeout(180)]

WITHIN_S = 2.0
FAB_START_S = 3.0  # what `fab` needs to begin and to end, where a test times a whole call


@dataclass(frozen=True)
class Bench:
    """One state folder, one port, one copy of the models, for the runs of one test."""

    fab: Fab
    folder: Path
    port: int
    kit: Any

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
        return json.loads(self.until(lambda: self.read(run, "exit.json"), "no exit.json"))

    def process(self, run: dict[str, Any], title: str) -> int:
        """The pid in the run's own session whose command line begins with title."""

        def found() -> int | None:
            pids = (int(stat.parent.name) for stat in Path("/proc").glob("[0-9]*/stat") if _session(stat) == session)
            return next((pid for pid in pids if _cmdline(pid).startswith(title)), None)

        session = run["main"]["pid"]
        return self.until(found, f"no {title} in the session of {run['id']}")


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


@pytest.fixture
def benches(cpu_kit, tmp_path_factory) -> Iterator[Any]:
    made: list[Bench] = []

    def make() -> Bench:
        folder = tmp_path_factory.mktemp("bench")
        port = find_free_port()
        fab = Fab(env={"SGLFAB_STATE_DIR": str(folder / "state"), "SGLFAB_CPU": str(cpu_kit.root)})
        made.append(Bench(fab, folder, port, cpu_kit))
        return made[-1]

    yield make
    for bench in made:
        for run in bench.fab("runs", "--json").json["runs"]:
            if run["alive"] or run["leftover"]:
                bench.fab("stop", "--run", run["id"], "--grace", "1")


@contextmanager
def waiting(bench: Bench, run: dict[str, Any], *words: str) -> Iterator[Any]:
    """`fab wait-health` as a process that was there before the event; calls back for (exit code, verdict, seconds)."""
    waiter = Waiter(bench.fab.argv("wait-health", "--run", run["id"], "--json", *words), bench.fab)
    bench.until(lambda: '"processes"' in bench.read(run, "watch.jsonl"), "the wait has not begun")

    def verdict(since: float) -> tuple[int, dict[str, Any], float]:
        waiter.join(120)
        assert waiter.answered is not None
        return waiter.process.returncode, json.loads(waiter.output), waiter.answered - since

    try:
        yield verdict
    finally:
        waiter.end()


def test_a_stopped_rank_then_a_killed_detokenizer_while_serving(benches):
    bench = benches()
    run = bench.launch("wait.allowances.serving=10")
    code, found = bench.verdict("wait-health", "--run", run["id"])
    assert (code, found["verdict"]) == (0, "ready"), found
    stopped = bench.process(run, "sglang::scheduler_TP1")
    os.kill(stopped, signal.SIGSTOP)
    try:
        began = time.monotonic()
        code, found = bench.verdict("wait-health", "--run", run["id"])
    finally:
        os.kill(stopped, signal.SIGCONT)
    assert (code, found["verdict"]) == (4, "stuck"), found
    assert found["primary"]["rank"] == "TP1"
    assert 10 <= time.monotonic() - began <= 10 + 25 + WITHIN_S + 2 * FAB_START_S
    os.kill(bench.process(run, "sglang::detokenizer"), signal.SIGKILL)
    code, found = bench.verdict("wait-health", "--run", run["id"])
    assert (code, found["verdict"]) == (3, "crashed"), found
    assert "detokenizer" in json.dumps(found["primary"])


def test_a_shard_cut_after_preflight_ends_crashed_and_the_keeper_outlives_killpg(benches):
    bench = benches()
    models = bench.folder / "models"
    shutil.copytree(bench.kit.models, models)
    run = bench.launch(
        f"args.model-path={models}/deepseek_v3",
        f"args.speculative-draft-model-path={models}/eagle3",
        'env.SGLANG_KILLPG_ON_SCHEDULER_EXCEPTION="1"',
    )
    shard = models / "deepseek_v3" / "model-00002-of-00002.safetensors"
    os.truncate(shard, shard.stat().st_size // 2)
    code, found = bench.verdict("wait-health", "--run", run["id"])
    assert (code, found["verdict"]) == (3, "crashed"), found
    assert found["primary"]["category"] == "files.corrupt"
    assert found["stage"] == "load-weights"
    line = found["primary"]["evidence"][0]["line"]
    assert found["primary"]["evidence"][0]["text"] in bench.read(run, "server.log").split("\n")[line - 1]
    assert bench.exit_json(run)["signal"] == "SIGKILL"


def test_an_unknown_flag_of_a_foreign_server_by_its_pid(benches):
    bench = benches()
    log = bench.folder / "foreign.log"
    with log.open("wb") as out:
        foreign = subprocess.Popen(
            [str(bench.kit.python), "-m", "sglang.launch_server", "--model-path", "x", "--bogus-flag", "1"],
            stdout=out,
            stderr=out,
            stdin=subprocess.DEVNULL,
            env={**os.environ, **server_env(bench.kit)},
            start_new_session=True,
        )
    try:
        code, found = bench.verdict("wait-health", "--pid", str(foreign.pid), "--yes")
    finally:
        foreign.wait(60)
    assert (code, found["verdict"]) == (3, "crashed"), found
    assert found["primary"]["category"] == "config.bad_flag"
    assert "--bogus-flag" in found["primary"]["evidence"][0]["text"]


def test_a_port_that_is_taken_while_loading(benches):
    bench = benches()
    run = bench.launch()
    with socket.socket() as foreign:
        foreign.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        foreign.bind(("127.0.0.1", bench.port))
        foreign.listen()
        code, found = bench.verdict("wait-health", "--run", run["id"])
    # Either is right: the port of our run belongs to somebody else, or SGLang has said so itself.
    assert (code, found["verdict"]) in ((3, "crashed"), (7, "unreachable")), found
    if found["verdict"] == "crashed":
        assert found["primary"]["category"] == "port.in_use"
    else:
        assert any(str(os.getpid()) in note for note in found["notes"]), found["notes"]


ENDS = {
    "SIGKILL of the launcher": lambda pid: os.kill(pid, signal.SIGKILL),
    "SIGKILL of the server's whole group": lambda pid: os.killpg(pid, signal.SIGKILL),
}


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS.keys())
def test_exit_json_tells_how_the_launcher_ended(benches, end):
    bench = benches()
    took = []
    while not took or (took[-1] > WITHIN_S and len(took) < 3):  # again where the machine was busy
        run = bench.launch()
        with waiting(bench, run) as verdict:
            end(run["main"]["pid"])
            code, found, seconds = verdict(time.monotonic())
        took.append(seconds)
        assert (code, found["verdict"]) == (3, "crashed"), found
        assert found["exit"] == {"code": -9, "signal": "SIGKILL"}
        assert bench.exit_json(run)["code"] == -9
    assert min(took) <= WITHIN_S, took
