"""One real sshd for all tests that do not hurt it; those that do start their own by `own_sshd`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import fabric
import pytest

from sglfab.testing import sshd as real_sshd
from sglfab.testing.sshd import Sshd
from sglfab.transports import ssh
from sglfab.transports.host import Host


@pytest.fixture(autouse=True)
def needs_sshd() -> None:
    why = real_sshd.missing()
    if why and os.environ.get("SGLFAB_REQUIRE_REAL"):
        pytest.fail(why)
    if why:
        pytest.skip(why)


@pytest.fixture(scope="session")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    if real_sshd.missing():
        pytest.skip("no sshd")
    with real_sshd.running(tmp_path_factory.mktemp("sshd")) as running:
        yield running


@pytest.fixture
def own_sshd(tmp_path: Path) -> Iterator[Callable[..., Sshd]]:
    """own_sshd("MaxSessions 1", …): a further sshd for this test alone."""
    with ExitStack() as stack:

        def start(*settings: str, name: str = "own") -> Sshd:
            return stack.enter_context(real_sshd.running(tmp_path / name, *settings))

        yield start


@pytest.fixture
def reach() -> Iterator[Callable[..., Host]]:
    """reach(sshd, "box", python=…, fabric_config=…): the host of that name in sshd's ssh config."""
    hosts: list[Host] = []

    def make(sshd: Sshd, name: str = "box", *, fabric_config: dict[str, Any] | None = None, **settings: Any) -> Host:
        config = fabric.Config(runtime_ssh_path=str(sshd.config), overrides=fabric_config or {})
        hosts.append(Host(ssh.connect(name, config), **settings))
        return hosts[-1]

    yield make
    for host in hosts:
        host.close()
