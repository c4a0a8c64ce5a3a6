"""What the operator's ssh config wants for a host and our SSH library (paramiko) does not do: named, never ignored."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass

from sglfab.transports.ssh_options import Options

_YES = ("yes", "true", "on", "always")


@dataclass(frozen=True)
class Note:
    """One option that is not honoured, or honoured at a risk.

    level: warning for what may keep us out or let in the wrong host, else info. about: login, way, identity or program.
    """

    option: str
    value: str
    text: str
    level: str
    about: str

    def __str__(self) -> str:
        return f"ssh config: {self.option} {self.value}: {self.text}".replace("  ", " ")


@dataclass(frozen=True)
class _Rule:
    """applies: whether this value asks for what we do not do."""

    about: str
    name: str
    text: str
    level: str = "warning"
    applies: Callable[[str], bool] = lambda value: value.lower() not in ("no", "false", "none", "off", "")


def _is_yes(value: str) -> bool:
    return value.lower() in _YES


def _not_locale(value: str) -> bool:
    return any(not word.startswith(("LANG", "LC_", "COLORTERM", "NO_COLOR")) for word in value.split())


_OWN_CHOICE = "our SSH library negotiates its own algorithms"
_NO_FORWARDING = "nothing is forwarded for our calls"

# Read from paramiko 5.1 and fabric 3.2: what neither of them looks at. Spelled as the manual page spells it.
_RULES = (
    _Rule("login", "GSSAPIAuthentication", "Kerberos logins are not used; keys and the ssh-agent are", "info", _is_yes),
    _Rule(
        "login",
        "HostbasedAuthentication",
        "host-based logins are not used; keys and the ssh-agent are",
        applies=_is_yes,
    ),
    _Rule("login", "PKCS11Provider", "smart cards are reached through the ssh-agent only: ssh-add -s PROVIDER"),
    _Rule("login", "SecurityKeyProvider", "FIDO keys are reached through the ssh-agent only: ssh-add KEYFILE"),
    _Rule("login", "CertificateFile", "only KEY-cert.pub beside a key is used; name it so, or ssh-add the key"),
    _Rule("login", "PreferredAuthentications", "keys, then the ssh-agent, are tried, in that order", "info"),
    _Rule(
        "login",
        "PubkeyAuthentication",
        "public keys are tried all the same",
        "info",
        lambda v: v.lower() in ("no", "false"),
    ),
    _Rule("login", "PubkeyAcceptedAlgorithms", _OWN_CHOICE, "info"),
    _Rule(
        "way",
        "ControlMaster",
        "an open master connection is not reused: each of our commands logs in by itself",
        "info",
    ),
    _Rule(
        "way", "ControlPath", "an open master connection is not reused: each of our commands logs in by itself", "info"
    ),
    _Rule("way", "ProxyUseFdpass", "a proxy that passes a file descriptor cannot be used", applies=_is_yes),
    _Rule("way", "BindAddress", "the system chooses the source address"),
    _Rule("way", "BindInterface", "the system chooses the interface"),
    _Rule("way", "AddressFamily", "both IPv4 and IPv6 are tried", "info", lambda v: v.lower() in ("inet", "inet6")),
    _Rule("way", "Ciphers", _OWN_CHOICE, "info"),
    _Rule("way", "KexAlgorithms", _OWN_CHOICE, "info"),
    _Rule("way", "MACs", _OWN_CHOICE, "info"),
    _Rule(
        "identity",
        "HostKeyAlgorithms",
        "the kinds of keys in known_hosts come first, then our library's own order",
        "info",
    ),
    _Rule("identity", "KnownHostsCommand", "host keys come from known_hosts files only"),
    _Rule("identity", "VerifyHostKeyDNS", "host keys come from known_hosts files only", applies=_is_yes),
    _Rule("identity", "RevokedHostKeys", "this list is not read; @revoked lines of known_hosts are"),
    _Rule(
        "identity",
        "StrictHostKeyChecking",
        "the host's identity is NOT verified, as your ssh config asks",
        applies=lambda value: value.lower() in ("no", "off", "false"),
    ),
    _Rule("program", "ForwardAgent", "the ssh-agent is not forwarded", "info"),
    _Rule("program", "RemoteCommand", "our own program runs instead", "info"),
    _Rule("program", "SetEnv", "put it into `env:` of the profile"),
    _Rule("program", "SendEnv", "put it into `env:` of the profile", "info", _not_locale),
    _Rule("program", "LocalForward", _NO_FORWARDING, "info"),
    _Rule("program", "RemoteForward", _NO_FORWARDING, "info"),
    _Rule("program", "DynamicForward", _NO_FORWARDING, "info"),
)

# What only OpenSSH resolves; without `ssh -G` these words of the file stay unread.
_UNRESOLVED = (
    _Rule("way", "Include", "the included files are not read: install OpenSSH's client, `ssh`, on this machine"),
)


def notes_of(options: Options) -> tuple[Note, ...]:
    """The notes for one host, in the order of the rules; those about key files last."""
    rules = _RULES if options.resolved else _UNRESOLVED + _RULES
    found = [note for rule in rules if (note := _note(rule, options))]
    return (*_complaint(options), *found, *_key_notes(options))


def _note(rule: _Rule, options: Options) -> Note | None:
    values = options.values.get(rule.name.lower(), ())
    asking = next((value for value in values if rule.applies(value)), None)
    return Note(rule.name, _short(asking), rule.text, rule.level, rule.about) if asking is not None else None


def _short(value: str) -> str:
    return value if len(value) <= 40 else value[:37] + "…"


def _complaint(options: Options) -> tuple[Note, ...]:
    if not options.complaint:
        return ()
    text = f"OpenSSH itself does not take it, so that we read it by our own means: {options.complaint}"
    return (Note("file", "", text, "warning", "way"),)


def _key_notes(options: Options) -> tuple[Note, ...]:
    """FIDO keys: the file holds only a handle, which paramiko cannot read."""
    text = "a FIDO key file is not read; through the ssh-agent it may work: ssh-add " + "{}"
    files = options.values.get("identityfile", ())
    fido = [file for file in files if _is_fido(os.path.expanduser(file))]
    return tuple(Note("IdentityFile", file, text.format(file), "warning", "login") for file in fido)


def _is_fido(path: str) -> bool:
    try:
        with open(path + ".pub", encoding="ascii", errors="replace") as f:
            return f.read(3) == "sk-"
    except OSError:
        return path.endswith("_sk")
