"""Apply and unapply, one file at a time: outcomes are types, and nothing is written here."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

from sglfab.patching.footer import append
from sglfab.patching.installed import DRIFTED, MISSING, OURS, PRISTINE, FileState, InstalledFile
from sglfab.patching.shapes import Missing, Site, locate
from sglfab.patching.taps import PatchSet, Tap


@dataclass(frozen=True)
class Applied:
    """`text` is to be written; original is what it comes from (a former footer of the same set is gone from it)."""

    text: str
    original: str
    sites: tuple[str, ...]


@dataclass(frozen=True)
class AlreadyApplied:
    sites: tuple[str, ...]


@dataclass(frozen=True)
class Restored:
    """`text`, to be written, is the original byte for byte."""

    text: str


@dataclass(frozen=True)
class AlreadyPristine:
    pass


@dataclass(frozen=True)
class Conflict:
    """Refused; nothing may be written. sites: what stands nearest to what was looked for, or what differs."""

    reason: str
    sites: tuple[str, ...] = ()


@dataclass(frozen=True)
class Fit:
    """How the taps of one file meet this release. absent: names of taps whose method is not in it."""

    present: tuple[Tap, ...]
    absent: tuple[str, ...]
    sites: tuple[str, ...]


def fit(text: str | None, taps: Sequence[Tap]) -> Fit | Conflict:
    """Which of `taps` the source `text` has. A required one that is not there is a Conflict with the nearest sites."""
    if text is None:
        return _without_file(taps)
    try:
        tree = _parse(text)
    except SyntaxError as why:
        return Conflict(f"the file does not parse: {why.msg}, line {why.lineno}")
    found = [(tap, locate(tree, tap.object, inherited=tap.inherited)) for tap in taps]
    for tap, place in found:
        if isinstance(place, Missing) and tap.required:
            return Conflict(f"tap {tap.tap}: {place.reason}", place.nearest)
    return Fit(
        present=tuple(tap for tap, place in found if isinstance(place, Site)),
        absent=tuple(tap.tap for tap, place in found if isinstance(place, Missing)),
        sites=tuple(f"{tap.object} (line {place.line})" for tap, place in found if isinstance(place, Site)),
    )


def apply(
    file: InstalledFile, state: FileState, patch_set: PatchSet, *, taps: Fit, modules: Sequence[str]
) -> Applied | AlreadyApplied | Conflict:
    """What patching `file` comes to. modules: every file that the set patches in this release."""
    if refusal := _refusal(file):
        return refusal
    match state.kind:
        case "pristine":
            original = file.text or ""
        case "ours" if state.footer is not None:
            if state.footer.set_name != patch_set.name:
                return Conflict(f"another patch set is applied: {state.footer.set_name} (fab unpatch-debug removes it)")
            original = state.footer.original
        case _:
            return Conflict(state.detail)
    wanted = append(original, patch_set, file.path, taps.present, modules=modules)
    return AlreadyApplied(taps.sites) if wanted == file.text else Applied(wanted, original, taps.sites)


def unapply(file: InstalledFile, state: FileState) -> Restored | AlreadyPristine | Conflict:
    """What restoring `file` comes to. A drifted footer above which every byte is the original's is cut off as well."""
    if state.kind in (PRISTINE, MISSING):
        return AlreadyPristine()
    if state.kind == OURS or (state.kind == DRIFTED and _only_the_footer_differs(file, state)):
        assert state.footer is not None
        return _refusal(file) or Restored(state.footer.original)
    return Conflict(state.detail)


def _only_the_footer_differs(file: InstalledFile, state: FileState) -> bool:
    footer = state.footer
    return footer is not None and footer.intact and file.record_sha256 in (None, footer.original_sha256)


def _refusal(file: InstalledFile) -> Conflict | None:
    if file.link:
        return Conflict(f"is a symbolic link to {file.link}, which other installs may share")
    if not file.writable:
        return Conflict(f"is not writable for you; {file.owner or 'its owner'} could do it")
    return None


def _without_file(taps: Sequence[Tap]) -> Fit | Conflict:
    if needed := next((tap for tap in taps if tap.required), None):
        return Conflict(f"tap {needed.tap}: the file is not there")
    return Fit((), tuple(tap.tap for tap in taps), ())


def _parse(text: str) -> ast.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # invalid escapes in SGLang's own strings are not our topic
        return ast.parse(text)
