"""Tracebacks: whole, chained, interleaved and cut."""

from __future__ import annotations

import pytest

from sglfab.logs import records
from sglfab.logs.envelope import Unwrapper
from sglfab.logs.tracebacks import Assembler, Failure

HEAD = "[2025-06-15 10:45:13 {}] Scheduler hit an exception: Traceback (most recent call last):"
FRAMES = [
    '  File "/sglang/srt/managers/scheduler.py", line 2772, in run_scheduler_process',
    "    scheduler = Scheduler(",
    '  File "/sglang/srt/model_executor/model_runner.py", line 894, in load_model',
    "    self.model = get_model(",
]


def assemble(text: str) -> list[Failure]:
    assembler, unwrapper = Assembler(), Unwrapper()
    for number, line in enumerate(text.split("\n"), 1):
        for record in records.parse(number, unwrapper.unwrap(line.encode())):
            assembler.feed(record)
    return assembler.failures


def block(rank: str, error: str = "ValueError: wrong") -> list[str]:
    return [HEAD.format(rank), *FRAMES, error, ""]


def test_a_whole_traceback() -> None:
    (failure,) = assemble("\n".join(block("TP1")))
    assert failure.rank == "TP1"
    assert failure.fatal is True
    assert failure.root
    assert (failure.root.line, failure.root.text) == (6, "ValueError: wrong")
    assert failure.frame_text().endswith("/sglang/srt/model_executor/model_runner.py:load_model")


def test_a_chain_is_resolved_to_the_first_exception() -> None:
    text = [
        *block("TP1", "KeyError: 'first'"),
        "During handling of the above exception, another exception occurred:",
        "",
    ]
    text += ["Traceback (most recent call last):", *FRAMES, "RuntimeError: last"]
    (failure,) = assemble("\n".join(text))
    assert failure.root
    assert failure.root.text == "KeyError: 'first'"
    assert [p.raised.text for p in failure.parts if p.raised] == ["KeyError: 'first'", "RuntimeError: last"]


@pytest.mark.parametrize("size", [1, 2, 3])
def test_interleaved_tracebacks_are_joined_per_rank(size: int) -> None:
    whole, first, second = block("TP0"), block("TP1"), block("TP2")
    mixed = list(whole)
    while first or second:
        for lines in (first, second):
            mixed += lines[:size]
            del lines[:size]
    failures = assemble("\n".join(mixed))
    assert [f.rank for f in failures] == ["TP0", "TP1", "TP2"]
    assert all(f.root and f.root.text == "ValueError: wrong" for f in failures)
    assert all(len(f.frames) == 2 for f in failures)


def test_an_exception_line_cut_by_another_rank_is_put_together() -> None:
    text = "\n".join([*block("TP0"), HEAD.format("TP1"), *FRAMES, "ValueError: wr" + HEAD.format("TP2"), *FRAMES])
    failures = assemble(text + "\nValueError: wrong\n\nong\n")
    assert [f.root.text for f in failures if f.root] == ["ValueError: wrong"] * 3


def test_the_rest_of_a_cut_frame_is_not_an_exception() -> None:
    text = "\n".join([HEAD.format("TP1"), FRAMES[0], '  File "/opt/venv/lib/py' + HEAD.format("TP2"), *FRAMES])
    failures = assemble(text + '\nValueError: two\n\nthon3.12/x.py", line 3, in f\n    g()\nTypeError: one\n')
    assert [f.root.text for f in failures if f.root] == ["TypeError: one", "ValueError: two"]


def test_details_of_an_exception_belong_to_it() -> None:
    (failure,) = assemble(
        "\n".join([*block("TP1", "RuntimeError: Ninja build failed.")[:-1], "x.cu:1: fatal error: y.h", ""])
    )
    assert failure.root
    assert failure.root.details == [(7, "x.cu:1: fatal error: y.h")]


def test_hints_that_the_program_prints_are_no_details() -> None:
    lines = [
        *block("TP1", "Exception: Capture cuda graph failed: x")[:-1],
        "Possible solutions:",
        "1. set --mem-fraction-static",
    ]
    (failure,) = assemble("\n".join(lines))
    assert failure.root
    assert failure.root.details == []


@pytest.mark.parametrize(
    "head",
    [
        "[2025-06-15 10:45:13] ERROR:    Exception in ASGI application\n",
        "Exception ignored in: <function x>\n",
        "Task exception was never retrieved\n",
    ],
)
def test_what_a_server_survives_is_not_fatal(head: str) -> None:
    failures = assemble(head + "Traceback (most recent call last):\n" + "\n".join(FRAMES) + "\nValueError: wrong\n")
    assert failures[0].fatal is not True


def test_an_open_traceback_is_not_waited_for_forever() -> None:
    assembler, unwrapper = Assembler(), Unwrapper()
    lines = [HEAD.format("TP1"), *FRAMES] + ["[2025-06-15 10:45:13 TP0] Decode batch, #running-req: 1"] * 300
    for number, line in enumerate(lines, 1):
        for record in records.parse(number, unwrapper.unwrap(line.encode())):
            assembler.feed(record)
    assert not assembler.busy


@pytest.mark.parametrize("rubbish", [[], ["    self.run()"], ['y", line 12, in run', "    self.run()"]])
def test_a_log_that_begins_inside_of_a_traceback(rubbish: list[str]) -> None:
    (failure,) = assemble("\n".join([*rubbish, *FRAMES, "ValueError: wrong", HEAD[:21] + "] gone"]))
    assert failure.root
    assert failure.root.text == "ValueError: wrong"
    assert failure.fatal is None
    assert len(failure.frames) == 2


@pytest.mark.parametrize("before", ["[2025-06-15 10:45:13] Load weight begin.", "plain\n" * 8 + "plain"])
def test_frames_further_on_are_no_traceback(before: str) -> None:
    assert assemble("\n".join([before, *FRAMES, "ValueError: wrong"])) == []


def test_an_exception_that_was_told_without_its_frames() -> None:
    head = HEAD.format("TP2").replace(
        "Traceback (most recent call last):", "torch._dynamo.exc.Unsupported: no such call"
    )
    chain = ["", "The above exception was the direct cause of the following exception:", ""]
    (failure,) = assemble("\n".join([head, *chain, "Traceback (most recent call last):", *FRAMES, "Exception: last"]))
    assert failure.rank == "TP2"
    assert failure.fatal is True
    assert failure.root
    assert (failure.root.line, failure.root.text) == (1, "torch._dynamo.exc.Unsupported: no such call")
    assert [p.raised.text for p in failure.parts if p.raised][1:] == ["Exception: last"]


def test_what_only_reads_like_one() -> None:
    assert assemble("[2025-06-15 10:45:13] The client hit an exception: see above") == []
    assert assemble("[2025-06-15 10:45:13 TP0] Scheduler hit an exception: none of ours") == []
