"""What an install carries, and whether the servers that run from it have it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from sglfab.errors import ExitCode
from sglfab.flows.patch_install import read
from sglfab.model import Json, PatchedFile
from sglfab.patching.installed import DRIFTED, FOREIGN, MISSING, OURS, FileState
from sglfab.patching.planning import Install, ServerSeen
from sglfab.project import Project
from sglfab.transports.host import Host

# The kernel tells a process's start in ticks of 10 ms, rounded down; the model files are imported seconds later.
START_PRECISION_S = 0.02


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
        notes=notes_of(install),
    )


def notes_of(install: Install) -> tuple[str, ...]:
    manifest, states = install.manifest, install.states
    notes: list[str] = []
    if install.record == "git":
        notes.append("a source install: its files are compared with HEAD of its git tree")
    elif install.editable:
        what = f"there is neither RECORD nor a git tree ({install.gap})"
        notes.append(f"a source install: {what}, so only what we recorded ourselves can be compared with")
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
    if server.plugin and server.traced:
        return ServerPatch(server.name, True, f"server started {started} with the taps as a plugin, to trace")
    if not patched:
        return ServerPatch(server.name, False, f"server started {started}; no patch is applied")
    when = f"patched {_clock(max(patched), install.now_wall)}, server started {started}"
    if server.start_wall + START_PRECISION_S < max(patched):
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
