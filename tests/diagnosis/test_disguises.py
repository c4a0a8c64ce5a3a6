"""The same log in another dress: collectors, older runs, user texts, mixed ranks. The answer must not change."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from sglfab.diagnosis import catalogue, offline
from sglfab.project import Project

ROOT = Path(__file__).resolve().parents[2]
DEV = ROOT / "tests" / "cases" / "dev"
CASES = [
    "d002-kv-none-tp8",
    "d004-kv-negative",
    "d019-params-topk-page",
    "d022-hidden-width",
    "d033-marlin-k",
    "d037-tf-register",
    "d044-flag-foreign",
    "d051-nccl-memlock",
    "d055-fabric-802",
    "d060-ready-kimi-eagle3",
    "d065-loading-slow-nfs",
    "d070-long-request",
]
MANY_RANKS = ["d002-kv-none-tp8", "d022-hidden-width", "d033-marlin-k", "d045-tp-heads", "d031-illegal-capture"]
LURES = [
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.31 GiB",
    "Traceback (most recent call last): RuntimeError: CUDA error: an illegal memory access was encountered",
    "[2025-01-01 00:00:00 TP0] Scheduler hit an exception: Traceback (most recent call last):",
    "Received sigquit from a child process. It usually means the child failed.",
    "The server is fired up and ready to roll!",
]
Line = tuple[bytes, int | None]  # the text, and the line of the original that it was


@lru_cache(maxsize=1)
def signatures() -> catalogue.Catalogue:
    return catalogue.load(Project(ROOT))


@lru_cache(maxsize=64)
def case(name: str) -> tuple[dict[str, Any], tuple[bytes, ...]]:
    expected = yaml.safe_load((DEV / name / "expect.yaml").read_text(encoding="utf-8"))
    return expected, tuple((DEV / name / "server.log").read_bytes().split(b"\n")[:-1])


def numbered(name: str) -> list[Line]:
    return [(line, number) for number, line in enumerate(case(name)[1], 1)]


def check(name: str, lines: list[Line]) -> None:
    expected, original = case(name)
    log = b"\n".join(line for line, _ in lines) + b"\n"
    got = offline.diagnose(signatures(), [log], path=name, sglang_version=expected["sglang_version"]).to_json()
    primary = got["primary"] or {}
    assert got["verdict"] == expected["verdict"]
    assert (primary.get("category") or "none") in [expected["category"], *(expected.get("category_alt") or [])]
    assert got["stage"] in [expected["stage"], *(expected.get("stage_alt") or [])]
    if not expected["cause_lines"]:
        return
    evidence = primary["evidence"][0]
    source = lines[evidence["line"] - 1][1]
    if source is not None:
        assert source in expected["cause_lines"]
        return
    causes = [original[n - 1].decode("utf-8", "replace") for n in expected["cause_lines"]]
    assert any(evidence["text"].strip()[:50] in c or c[:50] in evidence["text"] for c in causes)


WRAPPERS: dict[str, Callable[[bytes, int], bytes]] = {
    "compose": lambda line, _: b"sglang-1  | " + line,
    "coloured compose": lambda line, _: b"\x1b[36msglang_1  |\x1b[0m " + line,
    "container runtime": lambda line, n: b"2025-05-19T22:54:%02d.%09dZ stderr F " % (n % 60, n) + line,
    "docker json": lambda line, _: json.dumps(
        {"log": line.decode("utf-8", "replace") + "\n", "stream": "stderr"}
    ).encode(),
    "journald": lambda line, _: b"Nov 14 04:31:07 worker-11 sglang[77526]: " + line,
    "kubectl": lambda line, _: b"[pod/sglang-0/server] " + line,
    "ray": lambda line, _: b"\x1b[36m(SchedulerActor pid=44108, ip=10.0.0.2)\x1b[0m " + line,
    "srun": lambda line, _: b"0: " + line,
    "stern": lambda line, _: b"sglang-7d9f6c-abcde \xe2\x80\xba server " + line,
    "jenkins": lambda line, n: b"[2025-11-06T02:08:%02d.278Z] " % (n % 60) + line,
    "pane of k9s": lambda line, _: "│ ".encode() + line.ljust(160) + "│".encode(),
    "padded to a width": lambda line, _: line.ljust(200),
    "cloudwatch": lambda line, _: b"1779264164797\t2026-05-20T08:02:44.797Z\t" + line,
    "grafana": lambda line, _: b"2026-05-20 08:02:44.797\t" + line,
    "kibana": lambda line, _: b"May 16, 2026 @ 20:44:54.728    " + line,
    "process manager": lambda line, _: b"[2026-06-29 17:44:04] [/bin/sh]: " + line,
    "stamp of a supervisor": lambda line, _: b"[2026-06-29 17:44:04,123] " + line,
    "another program's logging": lambda line, _: b"2025-03-18 10:24:05,982 - server.task - INFO - " + line,
    "loguru": lambda line, _: b"2025-03-18 10:24:05.982 | INFO     | server:pump:12 - " + line,
    "basicConfig": lambda line, _: b"INFO:server:" + line,
    "fluent bit": lambda line, n: json.dumps({"date": n, "log": line.decode("utf-8", "replace")}).encode(),
    "swarm": lambda line, _: b"sglang_server.1.x7k2@node-3    | " + line,
    "mpirun": lambda line, _: b"[1,0]<stdout>:" + line,
    "skypilot": lambda line, _: b"(head, rank=0, pid=4127) " + line,
    "windows line ends": lambda line, _: line + b"\r",
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("wrapper", WRAPPERS.values(), ids=WRAPPERS.keys())
def test_wrapped_by_a_collector(name: str, wrapper: Callable[[bytes, int], bytes]) -> None:
    check(name, [(wrapper(line, number or 0), number) for line, number in numbered(name)])


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("older", ["d007-graph-oom", "d037-tf-register", "d013-oomkill-exit9", "d019-params-topk-page"])
def test_after_an_older_crash_in_the_same_file(name: str, older: str) -> None:
    check(name, [(line, None) for line, _ in numbered(older)] + numbered(name))


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("lure", LURES)
def test_with_misleading_words_of_users(name: str, lure: str) -> None:
    requests = [
        f"[2025-06-15 10:45:13] Receive: obj=GenerateReqInput(rid='1', text='why: {lure}')",
        f"[2025-06-15 10:45:13 TP0] Finish: obj=GenerateReqInput(text='x'), out={{'text': '{lure}'}}",
        json.dumps({"event": "request.received", "obj": {"text": lure}}),
    ]
    lines: list[Line] = []
    for line, number in numbered(name):
        lines.append((line, number))
        if line.startswith(b"[20") and not line.endswith(b"last):") and (number or 0) % 7 == 0:
            lines.append((requests[(number or 0) % 3].encode(), None))
    check(name, lines)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("lure", LURES)
def test_with_misleading_words_in_the_arguments(name: str, lure: str) -> None:
    value = f"served_model_name={lure!r}, tokenizer_mode='auto'".encode()
    check(name, [(line.replace(b"tokenizer_mode='auto'", value), number) for line, number in numbered(name)])


@pytest.mark.parametrize("name", MANY_RANKS)
@pytest.mark.parametrize("whole_lines", [True, False], ids=["between lines", "inside lines"])
@pytest.mark.parametrize("seed", range(3))
def test_with_the_ranks_mixed_otherwise(name: str, whole_lines: bool, seed: int) -> None:
    _, lines = case(name)
    heads = [n for n, line in enumerate(lines) if b"hit an exception" in line]
    blocks = [b"\n".join(lines[a:b]) + b"\n" for a, b in zip(heads, [*heads[1:], len(lines)], strict=True)]
    mixed = mix(blocks, random.Random(f"{name}{seed}"), whole_lines=whole_lines)
    check(name, numbered(name)[: heads[0]] + [(line, None) for line in mixed.split(b"\n")[:-1]])


def mix(blocks: list[bytes], rng: random.Random, *, whole_lines: bool) -> bytes:
    out, waiting, running = b"", list(blocks), []
    while waiting or running:
        if waiting and (not running or rng.random() < 0.5):
            running.append(waiting.pop(0))
        block = running.pop(rng.randrange(len(running)))
        size = rng.choice([400, 800, 1500, 3000])
        if whole_lines and (end := block.find(b"\n", size)) >= 0:
            size = end + 1
        out += block[:size]
        if block[size:]:
            running.append(block[size:])
    return out


def test_a_cut_last_line_changes_nothing() -> None:
    check("d022-hidden-width", [*numbered("d022-hidden-width"), (b"[2025-06-15 10:4", None)])


def test_an_older_run_is_noted() -> None:
    log = b"\n".join(line for name in ("d007-graph-oom", "d002-kv-none-tp8") for line in case(name)[1])
    notes = offline.diagnose(signatures(), [log], path="x").notes
    assert any(re.search(r"last of 2 runs", note) for note in notes)


def first_block(name: str) -> int | None:
    """The line after the head of the first traceback, where the cause is the exception of just that one."""
    expected, lines = case(name)
    heads = [n for n, line in enumerate(lines, 1) if b"Traceback (most recent call last):" in line]
    causes = expected["cause_lines"]
    if not heads or not causes or causes[0] < heads[0]:
        return None
    between = lines[heads[0] : causes[0] - 1]
    return heads[0] + 1 if between and all(line.startswith(b" ") for line in between) else None


CUT = [path.name for path in sorted(DEV.iterdir()) if first_block(path.name)]


@pytest.mark.parametrize("name", CUT)
def test_only_the_end_of_the_log_from_inside_of_the_first_traceback(name: str) -> None:
    """`tail -n 200`, or a rotated file: the stage lines and the head are gone; frames and what follows are there."""
    expected, original = case(name)
    lines = original[first_block(name) - 1 :]
    got = offline.diagnose(signatures(), [b"\n".join(lines) + b"\n"], path=name, sglang_version=None).to_json()
    assert got["verdict"] == "crashed"
    assert got["primary"]["category"] in [expected["category"], *(expected.get("category_alt") or [])]


SERVED = "[2026-02-01 10:00:0{} TP0] Decode batch, #running-req: 1, #token: 210, token usage: 0.00, cuda graph: True\n"
DIES = (
    "[2026-02-01 10:00:09 TP0] Scheduler hit an exception: Traceback (most recent call last):\n"
    '  File "/sglang/srt/managers/scheduler.py", line 3, in run_scheduler_process\n    scheduler.f()\n'
    "ValueError: who knows\n"
)
RESTARTED = (
    "[2026-02-01 11:00:00] server_args=ServerArgs(model_path='/m')\n[2026-02-01 11:00:09 TP0] Load weight begin.\n"
)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (SERVED.format(1) + SERVED.format(2), ("ready", "serving")),
        (SERVED.format(1) + DIES, ("crashed", "serving")),
        (SERVED.format(1) + RESTARTED, ("loading", "load-weights")),
        (DIES.partition("\n")[0] + "\n", ("crashed", "import")),
        (DIES.replace("Traceback (most recent call last):\n", "ValueError: in one line\n", 1), ("crashed", "import")),
    ],
    ids=["serves", "dies while serving", "starts anew", "ends with the head", "told without frames"],
)
def test_a_log_that_begins_or_ends_in_the_middle(text: str, says: tuple[str, str]) -> None:
    got = offline.diagnose(signatures(), [text.encode()], path="x", sglang_version=None).to_json()
    assert (got["verdict"], got["stage"]) == says


def test_a_cause_does_not_yield_to_what_came_later_in_another_traceback() -> None:
    """Inductor's workers print their own traceback under the exception: the category is that of the first."""
    first = DIES.replace(
        "ValueError: who knows", "torch._inductor.exc.InductorError: SubprocException: in a subprocess:"
    )
    later = (
        'Traceback (most recent call last):\n  File "/torch/_inductor/runtime/compile_tasks.py", line 6, in _worker\n'
        "    kernel.precompile()\ntriton.compiler.errors.CompilationError: at 1:0:\n"
    )
    got = offline.diagnose(signatures(), [(first + "\n" + later).encode()], path="x", sglang_version=None).to_json()
    assert got["primary"]["category"] == "config.torch_compile"
    assert got["primary"]["evidence"][0]["line"] == 4
