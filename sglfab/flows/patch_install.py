"""The patch sets of a project, and an installed SGLang as the host sees it."""

from __future__ import annotations

from collections.abc import Sequence

from sglfab.errors import InputError, SglfabError
from sglfab.patching.loading import load_patch_set
from sglfab.patching.planning import Install, install_from_json
from sglfab.patching.taps import PatchSet, combine
from sglfab.project import Project
from sglfab.transports.host import Host


def load(project: Project, names: Sequence[str]) -> PatchSet:
    """The named sets as one, with the taps of every draft.

    Raises InputError patch-set-unknown, patch-set-invalid, patch-sets-clash.
    """
    if not names:
        known = ", ".join(project.names("patches"))
        raise InputError("patch-set-unknown", "no patch set is named", where="--patches", try_=known)
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
