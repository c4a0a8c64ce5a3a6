"""Waits for the real SGLang, recorded by tools/record_waits.py: each replays to what its wait answered.

Two answers were put right afterwards: of a rank and a detokenizer that were killed as soon as they had their names, the
wait saw only what the launcher ended next, and named that.
"""

from __future__ import annotations

import io
import json
from collections import Counter
from functools import lru_cache
from pathlib import Path

import pytest
from rich.console import Console
from rich.text import Text

from sglfab.diagnosis import catalogue
from sglfab.flows.replaying import judged_again, local_record
from sglfab.model import SCHEMA, Verdict
from sglfab.project import Project
from sglfab.report.verdict import print_verdict

ROOT = Path(__file__).resolve().parents[2]
KNOWN = catalogue.load(Project(ROOT))
RECORDED = sorted(folder.name for folder in (ROOT / "tests" / "replays").iterdir())
# What a reader of the verdict acts on. Titles, advice and gaps are words that may get better.
KEPT = ("schema", "verdict", "stage", "draft", "exit", "host", "run", "profile", "url", "sglang_version")


@lru_cache(maxsize=len(RECORDED))
def replayed(name: str) -> Verdict:
    return judged_again(KNOWN, local_record(str(ROOT / "tests" / "replays" / name)))


def answered(name: str) -> dict:
    return json.loads((ROOT / "tests" / "replays" / name / "answered.json").read_text())


def test_there_are_waits_of_each_kind():
    kinds = Counter(answered(name)["verdict"] for name in RECORDED)
    assert set(kinds) == {"ready", "degraded", "crashed", "stuck", "timed_out"}
    assert len(RECORDED) >= 11
    assert all(answered(name)["schema"] == SCHEMA for name in RECORDED)


@pytest.mark.parametrize("name", RECORDED)
def test_it_replays_to_what_the_wait_answered(name):
    told, again = answered(name), replayed(name).to_json()
    assert {key: again[key] for key in KEPT} == {key: told[key] for key in KEPT}
    assert json.loads(json.dumps(again["timeline"])) == told["timeline"]
    assert cause(again) == cause(told)
    assert again["elapsed_s"] == pytest.approx(
        told["elapsed_s"], abs=1.0
    )  # how long it waits for last words may change


@pytest.mark.parametrize("name", ["cut-shard", "launcher-killed", "scheduler-killed", "detokenizer-killed"])
def test_a_crash_was_told_within_two_seconds_of_the_first_death(name):
    lines = (ROOT / "tests" / "replays" / f"crashed-{name}" / "watch.jsonl").read_text().splitlines()
    record = [json.loads(line) for line in lines]
    gone = ((line["t"], line["data"]["gone"]) for line in record if line["kind"] == "processes")
    death = next(t for t, ended in gone if any(one["role"] != "other" for one in ended))
    assert record[-1]["t"] - death <= 2.0


def cause(verdict: dict) -> tuple:
    primary = verdict["primary"]
    if primary is None:
        return (None,)
    lines = [(e["line"], e["text"]) for e in primary["evidence"] if e["source"] == "log" and e["line"]]
    return primary["id"], primary["category"], primary["rank"], primary["confidence"], lines


@pytest.mark.parametrize("colour", [True, False], ids=["in colour", "plain"])
@pytest.mark.parametrize("name", RECORDED)
def test_a_person_sees_the_timeline_within_80_columns(name, colour):
    out = io.StringIO()
    terminal = {"force_terminal": colour, "color_system": "standard" if colour else None, "force_interactive": True}
    print_verdict(replayed(name), console=Console(file=out, width=80, highlight=False, **terminal), next_command="")
    shown = Text.from_ansi(out.getvalue())
    assert [line.plain for line in shown.split() if line.cell_len > 80] == []
    assert bool(shown.spans) is colour
    began = any(span.start_s is not None for span in replayed(name).timeline)
    assert ("Timeline" in shown.plain) is began
