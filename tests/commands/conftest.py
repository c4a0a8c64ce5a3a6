"""A profile from text, and its plan."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from sglfab import commands, profiles
from sglfab.model import Plan, Profile
from sglfab.project import Project

ROOT = Path(__file__).resolve().parents[2]
MakePlan = Callable[..., Plan]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    (tmp_path / "profiles").mkdir()
    monkeypatch.chdir(tmp_path)
    return Project(ROOT, (tmp_path,), environ={"HOME": "/home/op"})


@pytest.fixture
def profile(project: Project) -> Callable[..., Profile]:
    def load(text: str, sets: Sequence[str] = ()) -> Profile:
        (project.extra[0] / "profiles" / "p.yaml").write_text(text, encoding="utf-8")
        return profiles.load(project, "p", sets=sets)

    return load


@pytest.fixture
def plan(project: Project, profile: Callable[..., Profile]) -> MakePlan:
    def make(text: str, release: str = "0.5.23", sets: Sequence[str] = (), source: str = "--release") -> Plan:
        return commands.render(project, profile(text, sets), release=release, release_source=source)

    return make
