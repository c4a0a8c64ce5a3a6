"""Apply, remove and explain debug patches of a host's installed SGLang."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime

from sglfab.errors import ExitCode, InputError, PatchError, SglfabError
from sglfab.flows.identity import Operator
from sglfab.model import Check, Json, PatchedFile
from sglfab.patching.installed import DRIFTED, FOREIGN, MISSING, OURS, FileState
from sglfab.patching.loading import load_patch_set
from sglfab.patching.planning import Install, Refused, ServerSeen, Writing, install_from_json, plan_apply, plan_removal
from sglfab.patching.taps import PatchSet, combine
from sglfab.project import Project
from sglfab.transports.host import Host

WRITE_TIMEOUT_S = 120.0  # byte-compiling three large files on a busy host


@dataclass(frozen=True)
class Preview:
    """What an apply or a removal would do. patch_set "": a removal."""

    install: Install
    patch_set: str
    writing: Writing

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


@dataclass(frozen=True)
class ServerPatch:
    """Whether a running server has the patch. active None: it cannot be told."""

    name: str
    active: bool | None
    why: str


@dataclass(frozen=True)
class PatchStatus:
    """state: pristine, ours, unfinished (a call was killed), or foreign (also: drifted)."""

    state: str
    root: str
    release: str
    patch_set: str
    files: tuple[PatchedFile, ...]
    servers: tuple[ServerPatch, ...]
    notes: tuple[str, ...]

    @property
    def exit_code(self) -> ExitCode:
        return ExitCode.PATCH if self.state == "foreign" else ExitCode.OK

    def to_json(self) -> Json:
        files = [{"path": f.path, "state": f.state, "detail": f.detail} for f in self.files]
        servers = [{"name": s.name, "active": s.active, "why": s.why} for s in self.servers]
        head = {"state": self.state, "root": self.root, "sglang_version": self.release, "set": self.patch_set or None}
        return {**head, "files": files, "servers": servers, "notes": list(self.notes)}


# --- the verbs --------------------------------------------------------------------------------------------------------


def preview(
    project: Project,
    host: Host,
    names: Sequence[str],
    *,
    sglang_path: str | None = None,
    replaces: Collection[str] = (),
) -> Preview:
    """What applying the sets would do. replaces: runs about to be stopped, which may still be starting.

    Raises PatchError (6) for a conflict, with nothing written; InputError for a set that is unknown or wrong.
    """
    patch_set = load(project, names)
    install = read(project, host, patch_set.modules, sglang_path=sglang_path)
    _refuse_while_starting(install, replaces)
    return Preview(install, patch_set.name, _accepted(plan_apply(install, patch_set, operator=""), install))


def preview_removal(project: Project, host: Host, *, sglang_path: str | None = None) -> Preview:
    """What restoring the files would do. Raises PatchError (6) where that cannot be done byte for byte."""
    install = read(project, host, (), sglang_path=sglang_path)
    _refuse_while_starting(install, ())
    return Preview(install, "", _accepted(plan_removal(install), install))


def checks(host: Host, seen: Preview | None) -> tuple[Check, ...]:
    """The patch line of preflight: of the sets that the profile wants, or of an install that carries none."""
    if seen is None:
        return ()
    drafts = (Check("patch-taps", "warning", f"not in this release: {', '.join(seen.absent)}"),) if seen.absent else ()
    return (Check("patch", "ok", seen.summary), *drafts)


def apply(
    project: Project,
    host: Host,
    names: Sequence[str],
    *,
    sglang_path: str | None = None,
    operator: Operator | None = None,
    replaces: Collection[str] = (),
) -> Patched:
    """Apply the sets, all files or none; idempotent. The caller holds the install lock. Raises as `preview`."""
    seen = preview(project, host, names, sglang_path=sglang_path, replaces=replaces)
    notes = _notes(seen.install)
    if seen.writing.idle:
        return _done("already-patched", seen, seen.install.manifest.to_json() if seen.install.manifest else None, notes)
    _write(host, seen, operator)
    after = install_from_json(_reread(host, seen))
    manifest = after.manifest.to_json() if after.manifest else None
    return _done("patched" if seen.changes else "already-patched", seen, manifest, notes)


def remove(
    project: Project, host: Host, *, sglang_path: str | None = None, operator: Operator | None = None
) -> Patched:
    """Restore every file byte for byte; idempotent. The caller holds the install lock. Raises as `preview_removal`."""
    seen = preview_removal(project, host, sglang_path=sglang_path)
    if not seen.writing.idle:
        _write(host, seen, operator)
    return _done("restored" if seen.changes else "already-pristine", seen, None, _notes(seen.install))


def patch_debug(
    project: Project, host: Host, names: Sequence[str], *, operator: Operator, sglang_path: str | None = None
) -> Patched:
    """`apply` under the install lock. Raises LockedError (9) as well."""
    with _locked(project, host, sglang_path, operator, "patch-debug"):
        return apply(project, host, names, sglang_path=sglang_path, operator=operator)


def unpatch_debug(project: Project, host: Host, *, operator: Operator, sglang_path: str | None = None) -> Patched:
    """`remove` under the install lock. Raises LockedError (9) as well."""
    with _locked(project, host, sglang_path, operator, "unpatch-debug"):
        return remove(project, host, sglang_path=sglang_path, operator=operator)


def status(project: Project, host: Host, *, sglang_path: str | None = None) -> PatchStatus:
    """Each file's state, and whether each running server was started with the patch."""
    install = read(project, host, (), sglang_path=sglang_path)
    states = install.states
    return PatchStatus(
        state=_overall(install, states.values()),
        root=install.root,
        release=install.release,
        patch_set=_set_name(install, states.values()),
        files=tuple(PatchedFile(path, _word(state), _detail(state)) for path, state in states.items()),
        servers=tuple(_server(server, install) for server in install.servers),
        notes=_notes(install),
    )


# --- patch sets and installs ------------------------------------------------------------------------------------------


def load(project: Project, names: Sequence[str]) -> PatchSet:
    """The named sets as one. Raises InputError patch-set-unknown, patch-set-invalid."""
    if not names:
        raise InputError("patch-set-unknown", "no patch set is named", try_=", ".join(project.names("patches")))
    return combine(tuple(_load(project, name) for name in dict.fromkeys(names)))


def _load(project: Project, name: str) -> PatchSet:
    path = project.find("patches", name)
    if path is None:
        known = ", ".join(project.names("patches"))
        raise InputError("patch-set-unknown", f"no patch set {name!r}", where="configs/patches/", try_=known)
    return load_patch_set(name, project.read(path), file=project.shown(path))


def _known_modules(project: Project) -> tuple[str, ...]:
    """Every file that any set of this project patches; a set that does not load is somebody's work in progress."""
    modules: dict[str, None] = {}
    for name in project.names("patches"):
        try:
            modules |= dict.fromkeys(_load(project, name).modules)
        except SglfabError:
            continue
    return tuple(modules)


def read(project: Project, host: Host, modules: Sequence[str], *, sglang_path: str | None) -> Install:
    """The install as the host sees it now. Raises InputError sglang-not-found."""
    files = list(dict.fromkeys([*modules, *_known_modules(project)]))
    return install_from_json(host.call("patch-read", {"sglang_path": sglang_path, "files": files}))


def _reread(host: Host, seen: Preview) -> Json:
    return host.call("patch-read", {"sglang_path": seen.install.root, "files": list(seen.changes)})


def _write(host: Host, seen: Preview, operator: Operator | None) -> None:
    manifest = seen.writing.manifest.to_json() if seen.writing.manifest else None
    who = {"operator": operator.name, "laptop": operator.laptop} if operator else {}
    if manifest is not None:
        manifest["operator"] = who.get("operator", "")
    request = {"root": seen.install.root, "files": list(seen.writing.files), "manifest": manifest, **who}
    host.call("patch-write", request, timeout_s=WRITE_TIMEOUT_S)


@contextmanager
def _locked(project: Project, host: Host, sglang_path: str | None, operator: Operator, what: str) -> Iterator[None]:
    install = read(project, host, (), sglang_path=sglang_path)
    request = {"install": f"{install.root}/sglang", "operator": operator.name, "laptop": operator.laptop, "what": what}
    with host.stream("hold-locks", request) as held:
        next(held)
        yield


# --- refusals and words -----------------------------------------------------------------------------------------------


def _accepted(plan: Writing | Refused, install: Install) -> Writing:
    if isinstance(plan, Writing):
        return plan
    first, *others = plan.conflicts.items()
    path, conflict = first
    more = "".join(f"; {other}: {reason.reason}" for other, reason in others)
    nearest = f"nearest: {', '.join(conflict.sites)}; " if conflict.sites else ""
    raise PatchError(
        "patch-conflict",
        f"{path}: {conflict.reason}{more}",
        where=f"{install.root}/sglang/{path} (SGLang {install.release})",
        try_=f"{nearest}fab patch-status; nothing was written",
    )


def _refuse_while_starting(install: Install, replaces: Collection[str]) -> None:
    busy = [server for server in install.servers if server.starting and server.run not in replaces]
    if busy:
        what = f"{busy[0].name} is starting from this install right now: half of it would import other files"
        raise PatchError(
            "patch-server-starting",
            what,
            where=install.root,
            try_="wait until it is ready (fab wait-health), or stop it",
        )


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


def _notes(install: Install) -> tuple[str, ...]:
    manifest, states = install.manifest, install.states
    notes = []
    if install.editable:
        notes.append("a source install: there is no RECORD, so only what we recorded ourselves can be compared with")
    if manifest and manifest.unfinished:
        notes.append(f"a former call was killed while {manifest.state} {manifest.set_name}")
    elif manifest and all(states[e.path].kind == "pristine" for e in manifest.entries if e.path in states):
        notes.append(f"{manifest.set_name} was applied once; SGLang was installed anew since")
    if manifest and manifest.absent:
        notes.append(f"not in this release: {', '.join(manifest.absent)}")
    return tuple(notes)


def _overall(install: Install, states: Collection[FileState]) -> str:
    kinds = {state.kind for state in states}
    if kinds & {FOREIGN, DRIFTED}:
        return "foreign"
    if install.manifest and install.manifest.unfinished:
        return "unfinished"
    if OURS not in kinds:
        return "pristine"
    patched = {path for path, state in install.states.items() if state.kind == OURS}
    named = {entry.path for entry in install.manifest.entries} if install.manifest else patched
    return "ours" if patched == named else "unfinished"


def _set_name(install: Install, states: Collection[FileState]) -> str:
    found = (state.footer.set_name for state in states if state.footer)
    return next(found, install.manifest.set_name if install.manifest and install.manifest.unfinished else "")


def _word(state: FileState) -> str:
    return FOREIGN if state.kind == DRIFTED else state.kind


def _detail(state: FileState) -> str:
    if state.kind == DRIFTED:
        return f"ours, but drifted: {state.detail}"
    return state.detail if state.kind != MISSING else "not in this release"


def _server(server: ServerSeen, install: Install) -> ServerPatch:
    patched = [file.mtime for file in install.files if install.state(file).kind == OURS]
    started = _clock(server.start_wall, install.now_wall)
    if not patched:
        return ServerPatch(server.name, False, f"server started {started}; no patch is applied")
    when = f"patched {_clock(max(patched), install.now_wall)}, server started {started}"
    if server.start_wall < max(patched):
        return ServerPatch(server.name, False, f"{when}: not active, restart")
    if server.traced is None:
        return ServerPatch(server.name, None, f"{when}; its environment is not readable for you")
    if not server.traced:
        return ServerPatch(server.name, False, f"{when}, but not to trace: inert")
    return ServerPatch(server.name, True, f"{when}, to trace")


def _clock(wall: float, now_wall: float) -> str:
    """Time of day; with the date when it was another day."""
    then, now = datetime.fromtimestamp(wall), datetime.fromtimestamp(now_wall)
    return then.strftime("%H:%M:%S" if then.date() == now.date() else "%Y-%m-%d %H:%M")


def _absent(taps: Sequence[str]) -> str:
    return f" (not in this release: {', '.join(taps)})" if taps else ""
