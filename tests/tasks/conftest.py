"""A place that a test has for itself, and one with a server that a module only looks at."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from sglfab.testing.fab import Done
from sglfab.testing.place import Place, place_in


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with place_in(tmp_path / "host") as made:
        yield made


@dataclass(frozen=True)
class Served:
    """A place whose server is ready, and what the launch answered. For tests that change nothing."""

    place: Place
    launched: Done

    @property
    def run(self) -> str:
        return str(self.launched.json["run"])


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with place_in(tmp_path_factory.mktemp("served") / "host") as made:
        launched = made.fab("launch", "--profile", "standin", "--json")
        assert launched.code == 0, launched
        yield Served(made, launched)
