"""A server that is not ours, by what the operator named of it."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace

from sglfab.model import Json
from sglfab.sglang import cmdline


@dataclass(frozen=True)
class Foreign:
    """A server that is not ours, by what the operator named of it."""

    url: str | None = None
    log: str | None = None
    pid: int | None = None
    port: int | None = None
    http_host: str = "127.0.0.1"

    @property
    def by_url_alone(self) -> bool:
        """Whether its host is not asked: `--port` beside `--url` says nothing more."""
        return bool(self.url) and not (self.log or self.pid)

    def __str__(self) -> str:
        named = (("--url", self.url), ("--log", self.log), ("--pid", self.pid), ("--port", self.port))
        return " ".join(f"{flag} {shlex.quote(str(value))}" for flag, value in named if value is not None)


def completed(foreign: Foreign, seen: Json) -> Foreign:
    """What inspect-pid knows of the named process fills what the operator did not name: its log and its address."""
    http_host, port = cmdline.http_address(seen["cmdline"])
    listening = seen["ports"][0] if seen["ports"] and port not in seen["ports"] else port
    return replace(
        foreign,
        log=foreign.log or seen["log"],
        port=foreign.port or listening,
        http_host=http_host,
    )
