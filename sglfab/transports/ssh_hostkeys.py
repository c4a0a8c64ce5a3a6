"""Host keys are verified against known_hosts, as OpenSSH would do without a terminal to ask at."""

from __future__ import annotations

import base64
import contextlib
import fnmatch
import hashlib
import os
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paramiko import HostKeys, MissingHostKeyPolicy, PKey
from paramiko.hostkeys import HostKeyEntry, InvalidHostKey

from sglfab.errors import UnreachableError
from sglfab.transports.ssh_options import Options

_USER_FILES = ("~/.ssh/known_hosts", "~/.ssh/known_hosts2")
_GLOBAL_FILES = ("/etc/ssh/ssh_known_hosts", "/etc/ssh/ssh_known_hosts2")


@dataclass(frozen=True)
class Known:
    """One line of a known_hosts file that speaks of the host. marker: "", "revoked" or "cert-authority"."""

    file: Path
    line: int
    marker: str
    key_type: str
    key: PKey | None  # None: a kind of key that paramiko does not know


def known_files(options: Options) -> tuple[Path, ...]:
    """The known_hosts files for that host, the operator's own first; `none` is none."""
    user = _paths(options, "userknownhostsfile", _USER_FILES)
    return user + _paths(options, "globalknownhostsfile", _GLOBAL_FILES)


def _paths(options: Options, name: str, default: tuple[str, ...]) -> tuple[Path, ...]:
    values = options.values.get(name)
    if values is None:
        words: tuple[str, ...] = default
    elif os.path.exists(os.path.expanduser(values[0])):  # one path with spaces in it: `ssh -G` drops the quotes
        words = (values[0],)
    else:
        words = tuple(shlex.split(values[0]))
    return tuple(Path(_expanded(word, options)) for word in words if word.lower() != "none")


def _expanded(word: str, options: Options) -> str:
    tokens = {"%%": "%", "%d": os.path.expanduser("~"), "%h": options.hostname, "%p": str(options.port)}
    tokens |= {"%n": options.address.host, "%k": options.first("hostkeyalias") or options.address.host}
    for token, value in tokens.items():
        word = word.replace(token, value)
    return os.path.expanduser(os.path.expandvars(word))


def names_of(options: Options) -> tuple[str, ...]:
    """What known_hosts calls the host: its alias, else [host]:port, and the plain name as OpenSSH's second try."""
    alias = options.first("hostkeyalias")
    host = (alias or options.hostname).lower()
    return (host,) if alias or options.port == 22 else (f"[{host}]:{options.port}", host)


def look_up(files: tuple[Path, ...], name: str) -> list[Known]:
    return [known for file in files for known in _matching(file, name)]


def _matching(file: Path, name: str) -> Iterator[Known]:
    try:
        text = file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return
    for number, line in enumerate(text.split("\n"), start=1):
        fields = line.split()
        marker = fields.pop(0)[1:] if fields and fields[0].startswith("@") else ""
        if len(fields) >= 3 and not fields[0].startswith("#") and _names(fields[0], name):
            yield Known(file, number, marker, fields[1], _key(fields))


def _key(fields: list[str]) -> PKey | None:
    try:
        entry = HostKeyEntry.from_line(" ".join(fields[:3]))
    except (InvalidHostKey, ValueError):
        return None
    return entry.key if entry else None


def _names(patterns: str, name: str) -> bool:
    """Whether the first field of a line speaks of that name: hashed, plain, with wildcards, negated by `!`."""
    found = False
    for pattern in patterns.split(","):
        if pattern.startswith("|1|"):
            found = found or HostKeys.hash_host(name, pattern) == pattern
        elif pattern.startswith("!") and _like(name, pattern[1:]):
            return False
        else:
            found = found or _like(name, pattern)
    return found


def _like(name: str, pattern: str) -> bool:
    # Only * and ? are special in known_hosts; brackets belong to [host]:port.
    return fnmatch.fnmatchcase(name, pattern.lower().replace("[", "[[]"))


def fingerprint(key: PKey) -> str:
    """As `ssh-keygen -lf` prints it."""
    digest = base64.b64encode(hashlib.sha256(key.asbytes()).digest()).decode().rstrip("=")
    return f"{key.get_name()} SHA256:{digest}"


class VerifyHostKey(MissingHostKeyPolicy):  # type: ignore[misc]  # paramiko has no types
    """Decides about the key that the host showed. The client holds no keys of its own, so that it asks for each.

    StrictHostKeyChecking: `no` takes any key (ssh_features says so), `accept-new` records an unknown one, all else
    refuses.
    """

    def __init__(self, options: Options) -> None:
        self._options, self._files = options, known_files(options)
        self._names = names_of(options)
        self._known = [look_up(self._files, name) for name in self._names]
        strict = (options.first("stricthostkeychecking") or "ask").lower()
        self._trusting, self._accept_new = strict in ("no", "off", "false"), strict == "accept-new"

    def key_types(self) -> tuple[str, ...]:
        """The algorithms to ask for first: those whose keys we know."""
        types = [known.key_type for level in self._known for known in level if known.marker == "" and known.key]
        rsa = ("rsa-sha2-512", "rsa-sha2-256")
        return tuple(dict.fromkeys(a for t in types for a in (rsa if t == "ssh-rsa" else (t,))))

    def missing_host_key(self, client: Any, hostname: str, key: PKey) -> None:
        """Return when the key is right. Raises UnreachableError host-key-mismatch, -revoked or -unknown."""
        revoked = [k for level in self._known for k in level if k.marker == "revoked" and k.key == key]
        if revoked:
            raise self._refused("host-key-revoked", f"is marked as revoked in {_at(revoked[0])}", key)
        if self._trusting or any(k.key == key and k.marker == "" for level in self._known for k in level):
            return
        # As OpenSSH: the plain name may confirm a key of [host]:port, but never speaks against it.
        rivals = [k for k in self._known[0] if k.marker == "" and k.key_type == key.get_name()]
        if rivals:
            raise self._mismatch(rivals[0], key)
        if not self._accept_new:
            raise self._unknown(key)
        self._record(key)

    def _mismatch(self, known: Known, key: PKey) -> UnreachableError:
        what = f"is not the one in {_at(known)}: somebody may stand between, or the host was installed anew"
        try_ = (
            f"if you know why it changed: ssh-keygen -R {shlex.quote(self._names[0])} -f {shlex.quote(str(known.file))}"
        )
        return self._refused("host-key-mismatch", what, key, try_)

    def _unknown(self, key: PKey) -> UnreachableError:
        others = sorted({"a certificate authority" if k.marker else k.key_type for level in self._known for k in level})
        files = dict.fromkeys(str(f) for f in self._files if f.is_file())
        what = f"is not in {', '.join(files)}" if files else "is not known: there is no known_hosts file"
        if others:
            what += f"; it is known by {', '.join(others)} only, which we cannot check"
        return self._refused("host-key-unknown", what, key, self._how_to_accept())

    def _how_to_accept(self) -> str:
        port = f"-p {self._options.port} " if self._options.port != 22 else ""
        file = next((shlex.quote(str(f)) for f in self._files if str(f) != os.devnull), _USER_FILES[0])
        scan = f"ssh-keyscan {port}{self._options.hostname} >> {file}"
        return (
            f"`ssh {self._options.address}` once and compare the fingerprint, or, on a network that you trust: {scan}"
        )

    def _refused(
        self, code: str, what: str, key: PKey, try_: str = "ask who runs the host for its new key"
    ) -> UnreachableError:
        named = f"the host key of {self._options.address.host} ({fingerprint(key)}) {what}"
        return UnreachableError(code, named, where=f"{self._options.hostname}:{self._options.port}", try_=try_)

    def _record(self, key: PKey) -> None:
        """Append it as OpenSSH does; a file that cannot be written does not stop the connection."""
        name = HostKeys.hash_host(self._names[0]) if self._options.flag("hashknownhosts") else self._names[0]
        line = HostKeyEntry([name], key).to_line()
        for file in self._files[:1]:
            with contextlib.suppress(OSError):
                file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                fd = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
                with os.fdopen(fd, "a", encoding="ascii") as f:
                    f.write(line)


def _at(known: Known) -> str:
    return f"{known.file}:{known.line}"
