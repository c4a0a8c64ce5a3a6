"""A whole install against a patch set: what applying or removing it would write, or why not. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from sglfab.model import Json
from sglfab.patching.footer import sha256
from sglfab.patching.installed import DRIFTED, FOREIGN, OURS, FileState, InstalledFile, installed_from_json, state_of
from sglfab.patching.manifest import APPLIED, Entry, Manifest, manifest_from_json
from sglfab.patching.outcomes import AlreadyApplied, Applied, Conflict, Fit, Restored, apply, fit, unapply
from sglfab.patching.taps import PatchSet


@dataclass(frozen=True)
class ServerSeen:
    """A server that runs from the install. traced None: its environment is not ours to read.

    plugin: it was launched with the taps as a plugin, whatever the files hold. user: whose it is.
    """

    pid: int
    start_wall: float
    run: str | None
    starting: bool
    traced: bool | None
    plugin: bool = False
    user: str | None = None

    @property
    def name(self) -> str:
        return self.run or f"pid {self.pid}"


@dataclass(frozen=True)
class Install:
    """What `patch-read` says of one installed SGLang, judged file by file.

    editable: a source install; record: what its files are compared with all the same, "git" or None (gap: why).
    user: whom we are on that host. no_plugins: why its schedulers would load none; None: they would.
    """

    root: str
    release: str
    editable: bool
    files: tuple[InstalledFile, ...]
    manifest: Manifest | None
    servers: tuple[ServerSeen, ...]
    now_wall: float
    record: str | None = "RECORD"
    gap: str = ""
    user: str = ""
    no_plugins: str | None = None

    def state(self, file: InstalledFile) -> FileState:
        return state_of(file, self.manifest.entry(file.path) if self.manifest else None)

    def file(self, path: str) -> InstalledFile:
        return next(f for f in self.files if f.path == path)

    def source(self, path: str) -> str | None:
        """The text of a file without what we put into it; None where this release has no such file."""
        file = self.file(path)
        footer = self.state(file).footer
        return footer.original if footer else file.text

    @property
    def states(self) -> Mapping[str, FileState]:
        return {file.path: self.state(file) for file in self.files}


def install_from_json(reply: Mapping[str, Json]) -> Install:
    """Raises PatchError patch-manifest-unreadable."""
    fields = ("pid", "start_wall", "run", "starting", "traced", "plugin", "user")
    return Install(
        root=reply["root"],
        release=reply["version"] or "unknown",
        editable=reply["editable"],
        files=tuple(installed_from_json(file, reply["record"]) for file in reply["files"]),
        manifest=manifest_from_json(reply["manifest"]),
        servers=tuple(ServerSeen(**{name: server[name] for name in fields}) for server in reply["servers"]),
        now_wall=reply["now_wall"],
        record=reply["record"],
        gap=reply["gap"],
        user=reply["user"],
        no_plugins=reply["no_plugins"],
    )


@dataclass(frozen=True)
class Refused:
    """Nothing may be written: the conflict of each file that has one, by path."""

    conflicts: Mapping[str, Conflict]


@dataclass(frozen=True)
class Writing:
    """What `patch-write` is to do. manifest None: remove it. idle: nothing is to be done at all."""

    files: tuple[Json, ...]
    manifest: Manifest | None
    idle: bool
    texts: Mapping[str, tuple[str, str]]  # path → (now, then), of the files that change
    sites: Mapping[str, tuple[str, ...]]  # path → where the taps sit

    def reverse(self, former: Manifest | None) -> Writing:
        """The way back, to the texts and the manifest that were there."""
        back = {path: (then, now) for path, (now, then) in self.texts.items()}
        files = tuple({"path": p, "expect_sha256": sha256(now), "text": then} for p, (now, then) in back.items())
        return Writing(files=files, manifest=former, idle=False, texts=back, sites={})

    def diff(self) -> str:
        """As `diff -u` prints it."""
        return "".join(line for path, (now, then) in self.texts.items() for line in _diff(path, now, then))


def plan_apply(install: Install, patch_set: PatchSet, *, operator: str) -> Writing | Refused:
    """All files of the set, or the conflicts. A file that the set touched for another draft is restored."""
    fits = {path: _fit(install, patch_set, path) for path in patch_set.modules}
    conflicts = {path: found for path, found in fits.items() if isinstance(found, Conflict)}
    conflicts |= _other_set(install, patch_set)
    if conflicts:
        return Refused(conflicts)
    good = {path: found for path, found in fits.items() if isinstance(found, Fit)}
    modules = tuple(path for path, found in good.items() if found.present)
    if not modules:
        return Refused(dict.fromkeys(good, Conflict(f"no tap of {patch_set.name} is in this release")))
    outcomes = {path: _apply(install, patch_set, path, good[path], modules) for path in modules}
    former = {path: unapply(install.file(path), install.states[path]) for path in _former(install, patch_set, modules)}
    conflicts = {path: outcome for path, outcome in (outcomes | former).items() if isinstance(outcome, Conflict)}
    if conflicts:
        return Refused(conflicts)
    restored = {path: outcome.text for path, outcome in former.items() if isinstance(outcome, Restored)}
    absent = tuple(tap for f in good.values() for tap in f.absent)
    return _writing(install, patch_set, outcomes, restored=restored, absent=absent, operator=operator)


def _former(install: Install, patch_set: PatchSet, modules: Sequence[str]) -> tuple[str, ...]:
    """Files that carry this set's footer and are none of its files now."""
    ours = ((path, state.footer) for path, state in install.states.items() if state.kind == OURS and state.footer)
    return tuple(path for path, footer in ours if footer.set_name == patch_set.name and path not in modules)


def _fit(install: Install, patch_set: PatchSet, path: str) -> Fit | Conflict:
    file = install.file(path)
    state = install.state(file)
    if state.kind in (DRIFTED, FOREIGN):
        return Conflict(state.detail)
    return fit(install.source(path), patch_set.taps_of(path), release=install.release)


def _other_set(install: Install, patch_set: PatchSet) -> dict[str, Conflict]:
    """Files outside this set that carry another's footer: all of a set is there, or none of it."""
    outside = {path: state for path, state in install.states.items() if path not in patch_set.modules}
    return {
        path: Conflict(f"another patch set is applied: {state.footer.set_name if state.footer else 'unknown'}")
        for path, state in outside.items()
        if state.kind == DRIFTED or (state.kind == OURS and state.footer and state.footer.set_name != patch_set.name)
    }


def _apply(
    install: Install, patch_set: PatchSet, path: str, taps: Fit, modules: tuple[str, ...]
) -> Applied | AlreadyApplied | Conflict:
    file = install.file(path)
    return apply(file, install.state(file), patch_set, taps=taps, modules=modules)


def _writing(
    install: Install,
    patch_set: PatchSet,
    outcomes: Mapping[str, Applied | AlreadyApplied | Conflict],
    *,
    restored: Mapping[str, str],
    absent: tuple[str, ...],
    operator: str,
) -> Writing:
    changed = {path: outcome.text for path, outcome in outcomes.items() if isinstance(outcome, Applied)}
    changed.update(restored)
    entries = tuple(_entry(install.file(path), outcomes[path], install.state(install.file(path))) for path in outcomes)
    wanted = Manifest(APPLIED, patch_set.name, install.release, entries, absent=absent, operator=operator)
    former = install.manifest
    recorded = (
        former is not None
        and not former.unfinished
        and former.set_name == wanted.set_name
        and former.entries == entries
    )
    return Writing(
        files=tuple(_file(install.file(path), text) for path, text in changed.items()),
        manifest=wanted,
        idle=recorded and not changed,
        texts={path: (install.file(path).text or "", text) for path, text in changed.items()},
        sites={path: outcome.sites for path, outcome in outcomes.items() if not isinstance(outcome, Conflict)},
    )


def _entry(file: InstalledFile, outcome: Applied | AlreadyApplied | Conflict, state: FileState) -> Entry:
    if isinstance(outcome, Applied):
        return Entry(file.path, sha256(outcome.original), sha256(outcome.text))
    assert state.footer is not None
    return Entry(file.path, state.footer.original_sha256, file.sha256 or "")


def plan_removal(install: Install) -> Writing | Refused:
    """Every patched file back to its original, byte for byte, or the conflicts.

    A foreign file that the manifest does not name was never ours: it is none of our business here.
    """
    outcomes = {
        file.path: unapply(file, state)
        for file in install.files
        for state in [install.state(file)]
        if _ours(install, file, state)
    }
    conflicts = {path: outcome for path, outcome in outcomes.items() if isinstance(outcome, Conflict)}
    if conflicts:
        return Refused(conflicts)
    restored = {path: outcome.text for path, outcome in outcomes.items() if isinstance(outcome, Restored)}
    return Writing(
        files=tuple(_file(install.file(path), text) for path, text in restored.items()),
        manifest=None,
        idle=not restored and install.manifest is None,
        texts={path: (install.file(path).text or "", text) for path, text in restored.items()},
        sites={},
    )


def _ours(install: Install, file: InstalledFile, state: FileState) -> bool:
    return state.kind != FOREIGN or (install.manifest is not None and install.manifest.entry(file.path) is not None)


def _file(file: InstalledFile, text: str) -> Json:
    return {"path": file.path, "expect_sha256": file.sha256, "text": text}


def _diff(path: str, now: str, then: str) -> Iterator[str]:
    lines = (now.splitlines(keepends=True), then.splitlines(keepends=True))
    for line in difflib.unified_diff(*lines, fromfile=f"a/sglang/{path}", tofile=f"b/sglang/{path}"):
        yield line if line.endswith("\n") else line + "\n\\ No newline at end of file\n"
