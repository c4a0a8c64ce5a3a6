"""The operator's ssh-agent, used as the ssh config wants: paramiko takes SSH_AUTH_SOCK and offers all it has."""

from __future__ import annotations

import base64
import binascii
import contextlib
import os
import socket
from collections.abc import Iterable

from paramiko import SSHException
from paramiko.agent import AgentKey, AgentSSH

from sglfab.transports.ssh_options import Options

_ANSWER_S = 30.0  # some agents show a window and wait for a person


class OperatorAgent(AgentSSH):  # type: ignore[misc]  # paramiko has no types
    """Takes the place of `paramiko.Agent`; an agent that does not answer has no keys.

    path: its socket. only: the public keys (blobs) to offer; None: all that the agent has.
    """

    def __init__(self, path: str, only: frozenset[bytes] | None) -> None:
        super().__init__()
        self._only = only
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.settimeout(_ANSWER_S)
        with contextlib.suppress(OSError, SSHException):
            connection.connect(path)
            self._connect(connection)

    def get_keys(self) -> tuple[AgentKey, ...]:
        return tuple(key for key in super().get_keys() if self._only is None or key.asbytes() in self._only)

    def close(self) -> None:
        self._close()


def agent_socket(options: Options) -> str | None:
    """IdentityAgent, else SSH_AUTH_SOCK; None: no agent is to be asked."""
    named = options.values.get("identityagent", ("SSH_AUTH_SOCK",))[0]
    if named.lower() == "none":
        return None
    if named == "SSH_AUTH_SOCK":
        return os.environ.get("SSH_AUTH_SOCK")
    return os.path.expanduser(os.path.expandvars(named))


def wanted_keys(options: Options, files: Iterable[str]) -> frozenset[bytes] | None:
    """The public keys that IdentitiesOnly leaves to offer: those beside the identity files. None: no limit."""
    if not options.flag("identitiesonly"):
        return None
    blobs = (_public_blob(path if path.endswith(".pub") else path + ".pub") for path in files)
    return frozenset(blob for blob in blobs if blob)


def _public_blob(path: str) -> bytes | None:
    try:
        with open(path, encoding="ascii", errors="replace") as f:
            return base64.b64decode(f.read().split()[1])
    except (OSError, IndexError, binascii.Error):
        return None
