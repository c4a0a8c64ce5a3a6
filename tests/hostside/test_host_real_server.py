"""The host program and the real SGLang on the CPU: what the scripted server can only imitate."""

import os
import shlex
import shutil
import signal
import time
from pathlib import Path

import pytest

from sglfab.testing.cpu.layout import default_kit, is_ready

# The same events are judged end to end in tests/real; these look at the operations alone.
pytestmark = [pytest.mark.sglang, pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def kit():
    found = default_kit()
    if not is_ready(found):
        reason = f"no real SGLang in {found.root}: make sglang"
        if os.environ.get("SGLFAB_REQUIRE_REAL") == "1":
            pytest.fail(reason)
        pytest.skip(reason)
    return found


def real_launch(host, kit, port, *, model=None, env=()):
    """The launch of a DeepSeek-V3-shaped target with an EAGLE-3 draft, TP=2."""
    exports = {
        "SGLANG_USE_CPU_ENGINE": "1",
        "TORCHDYNAMO_DISABLE": "1",
        "SGLANG_CPU_OMP_THREADS_BIND": "0|1",
        "PYTHONPATH": str(kit.stubs),
        **dict(env),
    }
    args = ["--host", "127.0.0.1", "--port", str(port), "--device", "cpu", "--tp", "2"]
    args += [
        "--model-path",
        str(model or kit.target_model),
        "--max-total-tokens",
        "4096",
        "--max-running-requests",
        "8",
    ]
    args += ["--speculative-algorithm", "EAGLE3", "--speculative-draft-model-path", str(kit.draft_model)]
    args += ["--speculative-num-steps", "3", "--speculative-eagle-topk", "1", "--speculative-num-draft-tokens", "4"]
    lines = [f"export {name}={shlex.quote(value)}" for name, value in exports.items()]
    command = shlex.join([str(kit.python), "-m", "sglang.launch_server", *args])
    script = "\n".join(["#!/bin/bash", *lines, f"exec {command}", ""])
    run = host.ok("launch", **host.request({"port": port}, script=script))["run"]
    host.launched.append(run["id"])
    return run


def kind(name, check=lambda data: True):
    return lambda e: e["kind"] == name and check(e["data"])


def cpu_s(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_from_launch_to_a_killed_scheduler(host, kit, port, exit_status):
    run = real_launch(host, kit, port)
    with host.open("watch", run_id=run["id"], tp_size=2, record={"wait": "w"}) as op:
        began = time.monotonic()
        ok = op.until(kind("http", lambda d: d["what"] == "health" and d["state"] == "200"), 180)
        token = op.until(kind("http", lambda d: d["what"] == "generate"))
        assert (ok["data"]["ours"], token["data"]["state"], token["data"]["ours"]) == (True, "200", True)
        assert token["t"] - ok["t"] < 1.5
        assert cpu_s(op.process.pid) / (time.monotonic() - began) < 0.05
        states = {e["data"]["state"] for e in op.events if e["kind"] == "http" and e["data"]["what"] == "health"}
        assert states == {"refused", "503", "200"}
        alive = op.until(kind("processes"))["data"]["alive"]
        assert {p["rank"] for p in alive if p["role"] == "scheduler"} == {"TP0", "TP1"}
        assert [p["pid"] for p in alive if p["role"] == "main"] == [run["main"]["pid"]]
        assert sum(p["role"] == "detokenizer" for p in alive) == 1
        assert not any(e["data"]["gone"] for e in op.events if e["kind"] == "processes"), "nobody died while it started"
        victim = next(p for p in alive if p["rank"] == "TP1")
        killed = time.monotonic()
        os.kill(victim["pid"], signal.SIGKILL)
        gone = op.until(kind("processes", lambda d: d["gone"]))["data"]["gone"]
        assert time.monotonic() - killed < 1.0
        assert [(one["pid"], one["role"]) for one in gone] == [(victim["pid"], "scheduler")]
        op.until(kind("exit"), 60)
    assert exit_status(run)["code"] == -9
    reply = host.ok("stop", run_id=run["id"], grace_s=5)
    assert (reply["stopped"], reply["survivors"]) == (True, [])


def test_the_keeper_outlives_a_server_that_kills_its_own_group(
    host, kit, port, tmp_path, exit_status, alive, eventually
):
    model = tmp_path / "model"
    shutil.copytree(kit.target_model, model)
    shard = sorted(model.glob("*.safetensors"))[-1]
    os.truncate(shard, shard.stat().st_size // 2)
    run = real_launch(host, kit, port, model=model, env={"SGLANG_KILLPG_ON_SCHEDULER_EXCEPTION": "1"})
    eventually(lambda: not alive(run["main"]["pid"]), 200)
    status = exit_status(run)
    assert (status["code"], status["signal"]) == (-9, "SIGKILL")
    assert "Scheduler hit an exception" in Path(run["log"]).read_text()
    [path] = host.ok("check", port=None, paths=[str(model)])["paths"]
    assert path["cut_files"] == [shard.name], "what killed it would have been seen before the launch"
    eventually(lambda: not alive(run["keeper"]["pid"]))
