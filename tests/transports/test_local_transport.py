"""argv on this machine."""

from __future__ import annotations

import hashlib
import os
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from sglfab.transports.base import Channel, ChannelIdle, ChannelLost
from sglfab.transports.local import LocalTransport, PipedProgram, output

LONG_S = 30.0


def run(code: str, *args: str) -> Channel:
    return LocalTransport().open([sys.executable, "-c", code, *args])


@pytest.fixture
def opened() -> Iterator[list[Channel]]:
    channels: list[Channel] = []
    yield channels
    for channel in channels:
        channel.close()


def test_lines_come_back_as_bytes_and_the_status_follows(opened: list[Channel]) -> None:
    opened.append(channel := run(r"import sys, os; os.write(1, b'a\n\xff\xfe\n\nlast'); sys.exit(3)"))
    assert list(channel.lines(idle_s=LONG_S)) == [b"a", b"\xff\xfe", b"", b"last"]
    assert channel.wait(timeout_s=LONG_S) == 3


def test_what_is_sent_arrives_unchanged(opened: list[Channel]) -> None:
    code = "import sys, hashlib; d = sys.stdin.buffer.read(1 << 20); print(hashlib.sha256(d).hexdigest())"
    data = bytes(range(256)) * 4096
    opened.append(channel := run(code))
    channel.send(data)
    assert next(channel.lines(idle_s=LONG_S)).decode() == hashlib.sha256(data).hexdigest()


def test_arguments_arrive_as_written(opened: list[Channel]) -> None:
    words = ["", "a b", "$(id)", "it's", '"', "\n", "*", "é"]
    opened.append(channel := run("import sys; print(ascii(sys.argv[1:]))", *words))
    assert next(channel.lines(idle_s=LONG_S)).decode() == ascii(words)


def test_silence_is_told_and_nothing_is_lost_by_it(opened: list[Channel]) -> None:
    opened.append(channel := run("import sys; sys.stdin.readline(); print('late')"))
    with pytest.raises(ChannelIdle):
        next(channel.lines(idle_s=0.05))
    channel.send(b"go\n")
    assert next(channel.lines(idle_s=LONG_S)) == b"late"


def test_a_wait_for_a_program_that_goes_on_is_bounded(opened: list[Channel]) -> None:
    opened.append(channel := run("import sys; sys.stdin.read()"))
    with pytest.raises(ChannelIdle):
        channel.wait(timeout_s=0.05)


def test_the_tail_of_stderr_is_at_most_4_kib_and_never_blocks_the_program(opened: list[Channel]) -> None:
    opened.append(channel := run("import sys; sys.stderr.write('x' * 1_000_000 + 'the end'); print('done')"))
    assert list(channel.lines(idle_s=LONG_S)) == [b"done"]
    assert channel.wait(timeout_s=LONG_S) == 0
    assert channel.stderr_tail().endswith("the end")
    assert len(channel.stderr_tail()) == 4096


def test_sending_to_a_program_that_is_gone_is_a_lost_channel(opened: list[Channel]) -> None:
    opened.append(channel := run("pass"))
    channel.wait(timeout_s=LONG_S)
    with pytest.raises(ChannelLost):
        channel.send(b"x" * 1_000_000)


def test_closing_ends_a_program_that_waits_for_the_end_of_stdin(tmp_path: Path) -> None:
    proof = tmp_path / "ended by itself"
    channel = run(
        "import sys, pathlib; print(1, flush=True); sys.stdin.read(); pathlib.Path(sys.argv[1]).touch()", str(proof)
    )
    next(channel.lines(idle_s=LONG_S))
    channel.close()
    assert proof.exists()


def test_closing_ends_a_program_that_is_blocked_on_its_output(tmp_path: Path) -> None:
    # It sees the end of stdin only after its writes went through: somebody must go on reading.
    proof = tmp_path / "ended by itself"
    code = "import sys, os, pathlib; os.write(1, b'x' * 500_000); sys.stdin.read(); pathlib.Path(sys.argv[1]).touch()"
    channel = run(code, str(proof))
    channel.close()
    assert proof.exists()


def test_closing_kills_a_program_that_does_not_end_by_itself() -> None:
    code = "import os, time; print(os.getpid(), flush=True); time.sleep(1000)"
    channel = LocalTransport(end_s=0.2).open([sys.executable, "-c", code])
    pid = int(next(channel.lines(idle_s=LONG_S)))
    channel.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_closing_twice_is_harmless(opened: list[Channel]) -> None:
    channel = run("pass")
    channel.close()
    channel.close()
    assert channel.stderr_tail() == ""


def test_a_reader_in_another_thread_learns_of_the_close() -> None:
    channel = run("import sys; sys.stdin.read()")
    outcome: list[BaseException] = []

    def read() -> None:
        try:
            list(channel.lines(idle_s=LONG_S))
        except ChannelLost as lost:
            outcome.append(lost)

    reader = threading.Thread(target=read)
    reader.start()
    channel.close()
    reader.join(LONG_S)
    assert len(outcome) == 1


def test_a_ctrl_c_in_the_terminal_does_not_reach_it(opened: list[Channel]) -> None:
    opened.append(channel := run("import os; print(os.getsid(0), os.getpgrp())"))
    session, group = map(int, next(channel.lines(idle_s=LONG_S)).split())
    assert session != os.getsid(0)
    assert group != os.getpgrp()


NOT_STARTED = [
    ("a path that is not there", "/nonexistent/python3", 127),
    ("a name that is not in PATH", "no-such-program-here", 127),
    ("a folder", "/usr", 126),
    ("a file that is no program", "/etc/passwd", 126),
    ("a path through a file", "/etc/passwd/bin/python", 127),
]


@pytest.mark.parametrize(("program", "status"), [c[1:] for c in NOT_STARTED], ids=[c[0] for c in NOT_STARTED])
def test_what_cannot_be_started_ends_as_in_a_shell(program: str, status: int) -> None:
    channel = LocalTransport().open([program])
    assert list(channel.lines(idle_s=1)) == []
    assert channel.wait(timeout_s=1) == status
    assert program in channel.stderr_tail()


def test_a_leading_tilde_is_the_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "hello").write_text("#!/bin/sh\necho hello\n")
    (tmp_path / "hello").chmod(0o700)
    assert output(["~/hello"], timeout_s=LONG_S).stdout == "hello"


def test_the_output_of_a_program_that_hangs_is_a_status_not_a_hang() -> None:
    assert output([sys.executable, "-c", "import sys; sys.stdin.read()"], timeout_s=0.05).status == -1


def test_a_piped_program_talks_through_one_socket() -> None:
    piped = PipedProgram("cat | tr a-z A-Z")
    try:
        piped.socket.sendall(b"hello")
        piped.socket.shutdown(1)
        assert piped.socket.recv(100) == b"HELLO"
    finally:
        piped.close()


def test_the_end_of_a_piped_program_is_an_end_of_file() -> None:
    piped = PipedProgram("false")
    try:
        piped.socket.settimeout(LONG_S)
        assert piped.socket.recv(100) == b""
    finally:
        piped.close()


def test_a_piped_program_that_ignores_its_end_is_killed() -> None:
    piped = PipedProgram("sh -c 'trap \"\" TERM; echo $$; while :; do sleep 0.1; done'")
    pid = int(piped.socket.makefile().readline())
    piped.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
