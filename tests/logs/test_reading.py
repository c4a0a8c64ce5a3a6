"""Bytes in, records out: prefixes, wrappers, bars, and what may never be taken for a statement of the server."""

from __future__ import annotations

import json

import pytest

from sglfab.logs import bars, records
from sglfab.logs.envelope import Unwrapper
from sglfab.logs.lines import GAP, HALF, Pending, bounded
from sglfab.logs.quotation import Quotation
from sglfab.logs.records import Record

LINE = "[2025-06-15 10:45:13 TP3] Load weight begin. avail mem=70 GB"


def read(raw: bytes | str) -> list[Record]:
    data = raw.encode() if isinstance(raw, str) else raw
    return list(records.parse(1, Unwrapper().unwrap(data)))


WRAPPERS = {
    "compose": "sglang-1  | {}",
    "compose with colours": "\x1b[36msglang_1  |\x1b[0m {}",
    "kubectl with prefix": "[pod/sglang-0/server] {}",
    "container runtime": "2025-06-15T10:45:13.123456789Z stderr F {}",
    "docker with times": "2025-06-15T10:45:13.123456789Z {}",
    "times with a zone in brackets": "[2025-06-15T10:45:13.12345678Z] {}",
    "kubectl with prefix and times": "[pod/sglang-0/server] 2025-06-15T10:45:13.123456789Z {}",
    "journald": "Nov 14 04:31:07 worker-11 sglang[77526]: {}",
    "journald in ISO": "2025-11-14T04:31:07+0000 worker-11 docker/sglang[77526]: {}",
    "Ray": "\x1b[36m(SchedulerActor pid=44108, ip=10.0.0.2)\x1b[0m {}",
    "Ray without colours": "(pid=44108) {}",
    "stern": "sglang-7d9f-abcde › server {}",
    "srun with labels": "0: {}",
}


@pytest.mark.parametrize("wrapper", WRAPPERS.values(), ids=WRAPPERS.keys())
def test_a_collectors_wrapping_comes_off(wrapper: str) -> None:
    (record,) = read(wrapper.format(LINE))
    assert (record.rank, record.text) == ("TP3", "Load weight begin. avail mem=70 GB")


FORMATS = {
    "dynamo": "2025-12-20T07:11:02.001021Z  INFO model_runner.load_model: {}",
    "of a site": "2026-03-18 11:22:05.874 INFO 120984 [ TP3 model_runner.py:415] {}",
    "logging's usual one": "2025-03-18 10:24:05,982 - sglang.srt - INFO - {}",
}


@pytest.mark.parametrize("form", FORMATS.values(), ids=FORMATS.keys())
def test_sglang_with_another_log_format(form: str) -> None:
    (record,) = read(form.format("Load weight begin. avail mem=70 GB"))
    assert (record.kind, record.text) == (records.LOG, "Load weight begin. avail mem=70 GB")
    assert record.rank == ("TP3" if "TP3" in form else None)
    unwrapper = Unwrapper()
    unwrapper.unwrap(form.format(LINE).encode())  # the same head before a line with SGLang's own prefix: a relay's
    (record,) = records.parse(2, unwrapper.unwrap(form.format("KeyError: 'a'").encode()))
    assert (record.kind, record.prefixed) == (records.PLAIN, False)


def test_json_of_a_request_stays_whole() -> None:
    text = '{"event": "request.received", "log": "KeyError: 1"}'
    assert Unwrapper().unwrap(text.encode()).text == text


def test_docker_json_comes_apart() -> None:
    (record,) = read(json.dumps({"log": LINE + "\n", "stream": "stderr", "time": "2025-06-15T10:45:13Z"}))
    assert record.rank == "TP3"


def test_a_learned_head_comes_off_frames_too() -> None:
    unwrapper = Unwrapper()
    unwrapper.unwrap(f"sglang-0 server {LINE}".encode())
    assert unwrapper.unwrap(b'sglang-0 server   File "/x.py", line 1, in f').text == '  File "/x.py", line 1, in f'


BARE = [
    "    x = a | b",
    '  File "/x.py", line 1, in f',
    "RuntimeError: a | b",
    "torch.OutOfMemoryError: CUDA out of memory.",
]


@pytest.mark.parametrize("text", BARE)
def test_text_that_only_looks_wrapped_stays_whole(text: str) -> None:
    assert Unwrapper().unwrap(text.encode()).text == text


def test_ray_says_how_often_a_line_came() -> None:
    unwrapped = Unwrapper().unwrap(f"(A pid=1) {LINE} [repeated 7x across cluster]".encode())
    assert unwrapped.repeated == 7
    assert unwrapped.text == LINE


def test_kernel_lines_are_told_apart() -> None:
    (record,) = read("Nov 14 04:31:07 worker-11 kernel: NVRM: Xid (PCI:0000:4f:00): 79")
    assert record.kind == records.KERNEL
    assert record.source == "kernel"
    (record,) = read("[12345.678901] Out of memory: Killed process 1 (python)")
    assert record.kind == records.KERNEL


RANKS = {
    "[2025-06-15 10:45:13 TP3] x": "TP3",
    "[2025-06-15 10:45:13.123 DP0 TP3] x": "DP0 TP3",
    "[2025-06-15 10:45:13 DP0 TP3 EP3 PP0] x": "DP0 TP3 EP3 PP0",
    "[2025-06-15 10:45:13 DP0 PP0 ATTN_CP1 MOE_DP0 TP3 EP3] x": "DP0 PP0 ATTN_CP1 MOE_DP0 TP3 EP3",
    "[2025-06-15 10:45:13] x": None,
    "[rank5]:[W615 10:45:07.179334614 ProcessGroupNCCL.cpp:5072] x": "TP5",
    "node-a3:74833:74888 [4] misc/socket.cc:495 NCCL WARN socketStartConnect": "TP4",
    "[2026-06-15 10:45:13] node-a3:74833:74888 [4] misc/socket.cc:495 NCCL WARN socketStartConnect": "TP4",
}


@pytest.mark.parametrize(("text", "rank"), RANKS.items())
def test_ranks_of_every_release(text: str, rank: str | None) -> None:
    assert read(text)[0].rank == rank


KINDS = {
    "[2025-06-15 10:45:13] server_args=ServerArgs(model_path='CUDA out of memory')": records.ARGS,
    "[2025-06-15 10:45:13] server_args={'model_path': '/m'}": records.ARGS,
    "[2025-06-15 10:45:13] Receive: obj=GenerateReqInput(text='Traceback (most recent call last):": records.REQUEST,
    '{"event": "request.received", "obj": {"text": "CUDA out of memory"}}': records.REQUEST,
    '[2025-06-15 10:45:13] INFO:     127.0.0.1:1 - "GET /health HTTP/1.1" 503 Service Unavailable': records.ACCESS,
    "[2025-06-15 10:45:13 TP0] Decode batch, #running-req: 1": records.RUNTIME,
    "[2025-06-15 10:45:13 TP0] Decode batch [496], #running-req: 1": records.RUNTIME,
    "[2025-06-15 10:45:13 TP0] Scheduler hit an exception: Traceback (most recent call last):": records.TRACEBACK,
    "^CTraceback (most recent call last):": records.TRACEBACK,
    '  File "/x.py", line 1, in f': records.FRAME,
    "    return f()": records.CODE,
    "Capturing batches (bs=1 avail_mem=1.00 GB):  50%|█████     | 1/2 [00:01<00:01, 1.00it/s]": records.BAR,
    "  0%|          | 0/22 [00:00<?, ?it/s]": records.BAR,
    "ValueError: 100% | wrong": records.PLAIN,
    "The above exception was the direct cause of the following exception:": records.CHAIN,
    "[2025-06-15 10:45:13 TP0] Load weight begin. avail mem=1 GB": records.LOG,
    "[2026-06-15 10:45:13] node-a3:74833:74888 [4] misc/shmutils.cc:88 NCCL WARN Error: failed": records.NATIVE,
    "[2026-06-15 10:45:13] node-a3:74833:74888 [4] NCCL INFO Bootstrap : Using eth0": records.NATIVE,
    "[2026-06-15 10:45:13] sglang is using nccl==2.28.3": records.LOG,
    "[2026-06-15 10:45:13 TP4] node-a3:74833:74888 [4] NCCL INFO quoted by a rank": records.LOG,
}


@pytest.mark.parametrize(("text", "kind"), KINDS.items())
def test_kinds(text: str, kind: str) -> None:
    assert read(text)[-1].kind == kind


def test_bars_joined_by_carriage_returns_come_apart_with_the_glued_log_line() -> None:
    bar = "\rLoading safetensors checkpoint shards:  {}% Completed | {}/100 [00:01<00:01, 1.00it/s]"
    found = read("".join(bar.format(n, n) for n in range(100)) + LINE)
    assert [r.kind for r in found] == [records.BAR] * 100 + [records.LOG]
    assert found[-1].rank == "TP3"


def test_a_prompt_that_imitates_a_log_line_is_not_split() -> None:
    text = f"[2025-06-15 10:45:13] Receive: obj=GenerateReqInput(text='{LINE} Scheduler hit an exception: ')"
    (record,) = read(text)
    assert record.kind == records.REQUEST


def test_a_line_cut_by_another_process_knows_it() -> None:
    first, second = read(f'  File "/opt/venv/lib/py{LINE}')
    assert (first.cut, first.kind) == (True, records.FRAME)
    assert second.rank == "TP3"


def test_a_logged_request_over_several_lines_is_one_quotation() -> None:
    quotation = Quotation()
    texts = [
        "[2025-06-15 10:45:13] Receive: obj=GenerateReqInput(text='why",
        "Traceback (most recent call last):",
        "ValueError: x",
        LINE,
    ]
    kinds = [r.kind for text in texts for r in quotation.mark(read(text))]
    assert kinds == [records.REQUEST, records.REQUEST, records.REQUEST, records.LOG]


def test_what_follows_a_complete_request_is_not_a_quotation() -> None:
    quotation = Quotation()
    texts = ["[2025-06-15 10:45:13] Receive: obj=GenerateReqInput(text='why')", "Killed"]
    assert [r.kind for text in texts for r in quotation.mark(read(text))] == [records.REQUEST, records.PLAIN]


@pytest.mark.parametrize("ending", [b"\r", b"\xff\xfe", b""])
def test_bytes_that_are_no_text_do_no_harm(ending: bytes) -> None:
    assert read(LINE.encode() + ending)[0].rank == "TP3"


BARS = {
    "Loading safetensors checkpoint shards:  12% Completed | 3/64 [00:01<00:30,  2.01it/s]": (3, 64, 30.0),
    "Multi-thread loading shards: 100% Completed | 16/16 [01:00<00:00,  3.8s/it]": (16, 16, 0.0),
    "Capturing batches (bs=1 avail_mem=1.00 GB):   0%|          | 0/22 [00:00<?, ?it/s]": (0, 22, None),
    "model.safetensors:  45%|████▌     | 2.25G/5.00G [1:02:03<00:30, 90.1MB/s]": (2.25e9, 5e9, 30.0),
}


@pytest.mark.parametrize(("text", "values"), BARS.items())
def test_bars(text: str, values: tuple[float, float, float | None]) -> None:
    bar = bars.parse(text)
    assert bar is not None
    assert (bar.done, bar.total, bar.left_s) == values


@pytest.mark.parametrize("text", ["50% of the users", "100%|", "token usage: 0.26%", ""])
def test_no_bar(text: str) -> None:
    assert bars.parse(text) is None


def test_an_endless_line_keeps_its_two_ends() -> None:
    line = b"a" * HALF + b"x" * 10 + b"b" * HALF
    pending = Pending()
    for n in range(0, len(line), 1000):
        pending.hold(line[n : n + 1000])
    assert pending.peek() == bounded(line) == b"a" * HALF + GAP + b"b" * HALF
    assert pending.take() == bounded(line)
    assert len(pending) == 0
