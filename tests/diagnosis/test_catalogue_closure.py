"""Every signature proves itself: by its own samples, by its near misses, and against the samples of all others."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path

import pytest
import yaml

from sglfab.diagnosis import catalogue, offline
from sglfab.diagnosis.signature import Signature
from sglfab.model import STAGES, Verdict
from sglfab.project import Project

ROOT = Path(__file__).resolve().parents[2]
TAXONOMY = {c["id"] for c in yaml.safe_load((ROOT / "tests/cases/taxonomy.yaml").read_text())["categories"]}


@lru_cache(maxsize=1)
def full() -> catalogue.Catalogue:
    return catalogue.load(Project(ROOT))


def judged(text: str) -> Verdict:
    return offline.diagnose(full(), [text.encode()], path="sample")


def ids(kind: str) -> list[tuple[str, int]]:
    return [(s.id, n) for s in full().signatures.values() for n in range(len(s.extra.get(kind, ())))]


def found_in(verdict: Verdict) -> set[str]:
    return {f.id for f in verdict.findings} | ({verdict.primary.id} if verdict.primary else set())


@pytest.mark.parametrize(("id_", "number"), ids("samples"))
def test_a_sample_is_its_signatures_own(id_: str, number: int) -> None:
    signature = full()[id_]
    verdict = judged(signature.extra["samples"][number])
    if signature.severity == "info":
        assert id_ in found_in(verdict)
        assert verdict.primary is None
        return
    assert verdict.primary is not None, verdict
    assert verdict.primary.id == id_
    assert verdict.primary.category == signature.category
    assert "…" not in verdict.primary.title
    assert verdict.primary.advice
    assert all(a.strip() and "…" not in a and "[[" not in a for a in verdict.primary.advice)


@pytest.mark.parametrize(("id_", "number"), ids("near_misses"))
def test_a_near_miss_stays_silent(id_: str, number: int) -> None:
    verdict = judged(full()[id_].extra["near_misses"][number])
    assert verdict.primary is None or verdict.primary.id != id_


@pytest.mark.parametrize("id_", list(full().signatures))
def test_every_pattern_is_hit_by_a_sample(id_: str) -> None:
    signature = full()[id_]
    lines = [line for sample in signature.extra.get("samples", ()) for line in sample.split("\n")]
    for pattern in (*signature.patterns, *signature.when.also):
        hit = [line for line in lines if any(n in line for n in pattern.needles) and _search(pattern.compiled, line)]
        assert hit, f"{id_}: no sample holds {pattern.regex or pattern.needles}"


def _search(compiled: re.Pattern[str], line: str) -> bool:
    bare = re.sub(r"^(?:\w{3} \d+ \S+ \S+ \S+: )?(?:\[[^\]]*\] )?", "", line)
    return compiled.search(bare) is not None or compiled.search(line) is not None


@pytest.mark.parametrize("id_", list(full().signatures))
def test_a_signature_is_complete(id_: str) -> None:
    signature = full()[id_]
    assert signature.category in TAXONOMY
    assert signature.category != "none"
    assert signature.stage is None or signature.stage in STAGES
    assert signature.explanation
    assert signature.wrong_when
    if signature.patterns:
        assert len(signature.extra["samples"]) >= 2
        assert len(signature.extra["near_misses"]) >= 1
    _templates_fill(signature)


def _templates_fill(signature: Signature) -> None:
    named = {g.rstrip("0123456789") for p in (*signature.patterns, *signature.when.also) for g in p.compiled.groupindex}
    for template in (signature.title, *(a.say for a in signature.advice)):
        template.format_map(dict.fromkeys(named | {"ranks", "stage", "patches", "count", "pids"}, "x"))


def test_the_catalogue_covers_the_taxonomy() -> None:
    covered = {s.category for s in full().signatures.values()}
    assert TAXONOMY - covered == {"none"}


def test_nobody_yields_in_a_circle() -> None:
    signatures = full().signatures

    def reach(id_: str, seen: frozenset[str]) -> None:
        assert id_ not in seen, f"{id_} yields to itself through {sorted(seen)}"
        for other in signatures[id_].yields_to:
            reach(other, seen | {id_})

    for id_ in signatures:
        reach(id_, frozenset())
