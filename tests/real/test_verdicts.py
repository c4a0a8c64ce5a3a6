"""Verdicts about the real SGLang: each fault is really made, and its verdict must come within 2 s of it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import time
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from memory_box import MemoryBox, make_box
from real_server import SERVING_S, last_wait

from sglfab.testing.bench import Bench, make_bench

pytestmark = [pytest.mark.sglang, pytest.mark.timeout(180)]

WITHIN_S = 2.0


@pytest.fixture
def benches(cpu_kit, tmp_path_factory) -> Iterator[Any]:
    made: list[Bench] = []

    def make() -> Bench:
        made.append(make_bench(cpu_kit, tmp_path_factory.mktemp("bench")))
        return made[-1]

    yield make
    for bench in made:
        bench.clean_up()


@pytest.fixture
def box(tmp_path) -> Iterator[MemoryBox]:
    """Before `benches` in a test's arguments: it goes when nothing is left in it."""
    made = make_box(f"sglfab-{os.getpid()}")
    yield made
    made.remove()


def _is_stopped(line: Mapping[str, Any], pid: int) -> bool:
    return any(one["pid"] == pid and one["state"] == "T" for one in line["data"]["alive"])


def _is_death(line: Mapping[str, Any]) -> bool:
    return any(one["role"] in ("main", "scheduler", "detokenizer") for one in line["data"]["gone"])


def test_a_stopped_rank_is_named_within_two_seconds_of_the_allowance(unpatched):
    seen, found = unpatched.stopped, unpatched.stopped.told
    assert (seen.code, found["verdict"]) == (4, "stuck"), found
    assert found["primary"]["rank"] == "TP1"
    lines = (line for line in seen.record if line["kind"] == "processes")
    first = next(line["t"] for line in lines if _is_stopped(line, unpatched.stopped_pid))
    assert SERVING_S <= seen.record[-1]["t"] - first <= SERVING_S + WITHIN_S
    told = [one["text"] for one in found["primary"]["evidence"]]
    assert any(".py:" in text and ("2 of 2 ranks" in text or ("TP0" in text and "TP1" in text)) for text in told), told
    assert seen.again == found


def test_a_detokenizer_that_was_killed_while_serving_is_named(unpatched):
    found = unpatched.killed.told
    assert (unpatched.killed.code, found["verdict"]) == (3, "crashed"), found
    assert "detokenizer" in json.dumps(found["primary"])
    assert unpatched.killed.record[-1]["t"] <= WITHIN_S  # it was dead when the wait began
    assert unpatched.killed.again == found


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
    seen = last_wait(bench, run)
    death = next(line["t"] for line in seen if line["kind"] == "processes" and _is_death(line))
    assert seen[-1]["t"] - death <= WITHIN_S
    assert bench.replayed(run["id"]) == found


def test_an_unknown_flag_of_a_foreign_server_by_its_pid(benches):
    bench = benches()
    with bench.foreign("--bogus-flag", "1") as server:
        code, found = bench.verdict("wait-health", "--pid", str(server.pid), "--yes")
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
        with bench.waiting(run) as verdict:
            end(run["main"]["pid"])
            code, found, seconds = verdict(time.monotonic())
        took.append(seconds)
        assert (code, found["verdict"]) == (3, "crashed"), found
        assert found["exit"] == {"code": -9, "signal": "SIGKILL"}
        assert bench.exit_json(run)["code"] == -9
        assert bench.replayed(run["id"]) == found
    assert min(took) <= WITHIN_S, took


def test_a_process_that_the_kernel_kills_for_lack_of_memory(box, benches):
    bench = benches()
    with box.inside():
        run = bench.launch()
    with bench.waiting(run) as verdict:
        bench.process(run, "sglang::scheduler_TP1")
        box.leave_only(mb=50)
        bench.until(lambda: box.kills, "the limit killed nobody")
        code, found, seconds = verdict(time.monotonic())
    primary = found["primary"]
    assert (code, found["verdict"]) == (3, "crashed"), found
    assert (primary["category"], primary["confidence"]) == ("host.oom_killer", "high"), found
    assert primary["evidence"][0]["source"] == "kernel"
    assert seconds <= WITHIN_S
    told = [line["data"] for line in last_wait(bench, run) if line["kind"] == "kernel"]
    assert any(data.get("oom_kill") for data in told), "the counter of the server's own cgroup"
    if not any(gap.startswith("dmesg") for gap in found["gaps"]):
        assert any("Killed process" in one["text"] for one in primary["evidence"]), found
    assert bench.replayed(run["id"]) == found


def test_a_limit_of_memory_without_a_kill(benches):
    """`ulimit -v` makes allocations fail: the log has the cause, and the kernel killed nobody."""
    bench = benches()
    run = bench.launch("ulimits.as=700000")
    code, found = bench.verdict("wait-health", "--run", run["id"])
    assert (code, found["verdict"]) == (3, "crashed"), found
    assert found["primary"]["category"] == "unknown", found
    assert found["primary"]["evidence"][0]["source"] == "log"
    assert any("OOM killer" in text for text in found["ruled_out"]) or "dmesg" in str(found["gaps"]), found
