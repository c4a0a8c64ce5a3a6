"""YAML → Profile: inheritance, merge, the origin of every value. `load`, `names`, `summaries`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sglfab.errors import InputError
from sglfab.model import Profile
from sglfab.profiles.building import build
from sglfab.profiles.files import Reader, Resolved, is_path, locate, names
from sglfab.profiles.merging import merge
from sglfab.profiles.settings import layer_of
from sglfab.project import Project
from sglfab.sglang.flags import read_flags

__all__ = ["Summary", "load", "names", "summaries"]


@dataclass(frozen=True)
class Summary:
    """A row of `fab profiles`. error: why it cannot be used, with file:line; "" for a good one."""

    name: str
    description: str
    model: str
    tp: int | None
    patches: tuple[str, ...]
    file: str
    error: str = ""


def load(project: Project, name: str, *, sets: Sequence[str] = ()) -> Profile:
    """The profile of that name, or of that YAML file, with each KEY=VALUE of `sets` on top.

    Raises InputError with file:line and the closest known name.
    """
    reader = Reader(project, read_flags(project))
    path = locate(project, name)
    resolved = reader.resolve(path)
    for text in sets:
        layer = reader.checked(layer_of(text, reader.facts))
        resolved = Resolved(merge(resolved.tree, layer), resolved.files)
    return build(Path(name).stem if is_path(name) else name, resolved)


def summaries(project: Project) -> tuple[Summary, ...]:
    """Every profile, the team's own before the shipped ones, the broken ones with their error."""
    folders = project.folders("profiles")
    by_folder = sorted(names(project), key=lambda name: folders.index(locate(project, name).parent))
    return tuple(_summary(project, name) for name in by_folder)


def _summary(project: Project, name: str) -> Summary:
    file = project.shown(locate(project, name))
    try:
        profile = load(project, name)
    except InputError as why:
        return Summary(name, "", "", None, (), file, error=f"{why.what} ({why.where})" if why.where else why.what)
    if not profile.args.get("model-path"):
        no_model = f"no model (args.model-path); a part for others to extend is called _{name}"
        return Summary(name, profile.description, "", None, profile.patches, file, error=f"{no_model} ({file})")
    tp = profile.args.get("tp-size", 1)
    return Summary(
        name=name,
        description=profile.description,
        model=str(profile.args.get("model-path", "")),
        tp=int(tp) if str(tp).isdecimal() else None,
        patches=profile.patches,
        file=file,
    )
