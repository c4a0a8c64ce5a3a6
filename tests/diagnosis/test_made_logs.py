"""Made logs: real message templates of many releases, labelled by hand, told through healthy starts and collectors."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from sglfab.diagnosis import catalogue, offline
from sglfab.project import Project
from sglfab.testing.madelogs.composer import make

ROOT = Path(__file__).resolve().parents[2]
PLOTS = {
    plot["id"]: plot
    for file in sorted((ROOT / "tests" / "cases" / "made").glob("*.yaml"))
    for plot in yaml.safe_load(file.read_text(encoding="utf-8"))
}
WAYS = {"lower": ("lower", "reduce", "smaller", "less"), "raise": ("raise", "increase", "higher", "larger", "more")}
OPPOSITE = {"lower": "raise", "raise": "lower"}


@lru_cache(maxsize=1)
def signatures() -> catalogue.Catalogue:
    return catalogue.load(Project(ROOT))


def says(text: str, words: tuple[str, ...]) -> bool:
    return any(re.search(rf"(?<![a-z0-9]){re.escape(word)}(?![a-z0-9])", text.lower()) for word in words)


def advice_fits(keywords: list[str], items: list[str]) -> bool:
    """As the scorer counts: one item names a keyword, with the direction that is asked for and not the other one."""
    ways = [word for word in keywords if word in WAYS]
    things = tuple(word for word in keywords if word not in WAYS)
    return any(
        says(item, things) and all(says(item, WAYS[w]) and not says(item, WAYS[OPPOSITE[w]]) for w in ways)
        for item in items
    )


def wrong(plot: dict[str, Any]) -> dict[str, object]:
    """What the diagnosis of a plot's log says differently from its label."""
    made = make(plot)
    label = {"verdict": "crashed", "draft": False, **plot["expect"]}
    got = offline.diagnose(signatures(), [made.log], path=plot["id"], sglang_version=plot["release"]).to_json()
    primary = got["primary"] or {"category": "none", "evidence": [], "advice": []}
    lines = [e["line"] for e in primary["evidence"] if e["line"] is not None]
    right = {
        "verdict": got["verdict"] == label["verdict"],
        "stage": got["stage"] in (label["stage"], *label.get("stage_alt", ())),
        "draft": got["draft"] == label["draft"],
        "category": primary["category"] in (label["category"], *label.get("category_alt", ())),
        "cause": not made.cause_lines or lines[:1] in [[n] for n in made.cause_lines],
        "noise": not set(lines[:1]) & set(made.noise_lines),
        "rank": "rank" not in label or primary.get("rank") == label["rank"],
        "advice": not label.get("advice") or advice_fits(label["advice"], primary["advice"]),
    }
    if all(right.values()):
        return {}
    seen = {"verdict": got["verdict"], "stage": got["stage"], "draft": got["draft"], "primary": got["primary"]}
    return {"wrong": [name for name, good in right.items() if not good], "got": seen, "causes": made.cause_lines}


@pytest.mark.parametrize("id_", list(PLOTS))
def test_a_made_log_is_read_right(id_: str) -> None:
    assert not wrong(PLOTS[id_])


def test_the_made_cases_cover_the_taxonomy() -> None:
    taxonomy = yaml.safe_load((ROOT / "tests" / "cases" / "taxonomy.yaml").read_text(encoding="utf-8"))
    told = {c for p in PLOTS.values() for c in (p["expect"]["category"], *p["expect"].get("category_alt", ()))}
    only_on_a_host = {"slow.storage", "slow.deepgemm_warmup", "slow.jit_first_capture"}  # never a primary finding
    assert {c["id"] for c in taxonomy["categories"]} - told - only_on_a_host == set()


def test_a_third_of_the_made_cases_is_to_be_left_alone_or_unknown() -> None:
    quiet = [p for p in PLOTS.values() if p["expect"]["category"] in ("none", "unknown")]
    assert len(quiet) * 4 >= len(PLOTS)
