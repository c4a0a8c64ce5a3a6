"""The ways to a host that ~/.ssh/config can describe."""

from __future__ import annotations

import getpass
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import fabric
import pytest

from sglfab.errors import InputError, UnreachableError
from sglfab.testing.sshd import Sshd, make_key
from sglfab.transports import ssh
from sglfab.transports.host import Host

pytestmark = pytest.mark.ssh
Reach = Callable[..., Host]


def works(host: Host) -> bool:
    host.python = sys.executable
    return bool(host.call("ping", {"echo": "through"})["echo"] == "through")


def test_through_a_jump_host(sshd: Sshd, reach: Reach) -> None:
    assert works(reach(sshd, sshd.host("jumped", ProxyJump="box")))


def test_jump_hosts_are_passed_in_the_order_that_openssh_takes(own_sshd: Callable[..., Sshd], reach: Reach) -> None:
    # Each of them lets through to the next one only: the other order fails.
    target = own_sshd(name="target")
    second = own_sshd(f"PermitOpen 127.0.0.1:{target.port}", name="second")
    first = own_sshd(f"PermitOpen 127.0.0.1:{second.port}", name="first")
    keys = {"IdentityFile": str(target.key), "UserKnownHostsFile": str(target.known_hosts)}
    for sshd in (first, second):
        shutil.copy(target.folder / "authorized_keys", sshd.folder / "authorized_keys")
        with target.known_hosts.open("a") as f:
            f.write(sshd.known_hosts.read_text())
    target.host("first", Port=str(first.port), **keys)
    target.host("second", Port=str(second.port), **keys)
    assert works(reach(target, target.host("far", ProxyJump="first,second")))


def test_a_jump_host_that_is_reached_through_another_by_its_own_config(sshd: Sshd, reach: Reach) -> None:
    sshd.host("inner", ProxyJump="box")
    assert works(reach(sshd, sshd.host("innermost", ProxyJump="inner")))


def test_a_jump_over_itself_is_none(own_sshd: Callable[..., Sshd], reach: Reach) -> None:
    sshd = own_sshd()
    with sshd.config.open("a") as f:
        f.write("Host *\n  ProxyJump box\n")
    assert works(reach(sshd, "box"))


def test_jumps_in_a_circle_are_an_error(sshd: Sshd, reach: Reach) -> None:
    sshd.host("round", ProxyJump="about")
    sshd.host("about", ProxyJump="round")
    with pytest.raises(InputError) as caught:
        reach(sshd, "round")
    assert caught.value.code == "ssh-proxyjump-loop"


def test_a_jump_host_is_verified_too(sshd: Sshd, reach: Reach) -> None:
    sshd.host("strange-jump", UserKnownHostsFile="/dev/null")
    with pytest.raises(UnreachableError, match="strange-jump") as caught:
        works(reach(sshd, sshd.host("behind-strange", ProxyJump="strange-jump")))
    assert caught.value.code == "host-key-unknown"


def test_a_login_that_fails_on_the_way_names_the_jump_host(sshd: Sshd, reach: Reach) -> None:
    sshd.host("closed-jump", IdentityFile="/nonexistent/key")
    with pytest.raises(UnreachableError, match="the login on closed-jump failed") as caught:
        works(reach(sshd, sshd.host("behind-closed", ProxyJump="closed-jump")))
    assert caught.value.where.endswith(", on the way to behind-closed")
    assert caught.value.try_.startswith("ssh")


def test_a_target_that_the_jump_host_cannot_reach(sshd: Sshd, reach: Reach) -> None:
    with pytest.raises(UnreachableError, match="box cannot reach it") as caught:
        works(reach(sshd, sshd.host("dead-behind", ProxyJump="box", Port="1")))
    assert caught.value.code == "ssh-unreachable"


PROXIES = [
    ("a plain command", "ssh -F {config} -W %h:%p box"),
    ("shell syntax in it", "sh -c 'ssh -F {config} -W %h:%p box 2>/dev/null' # a comment"),
    ("a user and a percent sign in it", "env X=100%% ssh -F {config} -l %r -W %h:%p box 2>/dev/null"),
]


@pytest.mark.parametrize("command", [p[1] for p in PROXIES], ids=[p[0] for p in PROXIES])
def test_through_a_proxy_command(sshd: Sshd, reach: Reach, command: str) -> None:
    name = sshd.host(f"proxied-{abs(hash(command))}", ProxyCommand=command.format(config=sshd.config))
    assert works(reach(sshd, name))


def test_a_proxy_command_that_fails_is_told_at_once(sshd: Sshd, reach: Reach) -> None:
    with pytest.raises(UnreachableError) as caught:
        works(reach(sshd, sshd.host("broken-proxy", ProxyCommand="false")))
    assert caught.value.code == "ssh-unreachable"


def test_no_proxy_command_is_left_running(sshd: Sshd, reach: Reach) -> None:
    mark = f"mark-{os.getpid()}"
    command = f"sh -c 'exec ssh -F {sshd.config} -o SetEnv=X={mark} -W %h:%p box'"
    host = reach(sshd, sshd.host("proxied-once", ProxyCommand=command))
    assert works(host)
    assert mark in processes()
    host.close()
    assert mark not in processes()


def processes() -> str:
    return subprocess.run(["ps", "-eww", "-o", "args"], capture_output=True, text=True, check=True).stdout


# --- which host, which user, which key --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "form", ["{user}@127.0.0.1:{port}", "ssh://{user}@127.0.0.1:{port}", "{user}@[127.0.0.1]:{port}"]
)
def test_an_address_with_everything_in_it(own_sshd: Callable[..., Sshd], reach: Reach, form: str) -> None:
    sshd = own_sshd()
    sshd.config.write_text(f"IdentityFile {sshd.key}\nUserKnownHostsFile {sshd.known_hosts}\nUser nobody\nPort 1\n")
    assert works(reach(sshd, form.format(user=getpass.getuser(), port=sshd.port)))


def test_a_connection_that_fabric_made_leads_to_the_same_host(sshd: Sshd) -> None:
    config = fabric.Config(runtime_ssh_path=str(sshd.config))
    transport = ssh.from_connection(fabric.Connection("box", config=config))
    assert transport.label == "box"
    assert works(Host(transport))
    transport.close()


def test_what_the_caller_gave_fabric_beats_the_config(own_sshd: Callable[..., Sshd]) -> None:
    sshd = own_sshd()
    sshd.host("elsewhere", User="nobody", Port="1")
    config = fabric.Config(runtime_ssh_path=str(sshd.config))
    given = fabric.Connection("elsewhere", user=getpass.getuser(), port=sshd.port, config=config)
    transport = ssh.from_connection(given)
    assert works(Host(transport))
    transport.close()


def test_fabrics_own_identity_flag(sshd: Sshd, reach: Reach) -> None:
    name = sshd.host("keyless", IdentityFile="/nonexistent/key")
    assert works(reach(sshd, name, fabric_config={"connect_kwargs": {"key_filename": [str(sshd.key)]}}))


def test_an_identity_flag_that_names_no_file_is_an_error_of_the_operator(sshd: Sshd, reach: Reach) -> None:
    with pytest.raises(InputError, match="no key file can be read: /nonexistent/key") as caught:
        works(reach(sshd, fabric_config={"connect_kwargs": {"key_filename": ["/nonexistent/key"]}}))
    assert caught.value.code == "ssh-key-missing"


def test_identity_files_that_are_not_there_are_passed_over(sshd: Sshd, reach: Reach) -> None:
    name = sshd.host("two-keys", IdentityFile=f"/nonexistent/key\n  IdentityFile {sshd.key}")
    assert works(reach(sshd, name))


def test_a_certificate_beside_the_key(own_sshd: Callable[..., Sshd], reach: Reach, tmp_path: Path) -> None:
    authority = make_key(tmp_path / "authority")
    sshd = own_sshd(f"TrustedUserCAKeys {authority}.pub")
    key = make_key(tmp_path / "certified")
    sign = ["ssh-keygen", "-q", "-s", str(authority), "-I", "me", "-n", getpass.getuser(), f"{key}.pub"]
    subprocess.run(sign, check=True)
    assert works(reach(sshd, sshd.host("certified", IdentityFile=str(key))))


@pytest.fixture
def agent(tmp_path: Path, sshd: Sshd) -> Iterator[Path]:
    """A real ssh-agent that holds the key of sshd."""
    socket = tmp_path / "agent.sock"
    process = subprocess.Popen(["ssh-agent", "-D", "-a", str(socket)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    subprocess.run(["ssh-add", "-q", str(sshd.key)], check=True, env={**os.environ, "SSH_AUTH_SOCK": str(socket)})
    yield socket
    process.terminate()
    process.wait()


def test_the_agent_that_the_config_names(sshd: Sshd, reach: Reach, agent: Path) -> None:
    name = sshd.host("agent-named", IdentityFile="none", IdentitiesOnly="no", IdentityAgent=str(agent))
    assert works(reach(sshd, name))


def test_the_agent_of_the_environment(sshd: Sshd, reach: Reach, agent: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSH_AUTH_SOCK", str(agent))
    name = sshd.host("agent-env", IdentityFile="none", IdentitiesOnly="no", IdentityAgent="")
    assert works(reach(sshd, name))


def test_identities_only_keeps_the_other_keys_of_the_agent_back(
    sshd: Sshd, reach: Reach, agent: Path, tmp_path: Path
) -> None:
    key = make_key(tmp_path / "other")
    name = sshd.host("agent-only", IdentityFile=str(key), IdentityAgent=str(agent))
    with pytest.raises(UnreachableError) as caught:
        works(reach(sshd, name))
    assert caught.value.code == "ssh-auth-failed"


def test_identities_only_takes_the_key_from_the_agent_by_its_public_half(
    sshd: Sshd, reach: Reach, agent: Path, tmp_path: Path
) -> None:
    shutil.copy(f"{sshd.key}.pub", tmp_path / "mine.pub")
    name = sshd.host("agent-public", IdentityFile=str(tmp_path / "mine.pub"), IdentityAgent=str(agent))
    assert works(reach(sshd, name))


# --- files of the config ----------------------------------------------------------------------------------------------


def test_an_included_file_counts(own_sshd: Callable[..., Sshd], reach: Reach, tmp_path: Path) -> None:
    sshd = own_sshd()
    block = sshd.config.read_text().replace("Host box", "Host included")
    (tmp_path / "more").write_text(block)
    sshd.config.write_text(f"Include {tmp_path}/mor*\n")
    host = reach(sshd, "included")
    assert works(host)
    assert host.notes == ()


def test_a_match_that_asks_a_program_counts(own_sshd: Callable[..., Sshd], reach: Reach) -> None:
    sshd = own_sshd()
    sshd.config.write_text(sshd.config.read_text().replace("Host box", 'Match originalhost cloud exec "true"'))
    assert works(reach(sshd, "cloud"))


def test_without_openssh_on_this_machine_the_config_is_still_read(
    sshd: Sshd, reach: Reach, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert works(reach(sshd, "box"))


def test_without_openssh_an_include_is_named(
    own_sshd: Callable[..., Sshd], reach: Reach, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    sshd = own_sshd()
    monkeypatch.setenv("PATH", str(tmp_path))
    sshd.config.write_text(f"Include {tmp_path}/more\n{sshd.config.read_text()}")
    host = reach(sshd, "box")
    assert len(host.notes) == 1
    assert host.notes[0].startswith(f"ssh config: Include {tmp_path}"[:30])
