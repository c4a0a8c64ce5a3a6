"""Who does it: named in locks and run records."""

from __future__ import annotations

import getpass
import socket
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Operator:
    name: str
    laptop: str


def operator(environ: Mapping[str, str]) -> Operator:
    """SGLFAB_OPERATOR, for shared accounts, else the login name; the laptop is this machine's host name."""
    return Operator(name=environ.get("SGLFAB_OPERATOR") or getpass.getuser(), laptop=socket.gethostname())
