"""The shipped eagle3-debug for three releases: the graph flags that each of them needs, and no others."""

from __future__ import annotations

from pathlib import Path

import pytest

from sglfab import commands, profiles
from sglfab.commands import explain_render
from sglfab.project import Project

ROOT = Path(__file__).resolve().parents[2]
BACKENDS = ["--cuda-graph-backend-decode=disabled", "--cuda-graph-backend-prefill=disabled"]


@pytest.mark.parametrize(
    ("release", "flags"),
    [
        ("0.5.9", ["--disable-cuda-graph"]),
        ("0.5.12", ["--disable-cuda-graph", "--disable-piecewise-cuda-graph"]),
        ("0.5.23", BACKENDS),
    ],
)
def test_graphs_off(release: str, flags: list[str]) -> None:
    project = Project(ROOT, environ={"HOME": "/home/op"})
    profile = profiles.load(project, "eagle3-debug")
    plan = commands.render(project, profile, release=release, release_source="--release")
    assert [word for word in plan.argv if "graph" in word] == flags
    origins = {row.name: row.origin for row in explain_render(plan, profile)}
    for flag in flags:
        assert "eagle3-debug.yaml:5: CUDA graphs off" in origins[flag.partition("=")[0]]


@pytest.mark.parametrize("release", ["0.5.9", "0.5.12", "0.5.23"])
@pytest.mark.parametrize("said", ["", "cuda_graphs: true"])
def test_graphs_left_alone(plan, release: str, said: str) -> None:
    argv = plan(f"args: {{model-path: /m}}\n{said}", release).argv
    assert not [word for word in argv if "graph" in word]


@pytest.mark.parametrize(
    "args", ["disable-cuda-graph: true", "cuda-graph-backend-decode: disabled, disable-cuda-graph: true"]
)
def test_the_flag_is_the_intent_and_stands_once(plan, args: str) -> None:
    argv = plan(f"args: {{model-path: /m, {args}}}", "0.5.23").argv
    assert [word for word in argv if "graph" in word] == BACKENDS


def test_sizes_stay_beside_the_intent(plan) -> None:
    argv = plan("args: {model-path: /m, cuda-graph-max-bs-decode: 8}\ncuda_graphs: false").argv
    assert argv[5:7] == ("--cuda-graph-max-bs-decode", "8")
