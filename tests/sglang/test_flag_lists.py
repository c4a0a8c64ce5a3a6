"""The shipped list of flags by release, and how a spelling finds its flag."""

from __future__ import annotations

from pathlib import Path

import pytest

from sglfab.project import Project
from sglfab.sglang.flags import Ambiguous, FlagFacts, read_flags


@pytest.fixture(scope="module")
def facts() -> FlagFacts:
    return read_flags(Project(Path(__file__).resolve().parents[2]))


SPELLINGS = {
    "itself": ("tp-size", "tp-size"),
    "an alias": ("tensor-parallel-size", "tp-size"),
    "an abbreviation": ("tp", "tp-size"),
    "an abbreviation that became an alias": ("ep", "ep-size"),
    "the other name of the model": ("model", "model-path"),
    "an alias of former releases": ("hierarchical-sparse-attention-extra-config", "hisparse-config"),
    "underscores": ("mem_fraction_static", "mem-fraction-static"),
    "dashes in front": ("--nccl-init-addr", "dist-init-addr"),
    "a flag that is gone": ("cuda-graph-max-bs", "cuda-graph-max-bs"),
    "an abbreviation of a flag that is gone": ("enable-ep-m", "enable-ep-moe"),
    "the longer name beside a shorter one": ("disable-cuda-graph-padding", "disable-cuda-graph-padding"),
    "a field's name cut off": ("mem_fraction", None),
    "nothing": ("", None),
    "nobody": ("mem-fractoin", None),
    "no prefix: it is longer": ("tp-size-of-all", None),
}


@pytest.mark.parametrize(("spelling", "name"), SPELLINGS.values(), ids=SPELLINGS.keys())
def test_canonical(facts: FlagFacts, spelling: str, name: str | None) -> None:
    assert facts.canonical(spelling) == name


def test_an_abbreviation_of_several_is_ambiguous(facts: FlagFacts) -> None:
    found = facts.canonical("pp")
    assert isinstance(found, Ambiguous)
    assert "pp-size" in found.candidates


# From facts/sglang.md §2.3 and §3, which were read from the wheels by somebody else.
PRESENT = {
    "tp-size in every release": ("tp-size", "0.4.6–{newest}"),
    "piecewise off": ("disable-piecewise-cuda-graph", "0.5.10–0.5.19"),
    "graph sizes until the great removal": ("cuda-graph-bs", "0.4.6–0.5.19"),
    "backends by phase": ("cuda-graph-backend-decode", "0.5.14–{newest}"),
    "config files": ("config", "0.5.3–{newest}"),
    "a second key": ("admin-api-key", "0.5.8–{newest}"),
    "nan detection until 0.5.12": ("enable-nan-detection", "0.4.6–0.5.12.post1"),
    "overlap of loading": ("startup-weight-load-mode", "0.5.18–{newest}"),
    "nothing of a name that never was": ("warp-speed", ""),
}


@pytest.mark.parametrize(("name", "releases"), PRESENT.values(), ids=PRESENT.keys())
def test_known_in(facts: FlagFacts, name: str, releases: str) -> None:
    assert facts.known_in(name) == releases.format(newest=facts.newest)


def test_shapes(facts: FlagFacts) -> None:
    now, then = facts.at("0.5.23").flags, facts.at("0.5.9").flags
    assert now["trust-remote-code"].kind == "switch"
    assert (now["tp-size"].kind, now["tp-size"].type) == ("value", "int")
    assert (now["cuda-graph-bs-decode"].kind, now["cuda-graph-bs-decode"].type) == ("list", "int")
    assert now["cuda-graph-config"].type == "json"
    assert now["lora-strict-loading"].kind == "boolean"
    assert (then["max-total-tokens"].type, now["max-total-tokens"].type) == ("int", "size")
    assert then["speculative-algorithm"].choices
    assert not now["speculative-algorithm"].choices
    assert (now["disable-cuda-graph"].deprecated, then["disable-cuda-graph"].deprecated) == (True, False)
    assert facts.at("0.5.19").flags["enable-expert-distribution-metrics"].refused
    assert facts.at("0.5.8").flags["hisparse-config"].option == "--hierarchical-sparse-attention-extra-config"
    assert facts.successor("cuda-graph-max-bs") == "--cuda-graph-max-bs-decode"


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("mem-fraction", "mem-fraction-static"),
        ("tensor-paralel-size", "tp-size"),
        ("trust-remot-code", "trust-remote-code"),
        ("speculative-eagle-top", "speculative-eagle-topk"),
        ("tp-sise", "tp-size"),
        ("warp-drive-factor", ""),
    ],
)
def test_nearest(facts: FlagFacts, wrong: str, right: str) -> None:
    near = facts.at("0.5.23").nearest(wrong)
    assert (near[0] if near else "") == right
