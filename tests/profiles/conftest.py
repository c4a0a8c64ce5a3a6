"""A team's own folder of profiles, beside the clone's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from sglfab.project import Project

ROOT = Path(__file__).resolve().parents[2]
MakeTeam = Callable[..., Project]


@pytest.fixture
def team(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MakeTeam:
    """Writes the team's files into profiles/ and gives a project that sees them.

    The current folder is the team's, so that files are shown as `profiles/a.yaml`.
    """

    def make(files: Mapping[str, str], environ: Mapping[str, str] | None = None) -> Project:
        (tmp_path / "profiles").mkdir(exist_ok=True)
        for name, text in files.items():
            (tmp_path / "profiles" / name).write_text(text, encoding="utf-8")
        monkeypatch.chdir(tmp_path)
        return Project(ROOT, (tmp_path,), environ=dict(environ or {"HOME": "/home/op"}))

    return make
