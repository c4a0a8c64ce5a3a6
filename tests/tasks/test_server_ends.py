"""How a server ends, or does not: what exit.json says, and which verdict and exit code a waiting operator gets."""

from __future__ import annotations

import json
import os
import signal
import time

import pytest

from sglfab.testing.place import gone

OOM = (
    "Traceback (most recent call last):\n"
    '  File "/x/sglang/srt/managers/scheduler.py", line 1, in run_scheduler_process\n'
    "    scheduler = Scheduler(server_args)\n"
    '  File "/x/sglang/srt/model_executor/model_runner.py", line 2, in load_model\n'
    "    self.model = get_model()\n"
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.11 GiB"
    " of which 1.06 GiB is free."
)
CRASH = {"at": [{"stage": "load-weights", "who": "TP1", "do": "crash", "text": OOM}]}
HANG = {"at": [{"stage": "load-weights", "who": "TP0", "do": "hang"}]}


def exit_of(place, run):
    file = place.folder(run) / "exit.json"
    end = time.monotonic() + 20
    while not file.exists():
        assert time.monotonic() < end, "no exit.json within 20 s"
        time.sleep(0.05)
    return json.loads(file.read_text())


ENDS = {
    "SIGKILL of the launcher": (lambda pid: os.kill(pid, signal.SIGKILL), -9, "SIGKILL"),
    "killpg of the server's group": (lambda pid: os.killpg(os.getpgid(pid), signal.SIGKILL), -9, "SIGKILL"),
    "SIGTERM, which it drains and exits by": (lambda pid: os.kill(pid, signal.SIGTERM), 0, None),
}


@pytest.mark.parametrize(("end", "code", "name"), ENDS.values(), ids=ENDS.keys())
def test_exit_json_says_how_the_launcher_ended(place, end, code, name):
    run = place.launch()
    pid = place.pid(run)
    if code == 0:
        assert place.fab("wait-health").code == 0  # before it serves, SIGTERM ends it as any Python program
    end(pid)
    told = exit_of(place, run)
    assert (told["code"], told["signal"]) == (code, name)
    assert gone(pid)


def test_a_crash_while_loading_is_told_with_its_first_cause_within_two_seconds_of_the_death(place):
    place.host.write_profile(script=CRASH)
    done = place.fab("launch", "--profile", "standin", "--json")
    told = done.json
    assert (done.code, told["verdict"], told["stage"]) == (3, "crashed", "load-weights"), done
    assert (told["primary"]["category"], told["primary"]["rank"]) == ("memory.weight_load", "TP1")
    assert told["exit"] == {"code": -9, "signal": "SIGKILL"}
    first = told["primary"]["evidence"][0]
    assert first["source"] == "log"
    assert first["text"].strip() in place.logged(told["run"]).split("\n")[first["line"] - 1]
    assert place.runs()[told["run"]]["verdict"]["primary"] == told["primary"]["id"]
    assert _watch_ended(place, told["run"]) - exit_of(place, told["run"])["time"] <= 2.0
    assert replayed(place, told["run"]) == told


def replayed(place, run):
    return place.fab("diagnose", "--replay", run, "--json").json


def _watch_ended(place, run):
    """Unix time of the last thing that the wait was told: with it came the verdict."""
    seen = [json.loads(line) for line in (place.folder(run) / "watch.jsonl").read_text().splitlines()]
    return next(line["data"]["wall"] for line in seen if line["kind"] == "start") + seen[-1]["t"]


def test_a_deadline_ends_the_wait_and_not_the_server(place):
    place.host.write_profile(script=HANG)
    done = place.fab("launch", "--profile", "standin", "--deadline", "3", "--json")
    assert (done.code, done.json["verdict"], done.json["stage"]) == (5, "timed_out", "load-weights"), done
    assert place.live == [done.json["run"]]
    assert replayed(place, done.json["run"]) == done.json
    assert place.runs()[done.json["run"]]["plan"]["wait"]["deadline_s"] is None  # it was of that command alone


def test_patches_that_show_no_trace_are_degraded(place):
    """The stand-in imports the patched modules and never runs them: no rank can prove its taps."""
    place.host.write_profile(patches=["eagle3-hidden-states"])
    done = place.fab("launch", "--profile", "standin", "--json")
    assert (done.code, done.json["verdict"]) == (8, "degraded"), done
    assert done.json["primary"]["id"] == "patch.not_active"
    assert {e["rank"] for e in done.json["primary"]["evidence"]} == {"TP0", "TP1"}
    assert len(place.live) == 1
    assert replayed(place, done.json["run"]) == done.json


def test_what_changed_since_the_profile_was_last_ready_is_said(place):
    place.host.write_profile(env={"NCCL_DEBUG": "INFO"})
    assert place.fab("launch", "--profile", "standin").code == 0
    place.host.write_profile(script=CRASH, args={"tp-size": 2, "max-running-requests": 7})
    done = place.fab("launch", "--profile", "standin")
    assert done.code == 3, done
    told = done.out.partition("Changed since this profile was last ready")[2]
    assert "--max-running-requests: (absent) → 7" in told
    assert "env NCCL_DEBUG: INFO → (absent)" in told
    assert "--tp-size" not in told
