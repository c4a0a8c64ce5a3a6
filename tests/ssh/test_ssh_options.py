"""What the ssh config says for a host, as OpenSSH itself reads it."""

from __future__ import annotations

from pathlib import Path

import fabric
import pytest

from sglfab.errors import InputError
from sglfab.transports.ssh_address import parse_address
from sglfab.transports.ssh_features import notes_of
from sglfab.transports.ssh_options import Options, read_options

pytestmark = pytest.mark.ssh


@pytest.fixture
def options(tmp_path: Path):
    def read(text: str, host: str = "gpu1") -> Options:
        file = tmp_path / "ssh config"
        file.write_text(text)
        return read_options(parse_address(host), fabric.Config(runtime_ssh_path=str(file)))

    return read


CASES = [
    ("nothing is set", "", {"hostname": ("gpu1",)}),
    ("another host is set", "Host gpu2\n User ada\n", {"hostname": ("gpu1",)}),
    ("what equals the default is not set", "Port 22\nCompression no\n", {"hostname": ("gpu1",)}),
    ("the first value wins", "User ada\nUser bob\n", {"hostname": ("gpu1",), "user": ("ada",)}),
    ("key files add up", "IdentityFile /a\nIdentityFile /b\n", {"hostname": ("gpu1",), "identityfile": ("/a", "/b")}),
    ("a name is completed", "HostName %h.example.com\n", {"hostname": ("gpu1.example.com",)}),
    ("no jump", "ProxyJump none\n", {"hostname": ("gpu1",)}),
    ("a negated pattern", "Host * !gpu1\n User ada\n", {"hostname": ("gpu1",)}),
    ("a final match", "Match final\n User ada\n", {"hostname": ("gpu1",), "user": ("ada",)}),
]


@pytest.mark.parametrize(("text", "values"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_values(options, text: str, values: dict[str, tuple[str, ...]]) -> None:
    found = options(text)
    assert found.resolved
    assert dict(found.values) == values


def test_none_is_no_value(options) -> None:
    assert options("ProxyJump none\n").first("proxyjump") is None


def test_the_operators_port_beats_the_file(options) -> None:
    assert options("Port 2222\n").port == 2222
    assert options("Port 2222\n", "gpu1:2200").port == 2200


def test_the_operators_user_chooses_the_match(options) -> None:
    text = "Match user ada\n  Port 2222\n"
    assert options(text, "ada@gpu1").port == 2222
    assert options(text, "bob@gpu1").port == 22


def test_a_file_that_openssh_does_not_take_is_named_and_read_as_far_as_it_goes(options) -> None:
    found = options("Host gpu1\n  Port 2222\n  NoSuchOption yes\n")
    assert found.port == 2222
    assert not found.resolved
    (note,) = notes_of(found)
    assert "nosuchoption" in str(note).lower()


def test_a_file_that_nobody_can_read_is_an_error_of_the_operator(options) -> None:
    with pytest.raises(InputError) as caught:
        options("Match canonical\nHost gpu1\n  Port twenty\n CanonicalizeHostname always\n CanonicalizeMaxDots x\n")
    assert caught.value.code == "ssh-config-unreadable"


def test_a_port_that_is_no_number_is_an_error_of_the_operator(options) -> None:
    found = options("Port twenty\n")
    with pytest.raises(InputError) as caught:
        _ = found.port
    assert (caught.value.code, "port twenty" in caught.value.what) == ("ssh-config-unreadable", True)


def test_no_files_are_read_where_fabric_reads_none() -> None:
    config = fabric.Config(overrides={"load_ssh_configs": False})
    assert dict(read_options(parse_address("gpu1"), config).values) == {"hostname": ("gpu1",)}


def test_files_that_only_fabric_knows_of_are_read_by_its_parser(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("Host gpu1\n  User ada\n")
    config = fabric.Config(user_ssh_path=str(tmp_path / "mine"), system_ssh_path="/nonexistent")
    found = read_options(parse_address("gpu1"), config)
    assert (found.first("user"), found.resolved) == ("ada", False)
