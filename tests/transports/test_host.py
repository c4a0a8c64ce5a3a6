"""Operations on a host."""

from __future__ import annotations

import os
import signal
import stat
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sglfab.errors import HostsideBugError, InputError, LockedError, SglfabError
from sglfab.transports.base import ChannelIdle, ChannelLost
from sglfab.transports.bundle import Bundle, sources
from sglfab.transports.host import Host
from sglfab.transports.local import LocalTransport

BIG = 3_000_000
PAYLOADS = [
    ("text of all alphabets", "grüße 世界 \U0001f680"),
    ("quotes, dollars and newlines", 'it\'s "$HOME" `id`\n\r\n\\n'),
    ("bytes that are no utf-8, escaped", b"\xff\xfe\n".decode("utf-8", "surrogateescape")),
    ("nothing", None),
    ("nested JSON", {"a": [1, 2.5, {"b": None}], "": True}),
    ("more than any pipe holds", "x" * BIG),
]


@pytest.mark.parametrize("payload", [p[1] for p in PAYLOADS], ids=[p[0] for p in PAYLOADS])
def test_a_request_comes_back_as_it_was(local_host: Host, payload: object) -> None:
    assert local_host.call("ping", {"echo": payload})["echo"] == payload


def test_each_call_is_a_process_of_its_own(local_host: Host) -> None:
    assert local_host.call("ping")["pid"] != local_host.call("ping")["pid"]


def test_events_come_in_order_and_then_the_reply(local_host: Host) -> None:
    with local_host.stream("ping", {"events": 1000, "size_bytes": 2000, "echo": "end"}) as stream:
        assert [event["n"] for event in stream] == list(range(1000))
    assert stream.reply["echo"] == "end"


def test_the_reply_can_be_had_without_the_events(local_host: Host) -> None:
    with local_host.stream("ping", {"events": 10, "echo": "end"}) as stream:
        assert next(stream)["n"] == 0
        assert stream.reply["echo"] == "end"


def test_leaving_a_stream_early_ends_it_on_the_host(local_host: Host) -> None:
    with local_host.stream("ping", {"hold": True}) as stream:
        pid = next(stream)["holding"]
        os.kill(pid, 0)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_leaving_a_stream_in_its_middle_ends_it_on_the_host(local_host: Host) -> None:
    before = children()
    with local_host.stream("ping", {"events": 100_000, "size_bytes": 1000}) as stream:
        next(stream)
        assert children() != before
    assert children() == before


def children() -> list[str]:
    return Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()


def test_silence_in_a_stream_is_told_and_the_stream_lives_on(local_host: Host) -> None:
    with local_host.stream("ping", {"hold": True}) as stream:
        pid = next(stream)["holding"]
        with pytest.raises(ChannelIdle):
            stream.next_event(idle_s=0.1)
        os.kill(pid, 0)


def test_a_call_is_bounded_and_the_error_names_the_operation(local_host: Host) -> None:
    local_host.call("ping")
    with pytest.raises(ChannelIdle, match=r"`ping` gave no answer within 0\.5 s") as caught:
        local_host.call("ping", {"hold": True}, timeout_s=0.5)
    assert caught.value.exit_code == 7


def test_a_program_that_is_killed_is_a_lost_connection(local_host: Host) -> None:
    with local_host.stream("ping", {"hold": True}) as stream:
        os.kill(next(stream)["holding"], signal.SIGKILL)
        with pytest.raises(ChannelLost) as caught:
            next(stream)
    assert (caught.value.code, caught.value.where, caught.value.exit_code) == ("connection-lost", "local", 7)


def test_many_threads_may_call_at_once_while_a_stream_is_open(local_host: Host) -> None:
    with local_host.stream("ping", {"hold": True}, idle_s=None) as held:
        next(held)
        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(lambda n: local_host.call("ping", {"echo": n})["echo"], range(8)))
    assert found == list(range(8))


def test_reconnect_proves_the_way(local_host: Host) -> None:
    local_host.reconnect()
    assert local_host.call("ping", {"echo": 1})["echo"] == 1


def test_reconnect_takes_a_new_transport_from_the_factory(state: Path) -> None:
    made: list[LocalTransport] = []

    def factory() -> LocalTransport:
        made.append(LocalTransport())
        return made[-1]

    host = Host(factory, python=sys.executable, state_dir=str(state))
    host.reconnect()
    assert len(made) == 2


# --- what goes wrong on the host --------------------------------------------------------------------------------------


def op(body: str) -> str:
    indented = "\n".join("    " + line for line in body.splitlines())
    return f"import os, sys, time\ndef ping(request, emit, stdin_closed):\n{indented}\n"


@pytest.fixture
def run_op(state: Path, program_with: Callable[..., Bundle]) -> Callable[[str], dict]:
    """Run a body as the operation `ping`, on a host of its own."""

    def run(body: str) -> dict:
        program = program_with(pinging=op(body))
        return Host(LocalTransport(), python=sys.executable, state_dir=str(state), program=program).call("ping")

    return run


def test_an_error_of_hostside_keeps_its_words_and_its_class(run_op: Callable[[str], dict]) -> None:
    with pytest.raises(LockedError) as caught:
        run_op(
            "from sglfab.hostside.failure import HostError\n"
            "raise HostError('locked', 'ada holds it', where='port 30000', try_='ask ada', exit_code=9)"
        )
    error = caught.value.to_json()
    assert error == {"code": "locked", "what": "ada holds it", "where": "local: port 30000", "try": "ask ada"}


BUGS = [
    ("an exception", "x = {}['none']", "KeyError: 'none'"),
    ("an exit in the middle of an operation", "sys.exit(5)", "status 5"),
    ("a reply that is no JSON", "return {'bad': object()}", "TypeError"),
    ("a module that is missing on the host", "import no_such_module", "ModuleNotFoundError"),
]


@pytest.mark.parametrize(("body", "words"), [b[1:] for b in BUGS], ids=[b[0] for b in BUGS])
def test_a_bug_of_ours_is_said_to_be_one(run_op: Callable[[str], dict], body: str, words: str) -> None:
    with pytest.raises(HostsideBugError, match=words) as caught:
        run_op(body)
    assert caught.value.code == "hostside-bug"


def test_a_bug_says_where_it_is(run_op: Callable[[str], dict]) -> None:
    with pytest.raises(HostsideBugError) as caught:
        run_op("raise ValueError('x')")
    assert caught.value.where == "local: pinging.py:3 in ping"


def test_a_full_disk_is_not_a_bug(run_op: Callable[[str], dict]) -> None:
    with pytest.raises(InputError) as caught:
        run_op("f = open('/dev/full', 'w', buffering=1)\nf.write('x\\n')")
    assert caught.value.code == "disk-full"


HARMLESS = [
    ("a print", "print('hello'); sys.stdout.flush()"),
    ("a program that prints", "os.system('echo hello')"),
    ("bytes on file descriptor 1", "os.write(1, b'{\"reply\": 1}\\n')"),
    ("words on stderr", "sys.stderr.write('x' * 100_000)"),
]


@pytest.mark.parametrize("body", [h[1] for h in HARMLESS], ids=[h[0] for h in HARMLESS])
def test_what_an_operation_prints_does_no_harm(run_op: Callable[[str], dict], body: str) -> None:
    assert run_op(f"{body}\nreturn {{'fine': True}}") == {"fine": True}


def test_an_operation_that_does_not_exist_is_an_error(local_host: Host) -> None:
    with pytest.raises(HostsideBugError, match="no such operation") as error:
        local_host.call("nonsense")
    assert error.value.where.endswith("nonsense")


# --- the interpreter --------------------------------------------------------------------------------------------------


def script(path: Path, text: str) -> str:
    path.write_text(text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


NO_PYTHON = [
    ("a path that is not there", "/nonexistent/python3", "no-python", "there is no /nonexistent/python3 on local"),
    ("a name that is not in PATH", "python-of-nobody", "no-python", "there is no python-of-nobody on local"),
    ("a file that is no program", "/etc/passwd", "no-python", "cannot be executed"),
    ("a folder without an interpreter", "/usr/share", "no-python", "/usr/share on local cannot be executed"),
    ("a program that is no Python", "/bin/false", "python-failed", "status 1"),
    ("a program that ends well and is no Python", "/bin/true", "python-failed", "status 0"),
]


@pytest.mark.parametrize(("python", "code", "words"), [c[1:] for c in NO_PYTHON], ids=[c[0] for c in NO_PYTHON])
def test_no_python(python: str, code: str, words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        Host(LocalTransport(), python=python).call("ping")
    assert (caught.value.code, caught.value.exit_code) == (code, 2)
    assert python in caught.value.where


def test_what_a_failing_interpreter_says_is_shown(tmp_path: Path) -> None:
    python = script(tmp_path / "python", "#!/bin/sh\necho 'module: no license' >&2\nexit 1\n")
    with pytest.raises(InputError, match="module: no license"):
        Host(LocalTransport(), python=python).call("ping")


def test_an_interpreter_whose_library_is_missing_is_there(tmp_path: Path) -> None:
    text = "python3: error while loading shared libraries: libpython3.11.so.1.0: No such file or directory"
    python = script(tmp_path / "python", f"#!/bin/sh\necho '{text}' >&2\nexit 127\n")
    with pytest.raises(InputError, match=r"libpython3\.11") as caught:
        Host(LocalTransport(), python=python).call("ping")
    assert caught.value.code == "python-failed"


def test_the_folder_of_a_venv_is_as_good_as_its_interpreter(tmp_path: Path, state: Path) -> None:
    (tmp_path / "venv/bin").mkdir(parents=True)
    python = script(tmp_path / "venv/bin/python", f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    host = Host(LocalTransport(), python=str(tmp_path / "venv"), state_dir=str(state))
    assert host.call("ping", {"echo": 1})["echo"] == 1
    assert host.python == python


def test_a_login_shell_that_talks_is_not_in_the_way(tmp_path: Path, state: Path) -> None:
    (tmp_path / "motd").write_text('Welcome to gpu1\n{"event": "of the day"}\n{broken\nno newline at the end')
    python = script(tmp_path / "python", f'#!/bin/sh\ncat {tmp_path}/motd\nexec "{sys.executable}" "$@"\n')
    host = Host(LocalTransport(), python=python, state_dir=str(state))
    assert host.call("ping", {"echo": 1})["echo"] == 1


def test_a_shell_that_only_talks_is_quoted_in_the_error(tmp_path: Path) -> None:
    python = script(tmp_path / "python", "#!/bin/sh\necho 'This account is currently not available.'\nexit 1\n")
    with pytest.raises(InputError, match="This account is currently not available"):
        Host(LocalTransport(), python=python).call("ping")


def test_an_interpreter_that_hangs_is_bounded(tmp_path: Path) -> None:
    python = script(tmp_path / "python", "#!/bin/sh\nread -r line\n")
    with pytest.raises(ChannelIdle):
        Host(LocalTransport(), python=python).call("ping", timeout_s=0.3)


# --- when the operator's side goes away -------------------------------------------------------------------------------


def gone(pid: int, *, within_s: float) -> bool:
    """Whether the process, no child of ours, ends in time."""
    waiting = threading.Event()
    for _ in range(int(within_s / 0.05)):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        waiting.wait(0.05)
    return False


def test_an_operation_that_ignores_the_end_of_its_pipe_is_ended(
    tmp_path: Path, state: Path, program_with: Callable[..., Bundle]
) -> None:
    body = "emit({'pid': os.getpid()})\nwhile True: time.sleep(60)"
    dispatch = sources()["sglfab/hostside/__main__.py"].decode()
    hasty = dispatch.replace("LINGER_S = 5.0", "LINGER_S = 0.2")
    assert hasty != dispatch
    program = program_with(pinging=op(body), __main__=hasty)
    host = Host(LocalTransport(end_s=60), python=sys.executable, state_dir=str(state), program=program)
    with host.stream("ping", idle_s=30) as stream:
        pid = next(stream)["pid"]
    assert gone(pid, within_s=1)


def test_an_operation_that_must_finish_does_so_without_its_pipe(
    tmp_path: Path, state: Path, program_with: Callable[..., Bundle]
) -> None:
    body = "emit({})\nstdin_closed.wait()\nemit({})\nopen(request['file'], 'w').write('stopped')\nreturn {}"
    program = program_with(stopping=op(body).replace("def ping", "def stop"))
    host = Host(LocalTransport(), python=sys.executable, state_dir=str(state), program=program)
    with host.stream("stop", {"file": str(tmp_path / "proof")}) as stream:
        next(stream)
    assert (tmp_path / "proof").read_text() == "stopped"


def test_errors_of_a_call_are_errors_of_ours(local_host: Host) -> None:
    with pytest.raises(SglfabError):
        local_host.call("ping", {"events": "many"})
