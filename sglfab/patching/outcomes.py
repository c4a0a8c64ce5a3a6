"""Apply and unapply, one file at a time: outcomes are types, and nothing is written here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sglfab.patching.fitting import Absent, Found, Misfit, fit_taps
from sglfab.patching.footer import append
from sglfab.patching.inserts import Spot
from sglfab.patching.installed import DRIFTED, MISSING, OURS, PRISTINE, FileState, InstalledFile
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
    """Misfit; nothing may be written. sites: what stands nearest to what was looked for, or what differs."""

    reason: str
    sites: tuple[str, ...] = ()


@dataclass(frozen=True)
class Fit:
    """How the taps of one file meet this release. absent: names of taps that are not in it."""

    present: tuple[Tap, ...]
    absent: tuple[str, ...]
    sites: tuple[str, ...]
    spots: tuple[Spot, ...] = ()


def fit(text: str | None, taps: Sequence[Tap], *, release: str) -> Fit | Conflict:
    """Which of `taps` the source `text` has. A Conflict names one that should be there, and the nearest sites."""
    fitted = fit_taps(text, taps, release=release)
    for one in fitted:
        if isinstance(one, Misfit):
            return Conflict(f"tap {one.tap.tap}: {one.reason}", one.nearest)
    found = [one for one in fitted if isinstance(one, Found)]
    return Fit(
        present=tuple(one.tap for one in found),
        absent=tuple(one.tap.tap for one in fitted if isinstance(one, Absent)),
        sites=tuple(one.site for one in found),
        spots=tuple(one.spot for one in found if one.spot),
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
    try:
        wanted = append(original, patch_set, file.path, taps.present, modules=modules, spots=taps.spots)
    except ValueError as why:
        return Conflict(str(why), taps.sites)
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
    if file.read_only:
        return Conflict("lies on a file system that is mounted read-only")
    if not file.writable:
        owner = file.owner or "its owner"
        return Conflict(f"is not writable for you (mode {file.mode:04o}, of {owner}): {owner} could do it")
    return None
