"""Hosts on this machine, each with a state folder of its own."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sglfab.transports.bundle import Bundle, pack, sources
from sglfab.transports.host import Host
from sglfab.transports.local import LocalTransport


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A state folder that no shell may stumble over."""
    return tmp_path / "state of $USER's"


@pytest.fixture
def local_host(state: Path) -> Iterator[Host]:
    host = Host(LocalTransport(), python=sys.executable, state_dir=str(state))
    yield host
    host.close()


@pytest.fixture
def program_with() -> Callable[..., Bundle]:
    """hostside in which some modules are the test's own: program_with(pinging="…source…")."""

    def build(**modules: str) -> Bundle:
        return pack(sources() | {f"sglfab/hostside/{name}.py": text.encode() for name, text in modules.items()})

    return build
