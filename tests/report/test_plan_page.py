"""The dry run, `fab render`, and commands that can be pasted."""

from __future__ import annotations

import subprocess

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sglfab.commands import Row
from sglfab.model import Plan, SecretSource, WaitSettings
from sglfab.report.command import command_lines
from sglfab.report.plan import Effects, print_plan, print_render

PLAN = Plan(
    profile="eagle3-debug",
    release="0.5.12",
    release_source="host",
    argv=(
        "/opt/venv/bin/python",
        "-m",
        "sglang.launch_server",
        "--model-path",
        "/models/DeepSeek R1",
        "--tp-size",
        "8",
        "--trust-remote-code",
        "--json-model-override-args",
        '{"a": "it\'s"}',
        "--cuda-graph-bs",
        "1",
        "2",
        "4",
    ),
    env=(("NCCL_DEBUG", "INFO"), ("HF_TOKEN", "from-the-operator")),
    cwd="/srv",
    setup=("module load cuda",),
    ulimits=(("nofile", "65536"),),
    python="/opt/venv/bin/python",
    http_host="127.0.0.1",
    port=30000,
    tp_size=8,
    model_path="/models/DeepSeek R1",
    draft_path=None,
    patches=("eagle3-hidden-states",),
    secrets=(SecretSource("env.HF_TOKEN", env="HF_TOKEN"), SecretSource("args.api-key", command="pass show sglang")),
    wait=WaitSettings(),
    stop_grace_s=30.0,
    script="#!/bin/bash\nexport A='b'\n\nexec python -m sglang.launch_server\n",
    starter=None,
    notes=("CUDA graphs off renders to --disable-cuda-graph in 0.5.12",),
)
ROWS = (
    Row("flag", "--model-path", "/models/DeepSeek R1", "configs/profiles/deepseek-r1-tp8.yaml:7"),
    Row("flag", "--tp-size", "8", "--set"),
    Row("flag", "--trust-remote-code", "", "configs/profiles/deepseek-r1-tp8.yaml:9"),
    Row("env", "WANDB_API_KEY", "from-the-profile", "configs/profiles/deepseek-r1-tp8.yaml:12"),
    Row(
        "setting", "python", "/opt/venv/bin/python", "configs/hosts.yaml:3 (one that is named there for every profile)"
    ),
)


def test_a_dry_run_says_what_would_change(terminal, same_page):
    effects = Effects(
        stops=("run eagle3-20261201-095841-ab12 (port 30000, pid 4711)",),
        patches=("deepseek_v2.py", "llama_eagle3.py in /opt/venv/lib/python3.11/site-packages/sglang/srt/models"),
    )
    print_plan(PLAN, effects, console=terminal.console, host="gpu1")
    same_page("plan", terminal.plain)


def test_a_dry_run_that_stops_and_patches_nothing_says_so(pipe):
    print_plan(PLAN, Effects(), console=pipe.console, host="local")
    lines = pipe.text.splitlines()
    assert "  would stop   nothing" in lines
    assert "  would patch  nothing" in lines
    assert "  would start  eagle3-debug on port 30000, for SGLang 0.5.12 (as installed on the host)" in lines


def test_a_secret_in_a_plan_is_not_shown(pipe):
    print_plan(PLAN, Effects(), console=pipe.console, host="local")
    assert "from-the-operator" not in pipe.text
    assert "HF_TOKEN=***" in pipe.text


def test_render_at_80_columns(terminal, same_page):
    print_render(ROWS, console=terminal.console, plan=PLAN)
    same_page("render", terminal.plain)


def test_render_in_a_pipe_is_one_row_a_value(pipe):
    print_render(ROWS[:4], console=pipe.console)
    assert pipe.text.splitlines() == [
        "",
        "flag                 value                from",
        "--model-path         /models/DeepSeek R1  configs/profiles/deepseek-r1-tp8.yaml:7",
        "--tp-size            8                    --set",
        "--trust-remote-code                       configs/profiles/deepseek-r1-tp8.yaml:9",
        "",
        "variable       value  from",
        "WANDB_API_KEY  ***    configs/profiles/deepseek-r1-tp8.yaml:12",
    ]


@pytest.mark.parametrize("screen", ["pipe", "terminal"])
def test_a_value_of_several_lines_stays_in_its_row(screen, request):
    shown = request.getfixturevalue(screen)
    row = Row("env", "SCRIPT", "first\nsecond\r\nthird", "p.yaml:3")
    print_render((row, Row("env", "B", "1", "p.yaml:4")), console=shown.console)
    rows = [" ".join(line.split()) for line in shown.plain.splitlines() if line.strip()]
    assert rows == ["variable value from", r"SCRIPT first\nsecond\r\nthird p.yaml:3", "B 1 p.yaml:4"]


def test_an_assumed_release_is_marked(pipe):
    from dataclasses import replace

    print_render(ROWS, console=pipe.console, plan=replace(PLAN, release_source="assumed"))
    assert pipe.text.splitlines()[0] == "eagle3-debug for SGLang 0.5.12 (assumed: the newest known)"


@pytest.mark.parametrize(
    ("argv", "lines"),
    [
        (["python", "-m", "x"], ("python -m x",)),
        (["python", "--a", "1", "2", "--b"], ("python \\", "    --a 1 2 \\", "    --b")),
        (["--a", "x y"], ("--a 'x y'",)),
        ([], ()),
    ],
    ids=["no flags", "flags", "only a flag", "nothing"],
)
def test_command_lines(argv, lines):
    assert command_lines(argv) == lines


@settings(max_examples=40, deadline=None)
@given(st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",)), max_size=12), max_size=8))
@example(["", "--"])
@example(["a\\", "--b", "\\\n", "--c='"])
def test_a_shell_reads_the_same_words(argv):
    script = "set -- x " + "\n".join(command_lines(argv)) + "\nshift; for word; do printf '%s\\0' \"$word\"; done"
    done = subprocess.run(["sh"], input=script.encode(), capture_output=True, check=True)
    assert done.stdout.decode().split("\0")[:-1] == argv
