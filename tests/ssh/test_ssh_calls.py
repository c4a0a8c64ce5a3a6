"""Operations over a real sshd."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sglfab.testing.sshd import Sshd, descendants
from sglfab.transports.base import ChannelIdle, ChannelLost
from sglfab.transports.bundle import bundle
from sglfab.transports.host import Host

pytestmark = pytest.mark.ssh
Reach = Callable[..., Host]

PAYLOADS = [
    ("text of all alphabets", "grüße 世界 \U0001f680"),
    ("quotes, dollars and newlines", 'it\'s "$HOME" `id`\n\r\n\\n !!'),
    ("bytes that are no utf-8, escaped", b"\xff\xfe\x00\n".decode("utf-8", "surrogateescape")),
    ("more than any window holds", "x" * 5_000_000),
]


@pytest.mark.parametrize("payload", [p[1] for p in PAYLOADS], ids=[p[0] for p in PAYLOADS])
def test_a_request_comes_back_as_it_was(sshd: Sshd, reach: Reach, payload: object) -> None:
    assert reach(sshd, python=sys.executable).call("ping", {"echo": payload})["echo"] == payload


def test_events_come_in_order_and_then_the_reply(sshd: Sshd, reach: Reach) -> None:
    host = reach(sshd, python=sys.executable)
    with host.stream("ping", {"events": 3000, "size_bytes": 5000, "echo": "end"}) as stream:
        assert [event["n"] for event in stream] == list(range(3000))
    assert stream.reply["echo"] == "end"


def test_the_bundle_is_kept_on_the_host(sshd: Sshd, reach: Reach) -> None:
    host = reach(sshd, python=sys.executable)
    host.call("ping")
    assert (sshd.state_dir / "bin" / f"hostside-{bundle().sha}.pyz").read_bytes() == bundle().data
    assert host.gaps == ()


def test_a_state_folder_with_spaces_and_dollars(sshd: Sshd, reach: Reach, tmp_path: Path) -> None:
    state = tmp_path / "my $HOME 'state' \"x\" !y"
    assert reach(sshd, python=sys.executable, state_dir=str(state)).call("ping", {"echo": 1})["echo"] == 1
    assert list((state / "bin").iterdir())


def test_many_threads_share_one_connection(own_sshd: Callable[..., Sshd], reach: Reach) -> None:
    sshd = own_sshd()
    host = reach(sshd, python=sys.executable)
    with host.stream("ping", {"hold": True}, idle_s=None) as held:
        next(held)
        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(lambda n: host.call("ping", {"echo": n})["echo"], range(8)))
        assert found == list(range(8))
        served = {line for line in sshd.log().splitlines() if line.startswith("Accepted publickey")}
        assert len(served) == 1


def test_a_host_that_allows_one_session_per_connection_gets_more_connections(
    own_sshd: Callable[..., Sshd], reach: Reach
) -> None:
    sshd = own_sshd("MaxSessions 1")
    host = reach(sshd, python=sys.executable)
    with host.stream("ping", {"hold": True}, idle_s=None) as held:
        next(held)
        assert host.call("ping", {"echo": 2})["echo"] == 2
        assert host.call("ping", {"echo": 3})["echo"] == 3
    assert sshd.log().count("Accepted publickey") == 2


def test_silence_is_bounded(sshd: Sshd, reach: Reach) -> None:
    host = reach(sshd, python=sys.executable)
    host.call("ping")
    with pytest.raises(ChannelIdle) as caught:
        host.call("ping", {"hold": True}, timeout_s=1.5)
    assert caught.value.where == "box"


def test_leaving_a_stream_ends_it_on_the_host(sshd: Sshd, reach: Reach) -> None:
    with reach(sshd, python=sys.executable).stream("ping", {"hold": True}) as stream:
        pid = next(stream)["holding"]
        os.kill(pid, 0)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_nothing_runs_on_the_host_after_a_close(own_sshd: Callable[..., Sshd], reach: Reach) -> None:
    sshd = own_sshd()
    host = reach(sshd, python=sys.executable)
    with host.stream("ping", {"events": 100_000, "size_bytes": 2000}) as stream:
        next(stream)
    host.call("ping")
    host.close()
    assert sshd.settled()
    assert descendants(sshd.process.pid) == []


def test_a_program_that_is_killed_is_a_lost_connection_and_the_next_call_works(sshd: Sshd, reach: Reach) -> None:
    host = reach(sshd, python=sys.executable)
    with host.stream("ping", {"hold": True}) as stream:
        os.kill(next(stream)["holding"], signal.SIGKILL)
        with pytest.raises(ChannelLost):
            next(stream)
    assert host.call("ping", {"echo": 1})["echo"] == 1


def test_words_on_stderr_do_not_block(sshd: Sshd, reach: Reach, tmp_path: Path) -> None:
    loud = tmp_path / "loud python"
    loud.write_text(f'#!/bin/sh\nhead -c 5000000 /dev/zero >&2\nexec {sys.executable} "$@"\n')
    loud.chmod(0o700)
    assert reach(sshd, python=str(loud)).call("ping", {"echo": 1}, timeout_s=30)["echo"] == 1


def test_facts_come_over_ssh(sshd: Sshd, reach: Reach) -> None:
    facts = reach(sshd, python=sys.executable).call("facts")
    assert facts["python"]["path"]
    assert facts["state_dir"].startswith(str(sshd.state_dir))


# --- the interpreter --------------------------------------------------------------------------------------------------


def test_the_folder_of_a_venv_is_as_good_as_its_interpreter(sshd: Sshd, reach: Reach) -> None:
    host = reach(sshd, python=sys.prefix)
    assert host.call("ping", {"echo": 1})["echo"] == 1
    assert host.python == f"{sys.prefix}/bin/python"
