"""What the ssh config wants and does not get is named; what it gets is not."""

from __future__ import annotations

from pathlib import Path

import paramiko
import pytest

from sglfab.transports import ssh_features
from sglfab.transports.ssh_address import Address
from sglfab.transports.ssh_features import Note, notes_of
from sglfab.transports.ssh_options import Options

# option, a value that is named, a value that is not
TABLE = [
    ("GSSAPIAuthentication", "yes", "no"),
    ("HostbasedAuthentication", "yes", "no"),
    ("PKCS11Provider", "/usr/lib/card.so", "none"),
    ("SecurityKeyProvider", "/usr/lib/sk.so", "none"),
    ("CertificateFile", "~/.ssh/me-cert.pub", "none"),
    ("PreferredAuthentications", "password,publickey", ""),
    ("PubkeyAuthentication", "no", "yes"),
    ("PubkeyAcceptedAlgorithms", "ssh-ed25519", ""),
    ("ControlMaster", "auto", "false"),
    ("ControlPath", "~/.ssh/%C", "none"),
    ("ProxyUseFdpass", "yes", "no"),
    ("BindAddress", "10.0.0.1", "none"),
    ("BindInterface", "eth1", "none"),
    ("AddressFamily", "inet6", "any"),
    ("Ciphers", "aes256-ctr", ""),
    ("KexAlgorithms", "curve25519-sha256", ""),
    ("MACs", "hmac-sha2-256", ""),
    ("HostKeyAlgorithms", "ssh-ed25519", ""),
    ("KnownHostsCommand", "/usr/bin/keys %H", "none"),
    ("VerifyHostKeyDNS", "yes", "no"),
    ("RevokedHostKeys", "/etc/ssh/revoked", "none"),
    ("StrictHostKeyChecking", "no", "accept-new"),
    ("ForwardAgent", "$OTHER_SOCK", "no"),
    ("RemoteCommand", "tmux attach", "none"),
    ("SetEnv", "HF_HOME=/data", ""),
    ("SendEnv", "HF_TOKEN", "LC_*"),
    ("LocalForward", "8000 localhost:8000", ""),
    ("RemoteForward", "9 localhost:9", ""),
    ("DynamicForward", "1080", ""),
]
HONOURED = {
    "hostname": ("10.0.0.7",),
    "user": ("ada",),
    "port": ("2222",),
    "identityfile": ("~/.ssh/id_ed25519", "~/.ssh/work"),
    "identitiesonly": ("yes",),
    "identityagent": ("~/.1password/agent.sock",),
    "proxyjump": ("bastion",),
    "proxycommand": ("nc %h %p",),
    "userknownhostsfile": ("~/.ssh/known_cluster",),
    "hostkeyalias": ("gpu1",),
    "stricthostkeychecking": ("yes",),
    "connecttimeout": ("5",),
    "compression": ("yes",),
    "hashknownhosts": ("yes",),
    "serveraliveinterval": ("30",),
    "addkeystoagent": ("yes",),
    "loglevel": ("QUIET",),
}


def notes(values: dict[str, tuple[str, ...]], *, resolved: bool = True, complaint: str = "") -> tuple[Note, ...]:
    return notes_of(Options(Address("gpu1"), values, resolved=resolved, complaint=complaint))


@pytest.mark.parametrize(("option", "value"), [(t[0], t[1]) for t in TABLE], ids=[t[0] for t in TABLE])
def test_it_is_named(option: str, value: str) -> None:
    (note,) = notes({option.lower(): (value,)})
    assert note.option == option
    assert str(note).startswith(f"ssh config: {option} {value}: ")


@pytest.mark.parametrize(("option", "value"), [(t[0], t[2]) for t in TABLE], ids=[t[0] for t in TABLE])
def test_it_is_left_alone(option: str, value: str) -> None:
    assert notes({option.lower(): (value,)}) == ()


def test_every_rule_stands_in_the_table() -> None:
    assert [rule.name for rule in ssh_features._RULES] == [row[0] for row in TABLE]


def test_what_we_honour_is_not_named() -> None:
    assert notes(HONOURED) == ()


def test_two_variables_of_which_one_matters() -> None:
    (note,) = notes({"sendenv": ("LANG", "LC_* HF_TOKEN")})
    assert note.value == "LC_* HF_TOKEN"


def test_only_what_may_keep_us_out_or_lets_in_the_wrong_host_is_a_warning() -> None:
    levels = {note.option: note.level for row in TABLE for note in notes({row[0].lower(): (row[1],)})}
    assert levels["PKCS11Provider"] == levels["StrictHostKeyChecking"] == "warning"
    # Debian's own /etc/ssh/ssh_config turns this on for everybody.
    assert levels["GSSAPIAuthentication"] == levels["ControlMaster"] == "info"


def test_an_include_is_named_where_openssh_did_not_resolve_it() -> None:
    assert [note.option for note in notes({"include": ("config.d/*",)}, resolved=False)] == ["Include"]
    assert notes({"include": ("config.d/*",)}, resolved=True) == ()


def test_paramiko_still_reads_no_included_files(tmp_path: Path) -> None:
    """When this fails, paramiko has learned it, and the rule above can go."""
    (tmp_path / "more").write_text("Host gpu1\n  User ada\n")
    found = paramiko.SSHConfig.from_text(f"Include {tmp_path}/more\n").lookup("gpu1")
    assert "user" not in found


def test_what_openssh_says_against_the_file_is_told() -> None:
    (note,) = notes({}, resolved=False, complaint="line 3: Bad configuration option: usr")
    assert "Bad configuration option: usr" in str(note)


FIDO = [
    ("a key whose public half says so", "id_work", "sk-ssh-ed25519@openssh.com AAAA me", True),
    ("a key with the usual name and no public half", "id_ed25519_sk", None, True),
    ("a plain key", "id_ed25519", "ssh-ed25519 AAAA me", False),
    ("a plain key without a public half", "id_rsa", None, False),
]


@pytest.mark.parametrize(("name", "public", "named"), [f[1:] for f in FIDO], ids=[f[0] for f in FIDO])
def test_fido_keys(tmp_path: Path, name: str, public: str | None, named: bool) -> None:
    if public:
        (tmp_path / f"{name}.pub").write_text(public)
    found = notes({"identityfile": (str(tmp_path / name),)})
    assert [note.option for note in found] == (["IdentityFile"] if named else [])
