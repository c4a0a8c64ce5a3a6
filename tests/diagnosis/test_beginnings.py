"""Logs that do not begin where the server began: a tail, a rotated file, an excerpt."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest

from sglfab.diagnosis import catalogue
from sglfab.diagnosis.logfold import LogFold
from sglfab.diagnosis.logverdict import LogVerdict, judge_log
from sglfab.project import Project

ROOT = Path(__file__).resolve().parents[2]


@functools.cache
def signatures() -> catalogue.Catalogue:
    return catalogue.load(Project(ROOT))


def judged(text: str) -> LogVerdict:
    fold = LogFold(signatures())
    fold.feed(text.encode())
    return judge_log(fold, release=None)


FRAMES = """    self.init_memory_pool(
  File "/sglang/srt/model_executor/model_runner.py", line 1740, in init_memory_pool
    self.token_to_kv_pool = MHATokenToKVPool(
  File "/sglang/srt/mem_cache/memory_pool.py", line 600, in _create_buffers
    torch.zeros(
"""
LACK = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 32.00 MiB.\n"
WEB = """  File "/x/site-packages/starlette/routing.py", line 70, in app
    response = await f(request)
  File "/x/sglang/srt/entrypoints/http_server.py", line 70, in generate
    raise ValueError(
ValueError: the prompt is odd
"""
ALIVE = "[2026-12-01 10:00:00 TP0] Decode batch, #running-req: 1, #token: 1, token usage: 0.01\n"
BAR = "\rLoading safetensors checkpoint shards:  25% Completed | 2/8 [00:04<00:12,  2.00s/it]\n"
CASES = {
    "inside a traceback": (FRAMES + LACK, "crashed", "memory.kv_pool", "kv-cache"),
    "at the exception": ("RuntimeError: nobody knows this one\n", "crashed", "unknown", "import"),
    "inside a traceback that was survived": (FRAMES + LACK + ALIVE, "ready", None, "serving"),
    "inside a traceback of one request": (WEB, "loading", None, "import"),
    "with indented text": (
        "    ____\n   /  /\n hello\nRuntime: up\nRuntimeError: of another\n",
        "loading",
        None,
        "import",
    ),
    "with a message": ("Error: no terminal\n", "loading", None, "import"),
    "while requests are served": (ALIVE, "ready", None, "serving"),
    "with words about serving": ("Decode batch, #running-req: 1\n", "loading", None, "import"),
    "at a bar": (BAR, "loading", None, "load-weights"),
    "at a bar of something else": (BAR.replace("safetensors checkpoint shards", "dataset"), "loading", None, "import"),
}


@pytest.mark.parametrize(("text", "verdict", "category", "stage"), CASES.values(), ids=CASES.keys())
def test_a_log_that_begins(text: str, verdict: str, category: str | None, stage: str) -> None:
    found = judged(text)
    assert (found.verdict, found.primary and found.primary.category, found.stage) == (verdict, category, stage)


def test_a_bar_does_not_move_ranks_that_have_said_where_they_are() -> None:
    text = (
        "[2026-12-01 10:00:00 TP0] Load weight end. type=X\n[2026-12-01 10:00:01 TP0] Memory pool end. avail mem=1 GB\n"
    )
    assert judged(text + BAR).stage == "kv-cache"


def test_a_margin_comes_off_every_line() -> None:
    text = "[2026-12-01 10:00:00 TP0] Scheduler hit an exception: Traceback (most recent call last):\n" + FRAMES + LACK
    indented = "".join(f"    {line}\n" for line in text.splitlines())
    assert judged(indented) == judged(text)
    quoted = indented[indented.index("Traceback") :]
    assert judged("[2026-12-01 10:00:00 TP0] Load weight begin.\n    " + quoted).verdict == "loading"
