"""Any bytes, in any pieces: never an exception, always the same answer, and bounded memory."""

from __future__ import annotations

import json
import random
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sglfab.diagnosis import catalogue, offline
from sglfab.diagnosis.logfold import LogFold
from sglfab.logs import literals
from sglfab.project import Project

ROOT = Path(__file__).resolve().parents[2]
CASES = ROOT / "tests" / "cases"
SOME = (
    "dev/d008-graph-oom-new",
    "dev/d025-mla-metadata",
    "dev/d036-sgl-kernel-old",
    "dev/d068-loading-capture0",
    "real/kill_scheduler",
)
FRAGMENTS = [
    b"[2025-06-15 10:45:13 TP1] Scheduler hit an exception: Traceback (most recent call last):",
    b'  File "/sglang/srt/model_executor/model_runner.py", line 894, in load_model',
    b"    self.model = get_model(",
    b"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.31 GiB.",
    b"During handling of the above exception, another exception occurred:",
    b"Traceback (most recent call last):",
    b"[2025-06-15 10:45:13] Received sigquit from a child process. It usually means the child failed.",
    b"[2025-06-15 10:45:13 DP0 TP1] Load weight begin. avail mem=70 GB",
    b"\rLoading safetensors checkpoint shards:  12% Completed | 3/64 [00:01<00:30,  2.0it/s]",
    b"[2025-06-15 10:45:13] server_args=ServerArgs(model_path='/m', speculative_algorithm='EAGLE3')",
    b"[2025-06-15 10:45:13] Receive: obj=GenerateReqInput(text='",
    b"Possible solutions:",
    b"[2025-06-15 10:45:13] The server is fired up and ready to roll!",
    b"[2025-06-15 10:45:13 TP0] Decode batch, #running-req: 1, accept len: 1.00, cuda graph: True",
    b"node:1:2 [3] misc/socket.cc:1 NCCL WARN socketStartConnect: Connect to 10.0.0.1<1> failed",
    b'{"log":"[2025-06-15 10:45:13] Killed\\n","stream":"stderr"}',
    b"sglang-1  | Killed",
    b"\x1b[31m^CTraceback (most recent call last):",
    b"KeyboardInterrupt",
]
LINES = st.one_of(st.sampled_from(FRAGMENTS), st.binary(max_size=60))
LOGS = st.lists(LINES, max_size=40).flatmap(
    lambda lines: st.lists(st.sampled_from([b"\n", b"\n", b"\r\n", b""]), min_size=len(lines), max_size=len(lines)).map(
        lambda ends: b"".join(line + end for line, end in zip(lines, ends, strict=True))
    )
)


@lru_cache(maxsize=1)
def signatures() -> catalogue.Catalogue:
    return catalogue.load(Project(ROOT))


def answer(chunks: list[bytes]) -> str:
    return json.dumps(offline.diagnose(signatures(), chunks, path="log").to_json(), sort_keys=True)


def cut(log: bytes, places: list[int]) -> list[bytes]:
    edges = [0, *sorted(p % (len(log) + 1) for p in places), len(log)]
    return [log[a:b] for a, b in pairwise(edges)]


@settings(max_examples=300, deadline=None)
@given(LOGS, st.lists(st.integers(min_value=0), max_size=12))
def test_any_split_gives_the_same_answer(log: bytes, places: list[int]) -> None:
    assert answer(cut(log, places)) == answer([log])


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=600))
def test_any_bytes_are_judged_without_an_exception(log: bytes) -> None:
    assert json.loads(answer([log]))["verdict"] in ("ready", "loading", "crashed", "degraded")


@pytest.mark.parametrize("name", SOME)
@pytest.mark.parametrize("size", [1, 7, 4096])
def test_a_case_in_small_pieces_is_the_same_case(name: str, size: int) -> None:
    log = (CASES / name / "server.log").read_bytes()
    if size == 1:
        log = log[-6000:]
    assert answer([log[n : n + size] for n in range(0, len(log), size)]) == answer([log])


def test_the_fast_matcher_and_the_plain_one_find_the_same_lines() -> None:
    rng = random.Random(7)
    fast = signatures().screen(frozenset())
    plain = literals.Screen(fast.literals, fast=False)
    for case in sorted(CASES.glob("dev/*/server.log"))[:12]:
        log = case.read_bytes()
        start = rng.randrange(len(log) // 2)
        assert _lines(fast, log, start) == _lines(plain, log, start)


def _lines(screen: literals.Screen, log: bytes, start: int) -> set[int]:
    return {log.count(b"\n", 0, place) for place in screen.places(log, start, len(log))}


def test_a_line_without_an_end_stays_small() -> None:
    fold = LogFold(signatures())
    for _ in range(64):
        fold.feed(b"x" * (1 << 20))
    assert len(fold._pending.peek()) < 1 << 18  # what is kept of it
    fold.feed(b"\n[2025-06-15 10:45:13] Killed\n")
    assert fold.number == 3


def test_what_stands_in_the_middle_of_an_endless_line_is_the_same_in_any_pieces() -> None:
    log = b"y" * (1 << 17) + b" NCCL WARN " + b"z" * (1 << 17) + b"\nKilled\n"
    assert answer([log]) == answer([log[n : n + 1000] for n in range(0, len(log), 1000)])


def test_a_crowd_of_failures_is_kept_within_bounds() -> None:
    block = b"".join(
        b"[2025-06-15 10:45:13 TP%d] Scheduler hit an exception: Traceback (most recent call last):\n"
        b'  File "/x.py", line 1, in f\nRuntimeError: odd %d\n\n' % (n, n)
        for n in range(2000)
    )
    fold = LogFold(signatures())
    fold.feed(block)
    assert len(fold.run.assembler.failures) <= 96
    assert fold.run.failures()[0].root.line == 3  # type: ignore[union-attr]  # failures() gives none without
