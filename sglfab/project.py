"""Project(root): where configs/ and templates/ are. The only module that opens files of the checkout."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sglfab.errors import InputError
from sglfab.model import Json


@dataclass(frozen=True)
class Project:
    """root: the clone. extra: a team's own configs folders, searched first (`SGLFAB_CONFIGS`, `--configs`)."""

    root: Path
    extra: tuple[Path, ...] = ()
    # The operator's environment, for `${env:NAME}` in profiles. Never printed: it may hold secrets.
    environ: Mapping[str, str] = field(default_factory=lambda: dict(os.environ), repr=False, compare=False)

    def folders(self, kind: str) -> tuple[Path, ...]:
        """Every existing folder of that kind (profiles, patches, signatures …), the team's own first.

        A team's folder may hold the kinds as sub-folders, like ours.
        """
        return tuple(f for base in (*self.extra, self.root / "configs") if (f := base / kind).is_dir())

    def find(self, kind: str, name: str, suffix: str = ".yaml") -> Path | None:
        """The first file `kind/name.suffix`, the team's own before ours."""
        return next((f for d in self.folders(kind) if (f := d / (name + suffix)).is_file()), None)

    def names(self, kind: str, suffix: str = ".yaml") -> tuple[str, ...]:
        found = {f.name.removesuffix(suffix) for d in self.folders(kind) for f in d.glob("*" + suffix) if f.is_file()}
        return tuple(sorted(found))

    def listing(self, kind: str, pattern: str) -> tuple[Path, ...]:
        """Every file of that kind that matches, sorted within its folder; ours first, so that the team's own win."""
        return tuple(f for folder in reversed(self.folders(kind)) for f in sorted(folder.glob(pattern)))

    def typed(self, text: str) -> Path:
        """The path that an operator typed: `~` is their home."""
        return Path(text).expanduser()

    def has(self, path: Path) -> bool:
        return path.is_file()

    def real(self, path: Path) -> Path:
        """The path without links, to tell whether two are the same file."""
        return path.resolve()

    def read(self, path: Path) -> str:
        try:
            return path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as why:
            raise InputError(
                "file-unreadable", f"cannot read {path}: {why}", where=str(path), try_=f"file {path}; ls -l {path}"
            ) from None

    def shown(self, path: Path) -> str:
        """The path as an operator would type it: relative to the current folder where that is shorter."""
        try:
            return str(path.relative_to(Path.cwd()))
        except ValueError:
            return str(path)

    def template(self, name: str) -> str:
        return self.read(self.root / "templates" / name)

    def sglang_facts(self, name: str) -> Json:
        """A JSON file of facts about SGLang, by release: configs/sglang/NAME.json."""
        return json.loads(self.read(self.root / "configs" / "sglang" / f"{name}.json"))


def open_project(root: Path, *, configs: str | None = None, environ: Mapping[str, str] | None = None) -> Project:
    """A project with the team's folders: `configs` (the flag), else SGLFAB_CONFIGS; several joined by `os.pathsep`."""
    given = configs or (environ or {}).get("SGLFAB_CONFIGS") or ""
    extra = tuple(Path(p).expanduser().resolve() for p in given.split(os.pathsep) if p)
    for folder in extra:
        if not folder.is_dir():
            raise InputError(
                "configs-not-found",
                f"no such folder: {folder}",
                where="--configs / SGLFAB_CONFIGS",
                try_="ls " + str(folder.parent),
            )
    return Project(root=root, extra=extra, environ=dict(os.environ if environ is None else environ))
