"""How the taps of one file meet a release: where each sits, which the release does not have, which are refused."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sglfab.patching.inserts import Spot
from sglfab.patching.inserts import locate as locate_statement
from sglfab.patching.shapes import Missing, Site, locate
from sglfab.patching.taps import PatchSet, Tap


@dataclass(frozen=True)
class Found:
    """The tap has its site. line: from 1. spot: where the line of an `insert:` tap goes."""

    tap: Tap
    line: int
    spot: Spot | None = None

    @property
    def site(self) -> str:
        beside = f", {self.tap.insert.place} `{self.tap.insert.anchor}`" if self.tap.insert else ""
        return f"{self.tap.object} (line {self.line}{beside})"


@dataclass(frozen=True)
class Absent:
    """Not in this release, and nothing says that it should be."""

    tap: Tap
    reason: str


@dataclass(frozen=True)
class Misfit:
    """It should be in this release, and is not, or not in a shape that we know. nearest: sites, best first."""

    tap: Tap
    reason: str
    nearest: tuple[str, ...] = ()


Fitting = Found | Absent | Misfit


def fit_taps(text: str | None, taps: Sequence[Tap], *, release: str) -> tuple[Fitting, ...]:
    """Each of `taps` in the source `text` (None: there is no such file) of the release."""
    if text is None:
        return tuple(_missing(tap, Missing("the file is not there"), release) for tap in taps)
    try:
        tree = parse(text)
    except (SyntaxError, ValueError) as why:
        line = f", line {why.lineno}" if isinstance(why, SyntaxError) else ""
        return tuple(Misfit(tap, f"the file does not parse: {getattr(why, 'msg', why)}{line}") for tap in taps)
    return tuple(_fit(tree, text, tap, release) for tap in taps)


def fit_set(texts: Mapping[str, str | None], patch_set: PatchSet, *, release: str) -> tuple[Fitting, ...]:
    """Each tap of a set. texts: the source of each of its files, None for one that is not there."""
    return tuple(
        fitting
        for path in patch_set.modules
        for fitting in fit_taps(texts[path], patch_set.taps_of(path), release=release)
    )


def _fit(tree: ast.Module, text: str, tap: Tap, release: str) -> Fitting:
    place = locate_statement(tree, text, tap) if tap.insert else locate(tree, tap.object, inherited=tap.inherited)
    match place:
        case Spot():
            return Found(tap, place.line, place)
        case Site():
            return Found(tap, place.line)
        case Missing():
            return _missing(tap, place, release)


def _missing(tap: Tap, place: Missing, release: str) -> Absent | Misfit:
    if not tap.belongs_to(release):
        return Absent(tap, place.reason)
    said = f", and releases {tap.span} have it" if tap.span else ""
    return Misfit(tap, place.reason + said, place.nearest)


def parse(text: str) -> ast.Module:
    """The tree of a source. Raises SyntaxError, or ValueError for a NUL in it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # invalid escapes in SGLang's own strings are not our topic
        return ast.parse(text)
