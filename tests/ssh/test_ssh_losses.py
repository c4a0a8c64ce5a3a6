"""Connections that break while something runs."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import fabric
import pytest

from sglfab.errors import UnreachableError
from sglfab.testing.sshd import Sshd
from sglfab.transports import ssh
from sglfab.transports.base import ChannelLost
from sglfab.transports.bundle import pack, sources
from sglfab.transports.host import Host
from sglfab.transports.ssh_address import parse_address
from sglfab.transports.ssh_connection import plan_route
from sglfab.transports.ssh_pulse import Pulse

pytestmark = pytest.mark.ssh
Reach = Callable[..., Host]


def gone(pid: int, *, within_s: float = 10.0) -> bool:
    deadline = time.monotonic() + within_s
    pause = threading.Event()
    while time.monotonic() < deadline:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        pause.wait(0.05)
    return False


def test_a_killed_connection_is_lost_at_once(own_sshd: Callable[..., Sshd], reach: Reach) -> None:
    sshd = own_sshd()
    host = reach(sshd, python=sys.executable)
    with host.stream("ping", {"hold": True}, idle_s=None) as stream:
        next(stream)
        sshd.signal_connections(signal.SIGKILL)
        began = time.monotonic()
        with pytest.raises(ChannelLost) as caught:
            next(stream)
    assert time.monotonic() - began < 3
    assert (caught.value.where, caught.value.exit_code) == ("box", 7)


def test_the_operation_on_the_host_ends_with_its_connection(own_sshd: Callable[..., Sshd], reach: Reach) -> None:
    sshd = own_sshd()
    host = reach(sshd, python=sys.executable)
    with host.stream("ping", {"hold": True}) as stream:
        pid = next(stream)["holding"]
        sshd.signal_connections(signal.SIGKILL)
        assert gone(pid)


def test_an_operation_that_must_finish_does_so_without_its_connection(
    own_sshd: Callable[..., Sshd], reach: Reach, tmp_path: Path
) -> None:
    sshd = own_sshd()
    text = (
        "def stop(request, emit, stdin_closed):\n"
        "    emit({})\n    stdin_closed.wait()\n    emit({})\n    open(request['file'], 'w').close()\n    return {}\n"
    )
    program = pack(sources() | {"sglfab/hostside/stopping.py": text.encode()})
    host = reach(sshd, python=sys.executable, program=program)
    with host.stream("stop", {"file": str(tmp_path / "proof")}) as stream:
        next(stream)
        sshd.signal_connections(signal.SIGKILL)
        with pytest.raises(ChannelLost):
            next(stream)
    pause, deadline = threading.Event(), time.monotonic() + 10
    while not (tmp_path / "proof").exists() and time.monotonic() < deadline:
        pause.wait(0.05)
    assert (tmp_path / "proof").exists()


def test_the_next_call_connects_anew(own_sshd: Callable[..., Sshd], reach: Reach) -> None:
    sshd = own_sshd()
    host = reach(sshd, python=sys.executable)
    host.call("ping")
    sshd.signal_connections(signal.SIGKILL)
    assert sshd.settled()
    assert host.call("ping", {"echo": 1})["echo"] == 1


def test_reconnect_after_the_host_was_away(own_sshd: Callable[..., Sshd], reach: Reach) -> None:
    sshd = own_sshd()
    host = reach(sshd, python=sys.executable)
    with host.stream("ping", {"hold": True}) as stream:
        next(stream)
        sshd.signal_connections(signal.SIGKILL)
        sshd.stop()
        with pytest.raises(ChannelLost):
            next(stream)
    with pytest.raises(UnreachableError, match="connection refused"):
        host.reconnect()
    sshd.start()
    host.reconnect()
    assert host.call("ping", {"echo": 1})["echo"] == 1


@pytest.fixture
def silent(own_sshd: Callable[..., Sshd]) -> Iterator[tuple[Sshd, Host]]:
    """A host whose pulse is felt within a second, and its sshd."""
    sshd = own_sshd()
    config = fabric.Config(runtime_ssh_path=str(sshd.config))

    def quick(transport: object) -> Pulse:
        return Pulse(transport, every_s=0.1, silence_s=0.8)

    route = plan_route(parse_address("box"), config)
    host = Host(ssh.SshTransport(route, config, label="box", pulse=quick), python=sys.executable)
    yield sshd, host
    sshd.signal_connections(signal.SIGCONT)
    host.close()


def test_a_host_that_falls_silent_is_lost_though_the_connection_stands(silent: tuple[Sshd, Host]) -> None:
    sshd, host = silent
    with host.stream("ping", {"hold": True}, idle_s=None) as stream:
        next(stream)
        sshd.signal_connections(signal.SIGSTOP)
        began = time.monotonic()
        with pytest.raises(ChannelLost, match="has not answered"):
            next(stream)
        assert time.monotonic() - began < 5


def test_a_call_on_a_connection_that_fell_silent_takes_a_new_one(silent: tuple[Sshd, Host]) -> None:
    sshd, host = silent
    host.call("ping")
    sshd.signal_connections(signal.SIGSTOP)
    began = time.monotonic()
    assert host.call("ping", {"echo": 1})["echo"] == 1
    assert time.monotonic() - began < 15


def test_a_host_that_answers_is_left_alone(silent: tuple[Sshd, Host]) -> None:
    _, host = silent
    with host.stream("ping", {"hold": True}) as stream:
        next(stream)
        threading.Event().wait(2.0)  # more than two silences long
        assert host.call("ping", {"echo": 1})["echo"] == 1


def test_a_transport_that_is_closed_ends_its_streams(own_sshd: Callable[..., Sshd], reach: Reach) -> None:
    host = reach(own_sshd(), python=sys.executable)
    with host.stream("ping", {"hold": True}) as stream:
        pid = next(stream)["holding"]
        host.close()
        with pytest.raises(ChannelLost):
            next(stream)
    assert gone(pid)
