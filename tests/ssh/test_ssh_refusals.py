"""Hosts that cannot be reached: each says why, says what to do, asks nothing, and takes no longer than it must."""

from __future__ import annotations

import getpass
import shlex
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sglfab.errors import InputError, UnreachableError
from sglfab.testing.sshd import Sshd, free_port, make_key
from sglfab.transports.host import Host

pytestmark = pytest.mark.ssh
Reach = Callable[..., Host]


def refusal(host: Host) -> UnreachableError:
    """Why the host cannot be reached; every refusal is exit 7 and soon."""
    began = time.monotonic()
    with pytest.raises(UnreachableError) as caught:
        host.call("ping")
    assert time.monotonic() - began < 15
    assert caught.value.exit_code == 7
    assert caught.value.try_
    return caught.value


def accepted(host: Host) -> bool:
    host.python = sys.executable
    return bool(host.call("ping", {"echo": 1})["echo"] == 1)


# --- is it the right host ---------------------------------------------------------------------------------------------


@pytest.fixture
def known(sshd: Sshd, reach: Reach, tmp_path: Path) -> Callable[..., Host]:
    """known("one line …", StrictHostKeyChecking=…): a host whose known_hosts has just that."""

    def make(text: str, **options: str) -> Host:
        file = tmp_path / "known hosts"
        file.write_text(text)
        name = f"k{len(sshd.config.read_text())}"
        return reach(sshd, sshd.host(name, UserKnownHostsFile=f'"{file}"', **options))

    return make


def host_key(sshd: Sshd) -> str:
    return " ".join((sshd.folder / "host_key.pub").read_text().split()[:2])


def other_key(tmp_path: Path, kind: str = "ed25519") -> str:
    return " ".join(make_key(tmp_path / f"other-{kind}", kind=kind).with_suffix(".pub").read_text().split()[:2])


def hashed(sshd: Sshd, tmp_path: Path) -> str:
    file = tmp_path / "to hash"
    file.write_text(f"[127.0.0.1]:{sshd.port} {host_key(sshd)}\n")
    subprocess.run(["ssh-keygen", "-q", "-H", "-f", str(file)], check=True, capture_output=True)
    return file.read_text()


RIGHT = [
    ("by [host]:port", "[127.0.0.1]:{port} {key}\n"),
    ("by a plain name, as OpenSSH's second try", "127.0.0.1 {key}\n"),
    ("by a wildcard", "[127.0.0.*]:{port} {key}\n"),
    ("among other names", "gpu9,[127.0.0.1]:{port} {key}\n"),
    ("after a comment and a broken line", "# mine\nbroken\n[127.0.0.1]:{port} {key} me@laptop\n"),
    ("beside an older key of the same kind", "[127.0.0.1]:{port} {other}\n[127.0.0.1]:{port} {key}\n"),
    (
        "beside a key of a kind that we do not know",
        "[127.0.0.1]:{port} sk-new@openssh.com AAAA\n[127.0.0.1]:{port} {key}\n",
    ),
    ("while another host's key was revoked", "@revoked * {other}\n[127.0.0.1]:{port} {key}\n"),
]


@pytest.mark.parametrize("lines", [r[1] for r in RIGHT], ids=[r[0] for r in RIGHT])
def test_a_host_is_known(sshd: Sshd, known: Callable[..., Host], tmp_path: Path, lines: str) -> None:
    assert accepted(known(lines.format(port=sshd.port, key=host_key(sshd), other=other_key(tmp_path))))


def test_a_host_is_known_by_a_hash(sshd: Sshd, known: Callable[..., Host], tmp_path: Path) -> None:
    assert accepted(known(hashed(sshd, tmp_path)))


def test_a_host_is_known_by_its_alias(sshd: Sshd, known: Callable[..., Host]) -> None:
    assert accepted(known(f"the-gpu-box {host_key(sshd)}\n", HostKeyAlias="the-gpu-box"))


WRONG = [
    ("nothing is known", "", "host-key-unknown"),
    ("other hosts are known", "gpu9 {key}\n[127.0.0.1]:1 {key}\n", "host-key-unknown"),
    ("it is excluded by name", "!*127.0.0.1*,* {key}\n", "host-key-unknown"),
    ("it is known by a key of another kind", "[127.0.0.1]:{port} {ecdsa}\n", "host-key-unknown"),
    ("it is known by an authority", "@cert-authority [127.0.0.1]:{port} {other}\n", "host-key-unknown"),
    ("only a comment knows it", "#[127.0.0.1]:{port} {key}\n", "host-key-unknown"),
    ("another key of the plain name is no rival", "127.0.0.1 {other}\n", "host-key-unknown"),
    ("its key changed", "[127.0.0.1]:{port} {other}\n", "host-key-mismatch"),
    ("its key was revoked", "@revoked * {key}\n[127.0.0.1]:{port} {key}\n", "host-key-revoked"),
]


@pytest.mark.parametrize(("lines", "code"), [w[1:] for w in WRONG], ids=[w[0] for w in WRONG])
def test_a_host_is_refused(sshd: Sshd, known: Callable[..., Host], tmp_path: Path, lines: str, code: str) -> None:
    keys = {"key": host_key(sshd), "other": other_key(tmp_path), "ecdsa": other_key(tmp_path, "ecdsa")}
    error = refusal(known(lines.format(port=sshd.port, **keys)))
    assert error.code == code
    assert error.where == f"127.0.0.1:{sshd.port}"
    assert fingerprint(sshd) in error.what


def fingerprint(sshd: Sshd) -> str:
    argv = ["ssh-keygen", "-lf", str(sshd.folder / "host_key.pub")]
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout.split()[1]


def test_the_advice_for_an_unknown_host_works(sshd: Sshd, known: Callable[..., Host]) -> None:
    host = known("")
    scan = refusal(host).try_.rpartition(": ")[2]
    subprocess.run(["sh", "-c", scan], check=True, capture_output=True)
    assert accepted(host)


def test_the_advice_for_a_changed_key_works(sshd: Sshd, known: Callable[..., Host], tmp_path: Path) -> None:
    host = known(f"[127.0.0.1]:{sshd.port} {other_key(tmp_path)}\n")
    remove = refusal(host).try_.rpartition(": ")[2]
    subprocess.run(shlex.split(remove), check=True, capture_output=True)
    assert refusal(host).code == "host-key-unknown"


def test_accept_new_records_the_key_and_then_insists_on_it(
    sshd: Sshd, known: Callable[..., Host], tmp_path: Path
) -> None:
    assert accepted(known("", StrictHostKeyChecking="accept-new"))
    line = (tmp_path / "known hosts").read_text()
    assert line == f"[127.0.0.1]:{sshd.port} {host_key(sshd)}\n"
    assert accepted(known(line))


def test_accept_new_does_not_accept_a_changed_key(sshd: Sshd, known: Callable[..., Host], tmp_path: Path) -> None:
    error = refusal(known(f"[127.0.0.1]:{sshd.port} {other_key(tmp_path)}\n", StrictHostKeyChecking="accept-new"))
    assert error.code == "host-key-mismatch"


def test_no_checking_is_done_as_asked_and_named(known: Callable[..., Host]) -> None:
    host = known("", StrictHostKeyChecking="no")
    assert accepted(host)
    assert any("NOT verified" in note for note in host.notes)


# --- who are we -------------------------------------------------------------------------------------------------------


def test_a_key_that_the_host_does_not_know(sshd: Sshd, reach: Reach, tmp_path: Path) -> None:
    error = refusal(reach(sshd, sshd.host("stranger", IdentityFile=str(make_key(tmp_path / "stranger")))))
    assert error.code == "ssh-auth-failed"
    assert error.try_ == "ssh -v stranger true"


def test_no_key_at_all(sshd: Sshd, reach: Reach) -> None:
    error = refusal(reach(sshd, sshd.host("no-key", IdentityFile="/nonexistent/key")))
    assert (error.code, "there is no key to offer" in error.what) == ("ssh-auth-failed", True)


def test_a_key_that_is_locked_is_not_asked_for(sshd: Sshd, reach: Reach, tmp_path: Path) -> None:
    key = make_key(tmp_path / "locked", passphrase="correct horse")
    error = refusal(reach(sshd, sshd.host("locked", IdentityFile=str(key))))
    assert (error.code, "locked by a passphrase" in error.what) == ("ssh-auth-failed", True)


def test_a_passphrase_that_fabric_asked_for_opens_it(
    own_sshd: Callable[..., Sshd], reach: Reach, tmp_path: Path
) -> None:
    sshd = own_sshd()
    key = make_key(tmp_path / "locked", passphrase="correct horse")
    shutil.copy(f"{key}.pub", sshd.folder / "authorized_keys")
    name = sshd.host("locked", IdentityFile=str(key))
    assert accepted(reach(sshd, name, fabric_config={"connect_kwargs": {"passphrase": "correct horse"}}))


GARBAGE = [
    ("no key in it", b"hello\n"),
    ("a broken key", b"-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n"),
    ("bytes", b"\xff\x00"),
]


@pytest.mark.parametrize("data", [g[1] for g in GARBAGE], ids=[g[0] for g in GARBAGE])
def test_a_key_file_with(sshd: Sshd, reach: Reach, tmp_path: Path, data: bytes) -> None:
    (tmp_path / "garbage").write_bytes(data)
    name = f"garbage-{len(sshd.config.read_text())}"
    assert refusal(reach(sshd, sshd.host(name, IdentityFile=str(tmp_path / "garbage")))).code == "ssh-auth-failed"


def test_a_second_factor_is_not_asked_for(own_sshd: Callable[..., Sshd], reach: Reach) -> None:
    sshd = own_sshd("PasswordAuthentication yes", "AuthenticationMethods publickey,password")
    error = refusal(reach(sshd))
    assert (error.code, "second factor" in error.what) == ("ssh-auth-failed", True)


def test_another_user(sshd: Sshd, reach: Reach) -> None:
    error = refusal(reach(sshd, sshd.host("other-user", User="nobody-we-know")))
    assert error.code == "ssh-auth-failed"


def test_what_our_library_cannot_do_is_a_suspect(sshd: Sshd, reach: Reach) -> None:
    name = sshd.host("smart-card", IdentityFile="/nonexistent/key", PKCS11Provider="/usr/lib/card.so")
    assert "PKCS11Provider" in refusal(reach(sshd, name)).what


# --- is it there ------------------------------------------------------------------------------------------------------


def test_nobody_listens(sshd: Sshd, reach: Reach) -> None:
    error = refusal(reach(sshd, sshd.host("dead-port", Port=str(free_port()))))
    assert (error.code, "connection refused" in error.what) == ("ssh-unreachable", True)


def test_a_name_that_nobody_knows(sshd: Sshd, reach: Reach) -> None:
    error = refusal(reach(sshd, sshd.host("nameless", HostName="no-such-host.invalid")))
    assert (error.code, "its name is not known" in error.what) == ("ssh-unreachable", True)


@pytest.fixture
def mute() -> Iterator[int]:
    """A port that takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


def test_a_host_that_says_nothing(sshd: Sshd, reach: Reach, mute: int) -> None:
    name = sshd.host(f"mute-{mute}", Port=str(mute), ConnectTimeout="1")
    assert refusal(reach(sshd, name)).code == "ssh-unreachable"


def test_a_port_that_is_no_ssh(sshd: Sshd, reach: Reach) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.sendall(b"HTTP/1.0 400 Bad Request\r\n\r\n" * 100)

        thread = threading.Thread(target=answer)
        thread.start()
        error = refusal(reach(sshd, sshd.host("web", Port=str(listener.getsockname()[1]), ConnectTimeout="2")))
        thread.join()
    assert error.code == "ssh-unreachable"


def test_nothing_of_the_library_shows_on_the_screen(sshd: Sshd, mute: int) -> None:
    sshd.host(f"mute-{mute}-again", Port=str(mute), ConnectTimeout="1")
    code = (
        "import fabric, sys; from sglfab.transports import ssh; from sglfab.transports.host import Host\n"
        "from sglfab.errors import InputError, UnreachableError\n"
        "try: Host(ssh.connect(sys.argv[1], fabric.Config(runtime_ssh_path=sys.argv[2]))).call('ping')\n"
        "except UnreachableError: print('refused')"
    )
    argv = [sys.executable, "-c", code, f"mute-{mute}-again", str(sshd.config)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == ("refused\n", "")


def test_a_login_without_a_shell(own_sshd: Callable[..., Sshd], reach: Reach) -> None:
    sshd = own_sshd("ForceCommand echo 'This account is currently not available.'; exit 1")
    with pytest.raises(InputError, match="This account is currently not available"):
        reach(sshd).call("ping")


def test_no_limit_in_the_config_is_not_no_limit_here(sshd: Sshd, reach: Reach, mute: int) -> None:
    name = sshd.host(f"patient-{mute}", Port=str(mute), ConnectTimeout="0")
    assert refusal(reach(sshd, name, fabric_config={"timeouts": {"connect": 1}})).code == "ssh-unreachable"


def test_the_user_may_be_named_for_one_command(sshd: Sshd, reach: Reach) -> None:
    assert accepted(reach(sshd, f"{getpass.getuser()}@box"))
