"""Which file a profile's name means, and the layers that it builds on."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sglfab.errors import InputError
from sglfab.model import Origin
from sglfab.profiles.checking import check
from sglfab.profiles.expansion import expand
from sglfab.profiles.merging import EMPTY, merge
from sglfab.profiles.secret_words import refuse_literals
from sglfab.profiles.spelling import canonical_layer
from sglfab.profiles.yamltree import Items, Leaf, Table, parse
from sglfab.project import Project
from sglfab.sglang.flags import FlagFacts

SUFFIXES = (".yaml", ".yml")


@dataclass(frozen=True)
class Resolved:
    """A profile with everything that it extends. files: as an operator would type them, the profile's own last."""

    tree: Table
    files: tuple[str, ...]


def names(project: Project) -> tuple[str, ...]:
    """The profiles that can be launched: a name that begins with `_` is a part for others to extend."""
    return tuple(name for name in project.names("profiles") if not name.startswith("_"))


def is_path(name: str) -> bool:
    return "/" in name or name.endswith(SUFFIXES)


def locate(project: Project, name: str, where: str = "--profile") -> Path:
    """The file of a profile by name or path. Raises InputError profile-unknown with the closest name."""
    path = project.typed(name) if is_path(name) else project.find("profiles", name)
    if path is not None and project.has(path):
        return path
    what = f"there is no profile '{name}'" if path is None else f"no such file: {name}"
    raise InputError("profile-unknown", what, where=where, try_=_nearest(name, project) or "fab profiles")


def _nearest(name: str, project: Project) -> str | None:
    """The known name most like it, whatever its case; of a path, most like the file's."""
    wanted = name.rstrip("/").rpartition("/")[2].lower()
    for suffix in SUFFIXES:
        wanted = wanted.removesuffix(suffix)
    known = {known.lower(): known for known in names(project)}
    near = difflib.get_close_matches(wanted, known, n=1, cutoff=0.4)
    return known[near[0]] if near else None


@dataclass(frozen=True)
class Reader:
    project: Project
    facts: FlagFacts

    def resolve(self, path: Path, trail: tuple[tuple[Path, Origin], ...] = ()) -> Resolved:
        """The merged layers of a file. trail: the files that led here, with the line of their `extends`."""
        layer = self.layer(path)
        merged = EMPTY
        files: tuple[str, ...] = ()
        for name, origin in _extends(layer):
            parent = self._parent(path, name, origin)
            step = (*trail, (path, origin))
            _refuse_cycle(self.project, parent, step)
            resolved = self.resolve(parent, step)
            merged = merge(merged, resolved.tree)
            files += tuple(f for f in resolved.files if f not in files)
        return Resolved(merge(merged, layer.without("extends")), (*files, self.project.shown(path)))

    def layer(self, path: Path) -> Table:
        """One file, checked and in canonical names."""
        shown = self.project.shown(path)
        return self.checked(parse(self.project.read(path), shown))

    def checked(self, tree: Table) -> Table:
        check(tree)
        layer = canonical_layer(_expanded(tree, self.project), self.facts)
        refuse_literals(layer)
        return layer

    def _parent(self, child: Path, name: str, origin: Origin) -> Path:
        """By path beside the child, or by name; a team's `eagle3` that extends `eagle3` means the one it hides."""
        if is_path(name):
            beside = child.parent / self.project.typed(name)
            return beside if self.project.has(beside) else locate(self.project, name, str(origin))
        hidden = [f for d in self.project.folders("profiles") if self.project.has(f := d / f"{name}.yaml")]
        me = self.project.real(child)
        same = [i for i, file in enumerate(hidden) if self.project.real(file) == me]
        if same and same[0] + 1 < len(hidden):
            return hidden[same[0] + 1]
        return locate(self.project, name, str(origin))


def _expanded(tree: Table, project: Project) -> Table:
    expanded = expand(tree, project.environ)
    return expanded if isinstance(expanded, Table) else tree


def _extends(layer: Table) -> Iterator[tuple[str, Origin]]:
    node = layer.entries.get("extends")
    for item in node.items if isinstance(node, Items) else ():
        if isinstance(item, Leaf):
            yield str(item.value), item.origin


def _refuse_cycle(project: Project, parent: Path, trail: tuple[tuple[Path, Origin], ...]) -> None:
    real = [project.real(path) for path, _ in trail]
    if project.real(parent) in real:
        round_trip = [p.stem for p in (*real[real.index(project.real(parent)) :], parent)]
        raise InputError(
            "profile-cycle",
            "extends goes round in a circle: " + " → ".join(round_trip),
            where=str(trail[-1][1]),
            try_="remove this extends",
        )
