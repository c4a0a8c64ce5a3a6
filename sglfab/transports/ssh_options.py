"""What the operator's ssh config says for one host, asked of OpenSSH itself where it is installed (decision 0002)."""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from paramiko.ssh_exception import ConfigParseError, CouldNotCanonicalize

from sglfab.errors import InputError
from sglfab.transports.local import output
from sglfab.transports.ssh_address import Address

_USER_FILE, _SYSTEM_FILE = "~/.ssh/config", "/etc/ssh/ssh_config"
_ASK_S = 15.0


@dataclass(frozen=True)
class Options:
    """Lower-case option → its values, in order; only what differs from OpenSSH's defaults, and always `hostname`.

    resolved: OpenSSH itself read the files; False: paramiko's parser did, which knows no Include.
    """

    address: Address
    values: Mapping[str, tuple[str, ...]]
    resolved: bool
    complaint: str = ""  # what OpenSSH itself says against the file

    def first(self, name: str) -> str | None:
        """The value, None where it is not set or is OpenSSH's word for that."""
        found = self.values.get(name, ())
        return found[0] if found and found[0].lower() != "none" else None

    def flag(self, name: str) -> bool:
        return (self.first(name) or "no").lower() in ("yes", "true", "always", "on")

    def number(self, name: str) -> int | None:
        """Raises InputError `ssh-config-unreadable`; OpenSSH has checked what it resolved."""
        found = self.first(name)
        if found is None or found.isdigit():
            return int(found) if found else None
        raise _unreadable(self.address, f"{name} {found} is no number")

    @property
    def hostname(self) -> str:
        return (self.first("hostname") or self.address.host).strip("[]")

    @property
    def port(self) -> int:
        return self.address.port or self.number("port") or 22


def read_options(address: Address, config: Any) -> Options:
    """The options for that host. config: a fabric Config, whose `-S` and `load_ssh_configs` are honoured.

    Raises InputError `ssh-config-unreadable`.
    """
    where = _config_file(config)
    asked = _ask(address, where) if where is not None else None
    if isinstance(asked, dict):
        return Options(address, asked, resolved=True)
    return _parsed(address, config, complaint=asked or "")


def _config_file(config: Any) -> tuple[str, ...] | None:
    """ssh's own arguments for the files that Fabric would read; None where only Fabric's parser can read them."""
    runtime = getattr(config, "_runtime_ssh_path", None)
    if runtime:
        return ("-F", os.path.abspath(os.path.expanduser(runtime)))
    if not config.load_ssh_configs:
        return ("-F", "none")
    files = (getattr(config, "_user_ssh_path", None), getattr(config, "_system_ssh_path", None))
    # ssh takes the home of the password database, Fabric takes $HOME.
    same_home = os.path.expanduser("~") == pwd.getpwuid(os.getuid()).pw_dir
    return () if files == (_USER_FILE, _SYSTEM_FILE) and same_home else None


def _ask(address: Address, where: tuple[str, ...]) -> dict[str, tuple[str, ...]] | str:
    """`ssh -G` minus its defaults, or why there is no answer ("" where OpenSSH is not installed)."""
    named = (*(("-l", address.user) if address.user else ()), *(("-p", str(address.port)) if address.port else ()))
    said = output(("ssh", "-G", *where, *named, "--", address.host), timeout_s=_ASK_S)
    plain = output(("ssh", "-G", "-F", "none", *named, "--", address.host), timeout_s=_ASK_S)
    if said.status == 127 or plain.status != 0:
        return ""
    if said.status != 0:
        return said.stderr.strip() or f"ssh -G ended with status {said.status}"
    return _minus(_table(said.stdout), _table(plain.stdout))


def _table(text: str) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for line in text.splitlines():
        name, _, value = line.partition(" ")
        found[name.lower()] = (*found.get(name.lower(), ()), value)
    return found


def _minus(table: dict[str, tuple[str, ...]], defaults: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    return {name: values for name, values in table.items() if name == "hostname" or values != defaults.get(name)}


def _parsed(address: Address, config: Any, *, complaint: str) -> Options:
    """The same through paramiko's parser, which Fabric has already fed."""
    try:
        found = config.base_ssh_config.lookup(address.host)
    except (ConfigParseError, CouldNotCanonicalize, OSError, KeyError, ValueError) as why:
        raise _unreadable(address, complaint or str(why)) from None
    values = {k: tuple(v) if isinstance(v, list) else (str(v),) for k, v in found.items() if v is not None}
    return Options(address, values, resolved=False, complaint=complaint)


def _unreadable(address: Address, why: str) -> InputError:
    what = f"the ssh config cannot be read for {address.host}: {why}"
    return InputError("ssh-config-unreadable", what, where=_USER_FILE, try_=f"ssh -G {address.host}")
