"""Apply and remove debug patches of a host's installed SGLang."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from sglfab.flows.identity import Operator
from sglfab.flows.patch_draft import choose, left_out
from sglfab.flows.patch_install import load, read
from sglfab.flows.patch_plugin import PluginPreview
from sglfab.flows.patch_refusal import conflict, refuse_while_starting, shared_note
from sglfab.flows.patch_status import PatchStatus, ServerPatch, notes_of, status
from sglfab.model import Check, Json
from sglfab.patching.planning import Install, Refused, Writing, install_from_json, plan_apply, plan_removal
from sglfab.project import Project
from sglfab.transports.host import Host

__all__ = [
    "PatchStatus",
    "Patched",
    "Preview",
    "ServerPatch",
    "apply",
    "checks",
    "patch_debug",
    "preview",
    "preview_removal",
]
__all__ += ["remove", "status", "unpatch_debug"]

WRITE_TIMEOUT_S = 120.0  # byte-compiling three large files on a busy host


@dataclass(frozen=True)
class Preview:
    """What an apply or a removal would do. patch_set "": a removal."""

    install: Install
    patch_set: str
    writing: Writing
    notes: tuple[str, ...] = ()

    @property
    def changes(self) -> tuple[str, ...]:
        """The files that would be written."""
        return tuple(self.writing.texts)

    @property
    def diff(self) -> str:
        return self.writing.diff()

    @property
    def absent(self) -> tuple[str, ...]:
        """Taps whose method this release does not have."""
        return self.writing.manifest.absent if self.writing.manifest else ()

    @property
    def summary(self) -> str:
        """One line: what would happen, or why nothing would."""
        where = f"SGLang {self.install.release} in {self.install.root}"
        if not self.patch_set:
            return (
                f"{len(self.changes)} files to restore, {where}" if self.changes else f"nothing of ours is in {where}"
            )
        state = f"{len(self.changes)} files to patch" if self.changes else "applied already"
        return f"{self.patch_set}: {state}, {where}{_absent(self.absent)}"


@dataclass(frozen=True)
class Patched:
    """What was done. verb: patched, already-patched, restored or already-pristine. manifest None after a removal."""

    verb: str
    root: str
    release: str
    patch_set: str
    files: tuple[str, ...]
    absent: tuple[str, ...]
    manifest: Json
    notes: tuple[str, ...] = ()

    @property
    def summary(self) -> str:
        name = f"{self.patch_set}: " if self.patch_set else ""
        count = f" {len(self.files)} files" if self.files else ""
        return f"{name}{self.verb.replace('-', ' ')}{count}, SGLang {self.release} in {self.root}{_absent(self.absent)}"

    def to_json(self) -> Json:
        listed = {"files": list(self.files), "absent": list(self.absent), "notes": list(self.notes)}
        return {
            "verb": self.verb,
            "root": self.root,
            "sglang_version": self.release,
            "set": self.patch_set or None,
            **listed,
        }


def preview(
    project: Project,
    host: Host,
    names: Sequence[str],
    *,
    sglang_path: str | None = None,
    replaces: Collection[str] = (),
    draft: Sequence[str] = (),
) -> Preview:
    """What applying the sets would do. replaces: runs about to be stopped, which may still be starting.

    draft: architectures of the draft that will run: some taps are for certain drafts only. Empty: not known.

    Raises PatchError (6) for a conflict, with nothing written; InputError for a set that is unknown or wrong.
    """
    every = load(project, names)
    install = read(project, host, every.modules, sglang_path=sglang_path)
    refuse_while_starting(install, replaces)
    patch_set = choose(every, draft)
    writing = _accepted(plan_apply(install, patch_set, operator=""), install)
    others = any(install.source(path) is not None for path in every.modules if path not in patch_set.modules)
    notes = (f"{left_out(every)} (--draft DIR, or --profile)",) if others and not draft else ()
    return Preview(install, every.name, writing, notes)


def preview_removal(project: Project, host: Host, *, sglang_path: str | None = None) -> Preview:
    """What restoring the files would do. Raises PatchError (6) where that cannot be done byte for byte."""
    install = read(project, host, (), sglang_path=sglang_path)
    refuse_while_starting(install, ())
    return Preview(install, "", _accepted(plan_removal(install), install))


def checks(seen: Preview | PluginPreview | None) -> tuple[Check, ...]:
    """The patch line of preflight: of the sets that the profile wants, or of an install that carries none."""
    if seen is None:
        return ()
    drafts = (Check("patch-taps", "warning", f"not in this release: {', '.join(seen.absent)}"),) if seen.absent else ()
    notes = shared_note(seen.install) if isinstance(seen, Preview) else ()
    shared = (Check("patch-shared", "warning", note) for note in notes)
    return (Check("patch", "ok", seen.summary), *drafts, *shared)


def apply(
    project: Project,
    host: Host,
    names: Sequence[str],
    *,
    sglang_path: str | None = None,
    operator: Operator | None = None,
    replaces: Collection[str] = (),
    draft: Sequence[str] = (),
) -> Patched:
    """Apply the sets, all files or none; idempotent. The caller holds the install lock. Raises as `preview`."""
    seen = preview(project, host, names, sglang_path=sglang_path, replaces=replaces, draft=draft)
    return carry_out(host, seen, operator)


def carry_out(host: Host, seen: Preview, operator: Operator | None) -> Patched:
    """Write what a preview of an apply showed. The caller holds the install lock. Raises PatchError (6)."""
    notes = (*notes_of(seen.install), *seen.notes, *shared_note(seen.install))
    if seen.writing.idle:
        return _done("already-patched", seen, seen.install.manifest.to_json() if seen.install.manifest else None, notes)
    _write(host, seen, operator)
    after = install_from_json(_reread(host, seen))
    manifest = after.manifest.to_json() if after.manifest else None
    return _done("patched" if seen.changes else "already-patched", seen, manifest, notes)


def take_back(host: Host, seen: Preview, operator: Operator | None) -> None:
    """Undo what `carry_out` wrote: the files and the manifest as the preview saw them. Raises PatchError (6)."""
    _write(host, replace(seen, writing=seen.writing.reverse(seen.install.manifest)), operator)


def remove(
    project: Project, host: Host, *, sglang_path: str | None = None, operator: Operator | None = None
) -> Patched:
    """Restore every file byte for byte; idempotent. The caller holds the install lock. Raises as `preview_removal`."""
    seen = preview_removal(project, host, sglang_path=sglang_path)
    if not seen.writing.idle:
        _write(host, seen, operator)
    return _done("restored" if seen.changes else "already-pristine", seen, None, notes_of(seen.install))


def patch_debug(
    project: Project,
    host: Host,
    names: Sequence[str],
    *,
    operator: Operator,
    sglang_path: str | None = None,
    draft: Sequence[str] = (),
) -> Patched:
    """`apply` under the install lock. Raises LockedError (9) as well."""
    with locked(project, host, sglang_path, operator, "patch-debug"):
        return apply(project, host, names, sglang_path=sglang_path, operator=operator, draft=draft)


def unpatch_debug(project: Project, host: Host, *, operator: Operator, sglang_path: str | None = None) -> Patched:
    """`remove` under the install lock. Raises LockedError (9) as well."""
    with locked(project, host, sglang_path, operator, "unpatch-debug"):
        return remove(project, host, sglang_path=sglang_path, operator=operator)


def _reread(host: Host, seen: Preview) -> Json:
    return host.call("patch-read", {"sglang_path": seen.install.root, "files": list(seen.changes)})


def _write(host: Host, seen: Preview, operator: Operator | None) -> None:
    manifest = seen.writing.manifest.to_json() if seen.writing.manifest else None
    who = {"operator": operator.name, "laptop": operator.laptop} if operator else {}
    if manifest is not None:
        manifest["operator"] = manifest["operator"] or who.get("operator", "")  # taken back: it stays another's
    request = {"root": seen.install.root, "files": list(seen.writing.files), "manifest": manifest, **who}
    host.call("patch-write", request, timeout_s=WRITE_TIMEOUT_S)


@contextmanager
def locked(project: Project, host: Host, sglang_path: str | None, operator: Operator, what: str) -> Iterator[None]:
    """Hold the install lock. Raises LockedError (9)."""
    install = read(project, host, (), sglang_path=sglang_path)
    request = {"install": f"{install.root}/sglang", "operator": operator.name, "laptop": operator.laptop, "what": what}
    with host.stream("hold-locks", request) as held:
        next(held)
        yield


def _accepted(plan: Writing | Refused, install: Install) -> Writing:
    if isinstance(plan, Refused):
        raise conflict(plan, install)
    return plan


def _done(verb: str, seen: Preview, manifest: Json, notes: tuple[str, ...]) -> Patched:
    return Patched(
        verb=verb,
        root=seen.install.root,
        release=seen.install.release,
        patch_set=seen.patch_set,
        files=seen.changes,
        absent=seen.absent,
        manifest=manifest,
        notes=notes,
    )


def _absent(taps: Sequence[str]) -> str:
    return f" (not in this release: {', '.join(taps)})" if taps else ""
