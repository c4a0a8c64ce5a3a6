"""Hosts as operators name them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sglfab.errors import InputError
from sglfab.transports.ssh_address import Address, parse_address

GOOD = [
    ("gpu1", Address("gpu1")),
    ("ada@gpu1", Address("gpu1", "ada")),
    ("gpu1:2222", Address("gpu1", None, 2222)),
    ("ada@gpu1.example.com:2222", Address("gpu1.example.com", "ada", 2222)),
    ("ada@corp.example.com@gpu1", Address("gpu1", "ada@corp.example.com")),
    ("DOMAIN\\ada@gpu1", Address("gpu1", "DOMAIN\\ada")),
    ("10.0.0.7", Address("10.0.0.7")),
    ("::1", Address("::1")),
    ("fe80::1", Address("fe80::1")),
    ("[fe80::1]", Address("fe80::1")),
    ("[fe80::1]:2222", Address("fe80::1", None, 2222)),
    ("fe80::1%eth0", Address("fe80::1%eth0")),
    ("ssh://ada@gpu1:2222", Address("gpu1", "ada", 2222)),
    ("ssh://gpu1/", Address("gpu1")),
    ("gpu_1", Address("gpu_1")),
]
BAD = [
    ("nothing", ""),
    ("a user only", "ada@"),
    ("an option of ssh", "-oProxyCommand=id"),
    ("a user that is an option of ssh", "-oProxyCommand=id@gpu1"),
    ("a port that is no number", "gpu1:ssh"),
    ("a port that is too large", "gpu1:65536"),
    ("port zero", "gpu1:0"),
    ("an empty port", "gpu1:"),
    ("two words", "gpu1 gpu2"),
    ("a newline", "gpu1\nProxyCommand id"),
    ("a command of the shell", "$(id)"),
    ("a command behind a name", "gpu1;id"),
    ("a bracket", "["),
    ("empty brackets", "[]"),
    ("a path", "gpu1/../x"),
]


@pytest.mark.parametrize(("text", "address"), GOOD, ids=[g[0] for g in GOOD])
def test_an_address(text: str, address: Address) -> None:
    assert parse_address(text) == address


@pytest.mark.parametrize("text", [b[1] for b in BAD], ids=[b[0] for b in BAD])
def test_no_address(text: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_address(text)
    assert (caught.value.code, caught.value.exit_code) == ("bad-host", 2)


@pytest.mark.parametrize("address", [g[1] for g in GOOD], ids=[g[0] for g in GOOD])
def test_it_reads_back_as_it_is_shown(address: Address) -> None:
    assert parse_address(str(address)) == address


@given(st.text())
def test_whatever_is_typed_is_an_address_or_an_error_of_ours(text: str) -> None:
    try:
        found = parse_address(text)
    except InputError:
        return
    assert found.host
    assert not found.host.startswith("-")
