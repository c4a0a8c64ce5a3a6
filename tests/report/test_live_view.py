"""The live picture in a terminal, and plain lines everywhere else."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from rich.cells import cell_len

from sglfab.flows.events import Said, Step, Watched
from sglfab.model import STAGES, RankProgress, StageSpan, WatchView
from sglfab.report.consoles import UNICODE
from sglfab.report.live import LiveView
from sglfab.report.redact import Redactor
from sglfab.report.stage_table import table

SECRET = "vErYsEcReT"


def view(
    *,
    at_s=200.0,
    stage="load-weights",
    ranks=(),
    http="refused",
    line="",
    age_s=None,
    timeline=(),
    alive=9,
    draft=False,
    detail="",
):
    return WatchView(
        elapsed_s=at_s,
        stage=stage,
        draft=draft,
        ranks=tuple(ranks),
        http=http,
        last_line=line,
        last_line_age_s=age_s,
        timeline=tuple(timeline),
        alive=alive,
        http_detail=detail,
    )


def loading(*progress, stage="load-weights"):
    return [RankProgress(f"TP{n}", stage, False, p, f"{round(p * 64)}/64 shards") for n, p in enumerate(progress)]


def drawn(shown, *, width=80, height=24):
    return [line.plain for line in table(shown, redactor=Redactor([SECRET]), signs=UNICODE, width=width, height=height)]


# --- the picture ------------------------------------------------------------------------------------------------------


def test_each_rank_has_a_row_and_the_slowest_is_marked():
    lines = drawn(view(ranks=loading(0.5, 0.25, 0.75)))
    assert [line.split()[0] for line in lines] == ["TP0", "TP1", "TP2"]
    assert ["slowest" in line for line in lines] == [False, True, False]
    assert "16/64 shards" in lines[1]
    assert "25%" in lines[1]


@pytest.mark.parametrize(
    "ranks",
    [
        [],
        loading(0.5),
        loading(0.5, 0.5),
        loading(0.25, 0.25, 0.5),
        [RankProgress("TP0", "load-weights", False, 0.1), RankProgress("TP1", "load-weights")],
    ],
    ids=["no rank", "a single rank", "all level", "two share the last place", "one does not say how far it is"],
)
def test_nobody_is_called_slowest_without_a_reason(ranks):
    assert not [line for line in drawn(view(ranks=ranks)) if "slowest" in line]


def test_an_earlier_stage_is_slower_whatever_the_bars_say():
    ranks = [
        *loading(0.99),
        RankProgress("TP1", "kv-cache", False, 0.01),
        RankProgress("TP2", "load-weights", True, 0.01),
    ]
    assert [("slowest" in line) for line in drawn(view(ranks=ranks))] == [True, False, False]


def test_ranks_at_the_same_point_share_a_row():
    ranks = [RankProgress(f"TP{n}", "capture-graphs") for n in range(8)]
    (row,) = drawn(view(ranks=ranks))
    assert row.startswith("TP0-7  capture-graphs")


@pytest.mark.parametrize("height", [6, 8, 24, 60])
@pytest.mark.parametrize("count", [1, 8, 64])
def test_many_ranks_never_leave_the_screen(count, height):
    ranks = loading(*[(n + 1) / 100 for n in reversed(range(count))])
    shown = view(ranks=ranks, line="x" * 500, age_s=3.0, timeline=[StageSpan("import", False, 0, 8)])
    lines = drawn(shown, width=77, height=height)
    assert len(lines) <= height
    assert max(map(cell_len, lines)) <= 77
    assert any("slowest" in line for line in lines) is (count > 1)


def test_what_is_done_and_what_is_left_are_said():
    timeline = [
        StageSpan("import", False, 0, 8.2),
        StageSpan("load-weights", False, 8.2, None, 0.4, 130.0, "former-runs"),
    ]
    lines = drawn(view(timeline=timeline))
    assert "done  import 8.2 s" in lines
    assert "left  about 2m10s left, from former runs" in lines
    lines = drawn(replace(view(timeline=timeline), start_left_s=305.2))
    assert "left  about 2m10s left, from former runs; ready in about 5m05s" in lines


@pytest.mark.parametrize(
    ("stage", "rows"), [("capture-graphs", 1), ("http", 0), ("warmup", 0), ("serving", 0)], ids=str
)
def test_ranks_that_are_through_have_no_rows(stage, rows):
    ranks = [RankProgress("TP0", "capture-graphs"), RankProgress("TP1", "capture-graphs")]
    assert len(drawn(view(stage=stage, ranks=ranks))) == rows


def test_of_what_is_done_the_latest_is_kept():
    timeline = [StageSpan(stage, False, 10 * n, 10 * n + 9) for n, stage in enumerate(STAGES[:8])]
    (line,) = drawn(view(timeline=timeline))
    assert line.startswith("done  … · ")
    assert line.endswith(" · http 9 s")


def test_what_took_no_time_is_not_worth_the_room():
    timeline = [
        StageSpan("import", False, 0, 8),
        StageSpan("args", False, 8, 8.2),
        StageSpan("kv-cache", False, 8.2, 20),
    ]
    assert drawn(view(timeline=timeline)) == ["done  import 8 s · kv-cache 12 s"]


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("[2026-12-01 10:02:13 TP0] Load weight begin.", "TP0 Load weight begin."),
        ("[2026-12-01 10:02:13.123 DP0 TP3] x", "DP0 TP3 x"),
        ("[2026-12-01 10:02:13] INFO:     x", "INFO:     x"),
        ("[rank0]: Traceback", "[rank0]: Traceback"),
        ("Loading: 12% [00:01<00:08]", "Loading: 12% [00:01<00:08]"),
    ],
    ids=["rank", "milliseconds", "no rank", "torch's prefix", "a bar"],
)
def test_the_stamp_of_the_last_line_makes_room(line, shown):
    assert drawn(view(line=line, age_s=4)) == [f"log   4 s ago: {shown}"]


def test_the_last_log_line_cannot_move_the_cursor_or_show_a_secret():
    (line,) = drawn(view(line=f"\x1b[2J\x1b]0;title\x07old\rnew {SECRET} [bold]\x00\n", age_s=40))
    assert line == "log   40 s ago: new *** [bold]"


# --- in a terminal ----------------------------------------------------------------------------------------------------


def test_a_terminal_keeps_the_steps_and_loses_the_picture(terminal, clock):
    with LiveView(terminal.console, clock=clock, auto_refresh=False) as report:
        report(Step("preflight", "begin", "14 checks"))
        clock.sleep(2)
        report(Step("preflight", "done", "all ok"))
        report(Step("patch", "skipped", "no patches"))
        report(Said("something odd", "warning"))
        report(Watched(view(ranks=loading(0.5, 0.25))))
    assert "✓ preflight  all ok  2 s\n– patch  no patches\n! something odd\n" in terminal.plain
    assert "TP1" in terminal.plain
    assert terminal.text.rstrip().endswith("\x1b[?25h")


def test_the_elapsed_time_runs_on_between_two_snapshots(terminal, clock):
    report = LiveView(terminal.console, clock=clock, auto_refresh=False)
    with report:
        report(Watched(view(at_s=10)))
        clock.sleep(5)
        terminal.console.print(report.picture())
    assert "load-weights · 15 s · /health refused · 9 processes alive" in terminal.plain


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_the_cursor_comes_back_after(error, terminal, clock):
    def wait():
        with LiveView(terminal.console, clock=clock, auto_refresh=False) as report:
            report(Watched(view()))
            raise error

    with pytest.raises(error):
        wait()
    assert terminal.text.rindex("\x1b[?25h") > terminal.text.rindex("\x1b[?25l")


def test_a_terminal_is_left_alone_while_nothing_goes_on(terminal, clock):
    with LiveView(terminal.console, clock=clock):
        pass
    assert terminal.text == ""


# --- not a terminal ---------------------------------------------------------------------------------------------------


def test_plain_lines_only_on_change_and_a_heartbeat(pipe, clock):
    with LiveView(pipe.console, Redactor([SECRET]), clock=clock, heartbeat_s=15) as report:
        report(Step("start", "begin", "run r1"))
        report(Step("start", "done", "pid 4711"))
        for second in range(41):
            clock.at_s = second
            line = f"loading {SECRET}"
            report(Watched(view(at_s=second, ranks=loading(3 / 64, 5 / 64), line=line, age_s=second)))
    assert pipe.text.splitlines() == [
        "09:58:41 start begins: run r1",
        "09:58:41 start done: pid 4711",
        "09:58:41 stage load-weights TP0 3/64 shards 5% /health refused (0 s)",
        "09:58:56 still load-weights (15 s), last log line 15 s ago: loading ***",
        "09:59:11 still load-weights (30 s), last log line 30 s ago: loading ***",
    ]


@pytest.mark.parametrize(
    ("after", "said"),
    [
        (view(ranks=loading(0.12, 0.5)), False),
        (view(ranks=loading(0.11, 0.9)), False),
        (view(ranks=loading(0.11, 0.5), line="another line"), False),
        (view(ranks=loading(0.21, 0.5)), True),
        (view(ranks=loading(0.11, 0.5), http="503"), True),
        (view(ranks=loading(0.11, 0.5), alive=8), True),
        (view(ranks=loading(0.11, 0.5), alive=10), False),
        (view(ranks=loading(0.11, 0.5), stage="kv-cache"), True),
    ],
    ids=[
        "a shard more",
        "another rank",
        "a log line",
        "a tenth more",
        "health",
        "a process less",
        "a process more",
        "next stage",
    ],
)
def test_what_is_worth_a_line(pipe, clock, after, said):
    with LiveView(pipe.console, clock=clock, heartbeat_s=15) as report:
        report(Watched(view(ranks=loading(0.11, 0.5))))
        clock.sleep(1)
        report(Watched(after))
    assert len(pipe.text.splitlines()) == 1 + said


def test_a_step_that_says_more_keeps_its_time(pipe, clock):
    with LiveView(pipe.console, clock=clock) as report:
        for text in ("SIGTERM to pid 4711", "waiting for it to drain", "SIGTERM to its session"):
            report(Step("stop", "begin", text))
            clock.sleep(10)
        report(Step("stop", "done", "nothing left"))
    assert pipe.text.splitlines() == [
        "09:58:41 stop begins: SIGTERM to pid 4711",
        "09:58:51 stop: waiting for it to drain",
        "09:59:01 stop: SIGTERM to its session",
        "09:59:11 stop done: nothing left (30 s)",
    ]


def test_small_progress_is_told_at_the_heartbeat_instead_of_still(pipe, clock):
    with LiveView(pipe.console, clock=clock, heartbeat_s=15) as report:
        report(Watched(view(ranks=loading(0.11))))
        clock.sleep(15)
        report(Watched(view(at_s=215, ranks=loading(0.125))))
    assert pipe.text.splitlines()[1] == "09:58:56 stage load-weights TP0 8/64 shards 12% /health refused (3m35s)"


def test_what_answers_wrongly_is_said_by_every_view(pipe, terminal, clock):
    wrong = view(stage="import", http="other", detail=f"no such name: {SECRET}.example")
    for screen in (pipe, terminal):
        with LiveView(screen.console, Redactor([SECRET]), clock=clock) as report:
            report(Watched(wrong))
        assert "/health an unexpected answer (no such name: ***.example)" in screen.plain
        assert SECRET not in screen.text


def test_a_pipe_gets_no_escape_codes(pipe, clock):
    with LiveView(pipe.console, clock=clock) as report:
        report(Step("preflight", "begin"))
        report(Step("preflight", "failed", "port 30000 is busy"))
        report(Watched(view(line="\x1b[31mred\x1b[0m", age_s=1)))
        clock.sleep(60)
        report(Watched(view(line="\x1b[31mred\x1b[0m", age_s=61)))
    assert "\x1b" not in pipe.text
    assert "preflight failed: port 30000 is busy" in pipe.text
    assert pipe.text.endswith("last log line 1m01s ago: red\n")


# --- a real terminal --------------------------------------------------------------------------------------------------

WAITING = """
import sys, time
from sglfab.flows.events import Step, Watched
from sglfab.model import STAGES, RankProgress, WatchView
from sglfab.report.live import LiveView
try:
    with LiveView() as report:
        report(Step("preflight", "begin"))
        report(Step("preflight", "done"))
        ranks = tuple(RankProgress(f"TP{n}", "load-weights", False, n / 8 + 0.1) for n in range(8))
        report(Watched(WatchView(1.0, "load-weights", False, ranks, "refused", "a line", 1.0, ())))
        print("watching", flush=True)
        while True:
            time.sleep(0.05)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


def read_until(fd: int, needle: bytes) -> bytes:
    seen = b""
    while needle not in seen:
        try:
            piece = os.read(fd, 65536)
        except OSError:  # Linux: EIO once the other side is closed
            break
        if not piece:
            break
        seen += piece
    return seen


def test_ctrl_c_on_a_real_terminal_gives_it_back():
    ours, theirs = pty.openpty()
    root = Path(__file__).parents[2]
    environ = {"PATH": os.environ["PATH"], "TERM": "xterm-256color", "PYTHONPATH": str(root), "LANG": "C.UTF-8"}
    child = subprocess.Popen(
        [sys.executable, "-c", WAITING], stdin=theirs, stdout=subprocess.PIPE, stderr=theirs, env=environ, cwd=root
    )
    os.close(theirs)
    try:
        seen = read_until(ours, b"slowest")
        assert child.stdout is not None
        assert child.stdout.readline() == b"watching\n"
        child.send_signal(signal.SIGINT)
        answer = child.stdout.read()
        seen += read_until(ours, b"no such text: reads until the end")
    finally:
        child.kill()
        child.wait()
        os.close(ours)
    assert answer == b"interrupted\n"
    assert "✓ preflight".encode() in seen
    assert seen.rindex(b"\x1b[?25h") > seen.rindex(b"\x1b[?25l")
