"""The verdict for a person and for a program."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from rich.cells import cell_len

from sglfab.model import VERDICT_EXIT, Evidence, ExitStatus, Finding, StageSpan, Verdict
from sglfab.report.redact import Redactor
from sglfab.report.verdict import print_verdict, verdict_json, verdict_line

OOM = Finding(
    id="cuda-graph-oom",
    category="memory.cuda_graph",
    title="CUDA graph capture ran out of GPU memory",
    severity="fatal",
    rank="TP3",
    evidence=(
        Evidence("log", "[2026-12-01 10:02:13 TP3] Scheduler hit an exception: Traceback", 1408, "TP3", "10:02:13"),
        Evidence(
            "log",
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 3 has a total capacity of "
            "79.11 GiB of which 1.02 GiB is free.",
            1412,
            "TP3",
            "10:02:13",
        ),
        Evidence("gpu", "GPU 3: 80912 of 81559 MiB used"),
    ),
    advice=(
        "lower mem-fraction-static (now 0.90) by 0.02 to 0.05: the capture needs what the pool does not take",
        "or lower cuda-graph-max-bs",
    ),
    confidence="high",
)
SLOW = Finding("slow-graphs", "slow.graphs", "graph capture took longer than before", "info", None, (), (), "low")
SPANS = (
    StageSpan("import", False, 0, 8.2),
    StageSpan("args", False, 8.2, 9),
    StageSpan("init-distributed", False, 9, 21),
    StageSpan("load-weights", False, 21, 151),
    StageSpan("kv-cache", False, 151, 153),
    StageSpan("load-weights", True, 153, 170),
    StageSpan("capture-graphs", True, 170, None, 0.42),
)
CRASHED = Verdict(
    "crashed",
    "capture-graphs",
    draft=True,
    elapsed_s=212.4,
    host="gpu1",
    run="eagle3-debug-20261201-095841-ab12",
    profile="eagle3-debug",
    url="http://127.0.0.1:30000",
    sglang_version="0.5.12",
    exit=ExitStatus(-9, "SIGKILL"),
    primary=OOM,
    findings=(OOM, SLOW),
    consequences=((1420, "NCCL watchdog thread terminated with exception"), (1433, "Killed")),
    ruled_out=("the kernel's OOM killer: no line of it since the start",),
    gaps=("dmesg: permission denied",),
    notes=("judged the last of 3 runs in this file",),
    timeline=SPANS,
)
READY = Verdict(
    "ready",
    "serving",
    elapsed_s=212.4,
    host="gpu1",
    run="eagle3-debug-20261201-095841-ab12",
    profile="eagle3-debug",
    url="http://127.0.0.1:30000",
    sglang_version="0.5.12",
    timeline=(*SPANS[:-1], StageSpan("capture-graphs", True, 170, 200), StageSpan("serving", False, 200, None)),
)
LOADING = Verdict(
    "loading",
    "load-weights",
    elapsed_s=100,
    host="gpu1",
    profile="eagle3-debug",
    timeline=(*SPANS[:3], StageSpan("load-weights", False, 21, None, 0.42, 130, "bar")),
)
UNKNOWN = Verdict(
    "crashed",
    "load-weights",
    elapsed_s=31,
    primary=Finding(
        "unknown",
        "unknown",
        "the server ended for a reason that no signature knows",
        "fatal",
        None,
        (Evidence("log", "ValueError: flux capacitor", 88),),
        (),
        "low",
    ),
    neighbours=("weights-corrupt", "missing-shard"),
)
NEXT = "fab -H gpu1 launch --profile eagle3-debug --set args.mem-fraction-static=0.86 --set args.cuda-graph-max-bs=64"
CHANGED = ("args.mem-fraction-static: 0.85 → 0.90", "SGLang: 0.5.11 → 0.5.12")


@pytest.mark.parametrize(
    ("name", "verdict", "changed"),
    [
        ("crashed", CRASHED, CHANGED),
        ("ready", READY, ()),
        ("loading", LOADING, ()),
        ("unknown", UNKNOWN, ()),
    ],
    ids=["a crash with everything", "ready", "still loading", "a crash that no signature knows"],
)
def test_the_page_at_80_columns(name, verdict, changed, terminal, same_page):
    print_verdict(verdict, console=terminal.console, next_command=NEXT, changed=changed, log="logs/server.log")
    lines = terminal.plain.splitlines()
    assert [line for line in lines if cell_len(line) > 80] == [f"next: {NEXT}"]
    same_page(f"verdict-{name}", terminal.plain)


@pytest.mark.parametrize("width", [48, 66, 120, 250])
def test_other_widths_are_kept_too(width, new_screen):
    screen = new_screen(terminal=True, width=width)
    print_verdict(CRASHED, console=screen.console, next_command="fab status", changed=CHANGED)
    assert max(map(cell_len, screen.plain.splitlines())) <= width


@pytest.mark.parametrize("verdict", [CRASHED, READY, LOADING, UNKNOWN], ids=lambda v: v.verdict)
def test_the_first_line_stands_alone_in_a_pipe(verdict, pipe):
    print_verdict(verdict, console=pipe.console, next_command=NEXT)
    assert pipe.text.splitlines()[0] == verdict_line(verdict)
    assert "\x1b" not in pipe.text


def test_evidence_stays_on_one_line_in_a_pipe(pipe):
    print_verdict(CRASHED, console=pipe.console, next_command=NEXT)
    assert f"    {OOM.evidence[1].text}" in pipe.text.splitlines()


@pytest.mark.parametrize("name", list(VERDICT_EXIT))
def test_every_verdict_has_a_first_line_without_a_finding(name, terminal):
    print_verdict(Verdict(name, "load-weights"), console=terminal.console, next_command="")
    assert terminal.plain.startswith(f"{name}: ")
    assert terminal.plain.count("\n") == 1


def test_a_part_without_content_has_no_title(terminal):
    print_verdict(READY, console=terminal.console, next_command=NEXT)
    for title in ("Evidence", "What to do", "Also found", "Consequences", "Ruled out", "Could not", "Changed", "Notes"):
        assert title not in terminal.plain


def test_the_primary_is_not_listed_again(terminal):
    print_verdict(replace(CRASHED, findings=(OOM,)), console=terminal.console, next_command=NEXT)
    assert "Also found" not in terminal.plain


def test_a_log_line_neither_obeys_nor_reveals(terminal):
    evil = Evidence("log", "\x1b[2J[red]api_key='abc'[/red] \udce4 vErYsEcReT\x07", 1)
    shown = replace(CRASHED, primary=replace(OOM, evidence=(evil,)))
    print_verdict(shown, console=terminal.console, next_command=NEXT, redactor=Redactor(["vErYsEcReT"]))
    assert "    [red]api_key='***'[/red] � ***\n" in terminal.plain
    assert "\x1b[2J" not in terminal.text


def test_a_long_line_of_evidence_is_cropped_and_says_so(terminal):
    shown = replace(CRASHED, primary=replace(OOM, evidence=(Evidence("log", "x" * 10_000, 1),)))
    print_verdict(shown, console=terminal.console, next_command=NEXT)
    assert "characters)" in terminal.plain
    assert terminal.plain.count("x") < 500


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_a_poor_encoding_never_fails(encoding, new_screen):
    screen = new_screen(terminal=True, encoding=encoding)
    print_verdict(CRASHED, console=screen.console, next_command=NEXT, changed=CHANGED)
    assert "#x" in screen.plain


def test_json_has_the_contract_and_no_secret():
    shown = replace(CRASHED, primary=replace(OOM, evidence=(Evidence("log", "api_key='abc' vErYsEcReT", 1),)))
    shape = json.loads(json.dumps(verdict_json(shown, Redactor(["vErYsEcReT"]))))
    assert shape["primary"]["evidence"][0]["text"] == "api_key='***' ***"
    assert shape["schema"] == 1
    assert shape["exit"] == {"code": -9, "signal": "SIGKILL"}
    assert shape["consequences"][1] == {"line": 1433, "text": "Killed"}
    assert shape["timeline"][-1]["stage"] == "capture-graphs"
    assert set(shape["primary"]) == {
        "id", "category", "title", "severity", "rank", "evidence", "advice", "confidence"
    }  # fmt: skip


def test_json_of_a_verdict_without_secrets_is_the_record_itself():
    assert verdict_json(CRASHED) == json.loads(json.dumps(CRASHED.to_json()))
