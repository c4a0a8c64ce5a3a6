"""Releases in order, and which known one speaks for another."""

from __future__ import annotations

from pathlib import Path

import pytest

from sglfab.errors import InputError
from sglfab.project import Project
from sglfab.sglang.releases import asked, basis, in_order, newest_known, parse

PROJECT = Project(Path(__file__).resolve().parents[2])
KNOWN = ("0.4.6", "0.5.9", "0.5.10", "0.5.12", "0.5.12.post1", "0.5.13")


def test_order() -> None:
    mixed = ["0.5.10", "0.5.9", "0.5.12.post1", "0.5.12", "0.5.12rc1", "0.4.10"]
    assert in_order(mixed) == ("0.4.10", "0.5.9", "0.5.10", "0.5.12rc1", "0.5.12", "0.5.12.post1")


CASES = {
    "a known one speaks for itself": ("0.5.12", "0.5.12", "same"),
    "a post has its own list": ("0.5.12.post1", "0.5.12.post1", "same"),
    "a local build is that release": ("0.5.12+cu129", "0.5.12", "same"),
    "a candidate is judged as its final": ("0.5.10rc0", "0.5.10", "between"),
    "a development version too": ("0.5.12.dev3+gabc", "0.5.12", "between"),
    "an unknown post goes with the nearest lower": ("0.5.10.post9", "0.5.10", "between"),
    "one in a hole goes with the nearest lower": ("0.5.11", "0.5.10", "between"),
    "newer than all": ("0.5.24", "0.5.13", "newer"),
    "a candidate newer than all": ("0.6.0rc1", "0.5.13", "newer"),
    "older than all": ("0.3.0", "0.4.6", "older"),
}


@pytest.mark.parametrize(("wanted", "release", "relation"), CASES.values(), ids=CASES.keys())
def test_basis(wanted: str, release: str, relation: str) -> None:
    found = basis(wanted, KNOWN)
    assert (found.release, found.relation) == (release, relation)
    assert (found.note() is None) == (relation == "same")
    assert found.note() is None or (wanted in str(found.note()) and release in str(found.note()))


@pytest.mark.parametrize("text", ["", "latest", "v", "0.5.x", "0.5.12 or so"])
def test_no_release(text: str) -> None:
    with pytest.raises(InputError) as caught:
        parse(text)
    assert caught.value.code == "bad-release"


@pytest.mark.parametrize(
    ("text", "release"), [("v0.5.12", "0.5.12"), (" 0.5.12.post1 ", "0.5.12.post1"), ("0.5.99", "0.5.99")]
)
def test_a_release_that_was_typed_is_spelled_as_sglang_does(text: str, release: str) -> None:
    assert asked(PROJECT, text) == release


@pytest.mark.parametrize(
    ("text", "code"), [("0.0.1", "release-unknown"), ("0.4.5", "release-unknown"), ("", "bad-release")]
)
def test_a_release_that_fab_knows_nothing_of_is_refused(text: str, code: str) -> None:
    with pytest.raises(InputError) as caught:
        asked(PROJECT, text)
    assert (caught.value.code, caught.value.where) == (code, "--release")
    assert caught.value.try_.startswith("--release 0.")


def test_the_newest_known_is_one_that_was_read() -> None:
    assert parse(newest_known(PROJECT)) >= parse("0.5.23")
