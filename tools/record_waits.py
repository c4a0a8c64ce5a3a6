"""Record waits for the real SGLang on the CPU into tests/replays: record_waits.py [NAME …]; without names, all.

Each is one server, about a minute, and what is done to it; the record must replay to the verdict that the wait gave.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sglfab.testing.bench import Bench, make_bench
from sglfab.testing.cpu.layout import default_kit
from sglfab.testing.cpu.overlay import make_overlay

KEPT = Path(__file__).resolve().parents[1] / "tests" / "replays"
RANK = "sglang::scheduler_TP1"
Json = dict[str, Any]


def ready(bench: Bench) -> Json:
    return bench.verdict("wait-health", "--run", bench.launch()["id"])[1]


def ready_with_patches(bench: Bench) -> Json:
    return bench.verdict("wait-health", "--run", _patched(bench)["id"])[1]


def degraded(bench: Bench) -> Json:
    """The trace cannot be written: a file stands where its folder should be."""
    run = _patched(bench)
    trace = Path(run["dir"], "trace")
    shutil.rmtree(trace, ignore_errors=True)
    trace.touch()
    return bench.verdict("wait-health", "--run", run["id"])[1]


def _patched(bench: Bench) -> Json:
    overlay = make_overlay(bench.kit, bench.folder / "overlay")
    return bench.launch(f"python={overlay.python}", profile="cpu-demo-debug")


def _killed(title: str | None) -> Callable[[Bench], Json]:
    """kill -9 while it loads, which is when the ranks have their titles. None: of the launcher."""

    def act(bench: Bench) -> Json:
        run = bench.launch()
        with bench.waiting(run) as verdict:
            titled = bench.process(run, title or RANK)
            time.sleep(2)  # the watcher has seen it, too
            os.kill(titled if title else run["main"]["pid"], signal.SIGKILL)
            return verdict(time.monotonic())[1]

    return act


def cut_shard(bench: Bench) -> Json:
    models = bench.folder / "models"
    shutil.copytree(bench.kit.models, models)
    sets = (f"args.model-path={models}/deepseek_v3", f"args.speculative-draft-model-path={models}/eagle3")
    run = bench.launch(*sets)
    shard = models / "deepseek_v3" / "model-00002-of-00002.safetensors"
    os.truncate(shard, shard.stat().st_size // 2)
    return bench.verdict("wait-health", "--run", run["id"])[1]


def unknown_flag(bench: Bench) -> Json:
    """A server of somebody else, adopted: our own launch refuses the flag before anything starts."""
    with bench.foreign("--bogus-flag", "1") as server:
        return bench.verdict("wait-health", "--pid", str(server.pid), "--adopt", "--yes")[1]


def stopped_while_serving(bench: Bench) -> Json:
    run = bench.launch("wait.allowances.serving=10")
    assert bench.verdict("wait-health", "--run", run["id"])[0] == 0
    return _stopped(bench, run)


def stopped_while_loading(bench: Bench) -> Json:
    stages = ("args", "init-distributed", "load-weights")
    return _stopped(bench, bench.launch(*(f"wait.allowances.{stage}=5" for stage in stages)))


def _stopped(bench: Bench, run: Json) -> Json:
    scheduler = bench.process(run, RANK)
    os.kill(scheduler, signal.SIGSTOP)
    try:
        return bench.verdict("wait-health", "--run", run["id"])[1]
    finally:
        os.kill(scheduler, signal.SIGCONT)


def busy_port(bench: Bench) -> Json:
    run = bench.launch()
    with socket.socket() as foreign:
        foreign.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        foreign.bind(("127.0.0.1", bench.port))
        foreign.listen()
        return bench.verdict("wait-health", "--run", run["id"])[1]


def timed_out(bench: Bench) -> Json:
    return bench.verdict("wait-health", "--run", bench.launch()["id"], "--deadline", "12")[1]


def asked_to_stop(bench: Bench) -> Json:
    """SIGTERM of the launcher while it serves; the wait comes when all is over."""
    run = bench.launch()
    assert bench.verdict("wait-health", "--run", run["id"])[0] == 0
    os.kill(run["main"]["pid"], signal.SIGTERM)
    bench.exit_json(run)
    return bench.verdict("wait-health", "--run", run["id"])[1]


SITUATIONS: dict[str, Callable[[Bench], Json]] = {
    "ready": ready,
    "ready-with-patches": ready_with_patches,
    "degraded-without-trace": degraded,
    "crashed-scheduler-killed": _killed(RANK),
    "crashed-detokenizer-killed": _killed("sglang::detokenizer"),
    "crashed-launcher-killed": _killed(None),
    "crashed-cut-shard": cut_shard,
    "crashed-unknown-flag": unknown_flag,
    "crashed-asked-to-stop": asked_to_stop,
    "stuck-rank-stopped-while-serving": stopped_while_serving,
    "stuck-rank-stopped-while-loading": stopped_while_loading,
    "crashed-busy-port": busy_port,
    "timed-out": timed_out,
}


def record(name: str) -> None:
    """One situation; what its wait answered is kept beside the record."""
    with tempfile.TemporaryDirectory(prefix="record-") as folder:
        bench = make_bench(default_kit(), Path(folder))
        try:
            answered = SITUATIONS[name](bench)
            again = bench.replayed(answered["run"])
            assert again == answered, (again, answered)
            kept = KEPT / name
            kept.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(Path(bench.run(answered["run"])["dir"]) / "watch.jsonl", kept / "watch.jsonl")
            (kept / "answered.json").write_text(json.dumps(answered, indent=1) + "\n", encoding="utf-8")
        finally:
            bench.clean_up()
    cause = (answered["primary"] or {}).get("id")
    print(f"{name}: {answered['verdict']} {cause or ''}, {(kept / 'watch.jsonl').stat().st_size >> 10} KiB", flush=True)


if __name__ == "__main__":
    for wanted in sys.argv[1:] or SITUATIONS:
        record(wanted)
