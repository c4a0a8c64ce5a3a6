"""A log whose beginning is gone (`tail -n`, rotation): without a line of a start it shows a server at work."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

from sglfab.diagnosis import catalogue, offline
from sglfab.project import Project

ROOT = Path(__file__).resolve().parents[2]
DECODE = "[2025-11-05 17:35:04 TP0] Decode batch, #running-req: 1, #token: 120, token usage: 0.00, #queue-req: 0\n"
ANSWER = '[2025-11-05 17:35:04] INFO:     10.0.0.1:444 - "POST /generate HTTP/1.1" 200 OK\n'
PROBE = '[2025-11-05 17:35:04] INFO:     10.0.0.1:444 - "GET /health HTTP/1.1" 503 Service Unavailable\n'
CRASH = """[2025-11-05 17:35:05 TP0] Scheduler hit an exception: Traceback (most recent call last):
  File "/sglang/srt/managers/scheduler.py", line 519, in event_loop_overlap
    self.process_batch_result(tmp_batch, tmp_result)
  File "/sglang/srt/mem_cache/hiradix_cache.py", line 157, in writing_check
    self.dec_lock_ref(self.ongoing_write_through[ack_id])
KeyError: 37
"""
START = """[2025-11-05 18:00:00] server_args=ServerArgs(model_path='/m', tp_size=1)
[2025-11-05 18:00:01 TP0] Init torch distributed begin.
[2025-11-05 18:00:03 TP0] Load weight begin. avail mem=70.00 GB
"""


@lru_cache(maxsize=1)
def signatures() -> catalogue.Catalogue:
    return catalogue.load(Project(ROOT))


def told(log: str) -> dict[str, Any]:
    return offline.diagnose(signatures(), [log.encode()], path="server.log", sglang_version=None).to_json()


def test_a_crash_behind_served_requests_is_one_while_serving() -> None:
    for before in (DECODE, ANSWER, ""):
        found = told(before + CRASH)
        assert (found["verdict"], found["stage"], found["primary"]["category"]) == ("crashed", "serving", "unknown")
        assert found["primary"]["evidence"][0]["text"] == "KeyError: 37"


def test_only_what_was_served_proves_a_start() -> None:
    prefill = DECODE.replace("Decode", "Prefill")
    assert (told(DECODE)["verdict"], told(DECODE)["stage"]) == ("ready", "serving")
    assert (told(prefill)["verdict"], told(prefill)["stage"]) == ("loading", "serving")
    assert told(PROBE)["stage"] == "import"


def test_a_start_that_follows_counts_from_its_beginning() -> None:
    assert told(DECODE + START)["stage"] == "load-weights"
    assert told(DECODE + CRASH + START)["stage"] == "load-weights"
