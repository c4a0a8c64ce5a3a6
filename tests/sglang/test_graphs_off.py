""" "CUDA graphs off" in the flags of each release, and flags that say the opposite."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sglfab.project import Project
from sglfab.sglang.flags import FlagFacts, read_flags
from sglfab.sglang.graphs import contradictions, off_flags

OLD = {"disable-cuda-graph": True}
PIECEWISE = {"disable-cuda-graph": True, "disable-piecewise-cuda-graph": True}
BACKENDS = {"cuda-graph-backend-decode": "disabled", "cuda-graph-backend-prefill": "disabled"}


@pytest.fixture(scope="module")
def facts() -> FlagFacts:
    return read_flags(Project(Path(__file__).resolve().parents[2]))


@pytest.mark.parametrize(
    ("release", "flags"),
    [
        ("0.4.6", OLD),
        ("0.5.9", OLD),
        ("0.5.10rc1", PIECEWISE),
        ("0.5.10", PIECEWISE),
        ("0.5.12", PIECEWISE),
        ("0.5.13.post1", PIECEWISE),
        ("0.5.14", BACKENDS),
        ("0.5.19", BACKENDS),
        ("0.5.20", BACKENDS),
        ("0.5.23", BACKENDS),
        ("0.9.0", BACKENDS),
    ],
)
def test_off(facts: FlagFacts, release: str, flags: dict[str, Any]) -> None:
    assert off_flags(facts.at(release)) == flags


CASES: dict[str, tuple[dict[str, Any], bool | None, list[str]]] = {
    "a backend against off": ({"cuda-graph-backend-decode": "full"}, False, ["cuda-graph-backend-decode"]),
    "a prefill backend against off": (
        {"cuda-graph-backend-prefill": "breakable"},
        False,
        ["cuda-graph-backend-prefill"],
    ),
    "piecewise against off": ({"enable-piecewise-cuda-graph": True}, False, ["enable-piecewise-cuda-graph"]),
    "a config against off": ({"cuda-graph-config": {"decode": {"backend": "full"}}}, False, ["cuda-graph-config"]),
    "off against on": ({"disable-decode-cuda-graph": True}, True, ["disable-decode-cuda-graph"]),
    "a disabled backend against on": ({"cuda-graph-backend-decode": "disabled"}, True, ["cuda-graph-backend-decode"]),
    "a disabled config against on": (
        {"cuda-graph-config": {"decode": {"backend": "disabled"}}},
        True,
        ["cuda-graph-config"],
    ),
    "sizes say nothing": (
        {"cuda-graph-max-bs": 8, "cuda-graph-bs": [1, 2], "disable-cuda-graph-padding": True},
        False,
        [],
    ),
    "a config of sizes says nothing": ({"cuda-graph-config": {"decode": {"max_bs": 8}}}, False, []),
    "off twice": ({"disable-piecewise-cuda-graph": True, "cuda-graph-backend-decode": "disabled"}, False, []),
    "a switch that is not set": ({"enable-piecewise-cuda-graph": False}, False, []),
    "prefill alone off": ({"cuda-graph-backend-prefill": "disabled"}, True, []),
    "no intent": ({"cuda-graph-backend-decode": "full", "disable-decode-cuda-graph": True}, None, []),
}


@pytest.mark.parametrize(("args", "wanted", "flags"), CASES.values(), ids=CASES.keys())
def test_contradictions(args: dict[str, Any], wanted: bool | None, flags: list[str]) -> None:
    assert [found.flag for found in contradictions(args, wanted=wanted)] == flags
