"""Profiles, runs, status, preflight checks and patched files."""

from __future__ import annotations

import pytest

from sglfab.flows.status import StatusRow
from sglfab.model import Check, PatchedFile
from sglfab.profiles import Summary
from sglfab.report import tables
from sglfab.report.tables import PatchedServer

RUNS = [
    {
        "id": "eagle3-debug-20261201-095841-ab12",
        "created": 1_796_119_121.2,
        "plan": {"port": 30000},
        "alive": True,
        "exit": None,
        "operator": "alice",
    },
    {
        "id": "eagle3-20261130-055841-cd34",
        "created": 1_796_019_121.2,
        "plan": {"port": 30001},
        "alive": False,
        "exit": {"code": -9, "signal": "SIGKILL"},
        "operator": "bob",
    },
    {"id": "old", "created": None, "plan": None, "alive": False, "exit": {"code": 1, "signal": None}, "operator": None},
    {"id": "lost", "created": "2026-11-30T05:58:41.5", "plan": {}, "alive": False, "exit": None, "operator": "bob"},
]
CHECKS = [
    Check("profile", "ok", "eagle3-debug: every flag is known to SGLang 0.5.12"),
    Check(
        "model-path",
        "warning",
        "deepseek-ai/DeepSeek-R1 is no folder here: SGLang will ask the model hub",
        "set a path",
    ),
    Check("port", "blocker", "port 30000 is held by pid 4711 (root): python -m http.server", "--set port=30001"),
]


def status_row(**changes):
    values = {
        "run": "eagle3-debug-20261201-095841-ab12",
        "profile": "eagle3-debug",
        "operator": "alice",
        "port": 30000,
        "pid": 4711,
        "since": 1_796_119_121.2,
        "health": "200",
        "sglang_version": "0.5.12",
        "patches": ("eagle3-hidden-states",),
        "directory": "/x",
    }
    return StatusRow(**{**values, **changes})


def test_runs(pipe):
    tables.print_runs(RUNS, console=pipe.console)
    assert pipe.text.splitlines() == [
        "run                                started           port   state    operator",
        "eagle3-debug-20261201-095841-ab12  2026-12-01 09:58  30000  running  alice",
        "eagle3-20261130-055841-cd34        2026-11-30 06:12  30001  SIGKILL  bob",
        "old                                                         exit 1",
        "lost                               2026-11-30 05:58         gone     bob",
    ]


def test_status(pipe):
    tables.print_status(
        [status_row(), status_row(health="503", patches=(), pid=None)], console=pipe.console, host="gpu1"
    )
    assert pipe.text.splitlines() == [
        "healthy: eagle3-debug-20261201-095841-ab12 on gpu1",
        "  port 30000, pid 4711, since 2026-12-01 09:58 by alice, SGLang 0.5.12",
        "  launched with patches eagle3-hidden-states",
        "not ready: eagle3-debug-20261201-095841-ab12 on gpu1",
        "  port 30000, since 2026-12-01 09:58 by alice, SGLang 0.5.12",
    ]


@pytest.mark.parametrize(
    ("health", "word"),
    [
        ("200", "healthy"),
        ("503", "not ready"),
        ("refused", "not listening"),
        ("timeout", "no answer"),
        ("418", "/health: 418"),
    ],
)
def test_health_in_words(pipe, health, word):
    tables.print_status([status_row(health=health)], console=pipe.console)
    assert pipe.text.startswith(f"{word}: ")


@pytest.mark.parametrize(
    ("draw", "line"),
    [
        (tables.print_runs, "no runs are recorded here"),
        (tables.print_status, "no live run of ours"),
        (
            tables.print_profiles,
            "no profiles: put YAML files into configs/profiles/ or a folder named by SGLFAB_CONFIGS",
        ),
    ],
    ids=["runs", "status", "profiles"],
)
def test_an_empty_list_says_so(pipe, draw, line):
    draw([], console=pipe.console)
    assert pipe.text == line + "\n"


def test_profiles_wrap_inside_the_last_column(terminal, same_page):
    rows = [
        Summary(
            "eagle3-debug",
            "EAGLE-3 on 8 GPUs, CUDA graphs off, debug patch set on, decode log each step, unbuffered",
            "/models/DeepSeek-R1",
            8,
            ("eagle3-hidden-states",),
            "configs/profiles/eagle3-debug.yaml",
        ),
        Summary("cpu-demo", "", "/models/tiny", None, (), "configs/profiles/cpu-demo.yaml"),
        Summary("broken", "", "", None, (), "b.yaml", error="not a mapping (b.yaml:1)"),
    ]
    tables.print_profiles(rows, console=terminal.console)
    same_page("profiles", terminal.plain)


def test_that_none_of_the_runs_meant_lives_is_said(pipe):
    tables.print_status([], console=pipe.console, host="gpu1", wanted="--run nope")
    assert pipe.text == "no live run of ours on gpu1 for --run nope; all runs: fab runs\n"


def test_a_description_of_several_lines_stays_in_its_row(pipe):
    row = Summary("two", "first\nsecond\n", "/m", 1, (), "two.yaml")
    tables.print_profiles([row], console=pipe.console)
    assert pipe.text.splitlines()[1:] == [r"two      1   first\nsecond  /m · two.yaml"]


def test_checks_at_80_columns(terminal, same_page):
    tables.print_checks(CHECKS, console=terminal.console)
    same_page("preflight", terminal.plain)


@pytest.mark.parametrize(
    ("checks", "line"),
    [
        (CHECKS[:1], "preflight[ok]: 1 check, all ok"),
        (CHECKS[:2], "preflight[warning]: 2 checks, 1 warning"),
        (CHECKS, "preflight[blocker]: 3 checks, 1 blocker, 1 warning"),
        ([CHECKS[2], CHECKS[2]], "preflight[blocker]: 2 checks, 2 blockers"),
    ],
    ids=["ok", "a warning", "a blocker beats a warning", "plural"],
)
def test_the_last_line_of_checks_sums_up(pipe, checks, line):
    tables.print_checks(checks, console=pipe.console)
    assert pipe.text.splitlines()[-1] == line


def test_no_hint_below_a_check_that_is_ok(pipe):
    tables.print_checks([Check("port", "ok", "free", "not needed")], console=pipe.console)
    assert "try:" not in pipe.text


def test_patch_status(terminal, same_page):
    files = [
        PatchedFile("srt/models/deepseek_v2.py", "ours", "eagle3-hidden-states, applied 2026-12-01 10:02"),
        PatchedFile("srt/models/llama_eagle3.py", "foreign", "differs from the wheel's RECORD, no marker of ours"),
        PatchedFile("srt/layers/logits_processor.py", "pristine"),
    ]
    servers = (
        PatchedServer("eagle3-debug-1", False, "patched 10:02, server started 09:40: not active, restart"),
        PatchedServer("eagle3-debug-2", True, "started after the patch, every rank proved it"),
        PatchedServer("pid 4711", None, "its start time cannot be read"),
    )
    tables.print_patch_status(
        files,
        console=terminal.console,
        root="/opt/venv/lib/python3.11/site-packages",
        version="0.5.12",
        servers=servers,
    )
    same_page("patch-status", terminal.plain)


def test_colour_stands_only_for_meaning(terminal):
    tables.print_patch_status([PatchedFile("a.py", "pristine")], console=terminal.console)
    assert "\x1b[3" not in terminal.text


def test_no_color_is_honoured(monkeypatch):
    import io

    from rich.console import Console

    monkeypatch.setenv("NO_COLOR", "1")
    stream = io.StringIO()
    tables.print_checks(CHECKS, console=Console(file=stream, force_terminal=True, color_system="truecolor"))
    assert "\x1b[3" not in stream.getvalue()
    assert "preflight[blocker]" in stream.getvalue()
