"""The protocol of one operation on one channel: bootstrap's greeting, the request, JSON lines back."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sglfab.errors import HostsideBugError, InputError, SglfabError, from_json
from sglfab.transports.base import Channel, ChannelIdle, ChannelLost
from sglfab.transports.bundle import Bundle

Json = dict[str, Any]

_GREETINGS = ("have", "need", "error")
_NOISE_KEPT = 5
_SET_PYTHON = "set `python:` in the profile"
_MISSING = re.compile(r"command not found|no such file|unknown command", re.IGNORECASE)


@dataclass(frozen=True)
class Ended:
    """How a program ended that never spoke our protocol. said: the last of stderr, else of what it printed."""

    status: int
    said: str


class Conversation:
    """One hostside process. Lines that are no protocol (a login shell that prints) are skipped, kept for messages."""

    def __init__(self, channel: Channel, where: str) -> None:
        self._channel, self._where = channel, where
        self._noise: list[str] = []
        self.gap: str | None = None

    def begin(self, program: Bundle, *, idle_s: float) -> Ended | None:
        """Bring the bundle to life; how it ended when that failed. Any failure closes the channel."""
        try:
            greeting = self._next(_GREETINGS, idle_s)
            if greeting is not None and "need" in greeting:
                self._channel.send(program.framed())
                greeting = self._next(_GREETINGS, idle_s)
            return self._greeted(greeting, idle_s)
        except BaseException:
            self.close()
            raise

    def _greeted(self, greeting: Json | None, idle_s: float) -> Ended | None:
        if greeting is None:
            ended = self.ended(idle_s=idle_s)
            self.close()
            return ended
        if "error" in greeting:
            raise self._error(greeting["error"])
        self.gap = greeting.get("gap")
        return None

    def _next(self, keys: tuple[str, ...], idle_s: float) -> Json | None:
        """The next line that has one of these keys; None at the end of the stream."""
        for line in self._lines(idle_s):
            message = _parsed(line)
            if message is not None and any(key in message for key in keys):
                return message
            if line.strip() and len(self._noise) < _NOISE_KEPT:
                self._noise.append(line.decode("utf-8", "replace").strip()[:200])
        return None

    def _lines(self, idle_s: float) -> Iterator[bytes]:
        try:
            yield from self._channel.lines(idle_s=idle_s)
        except (ChannelLost, ChannelIdle) as broken:
            broken.where = broken.where or self._where
            raise

    def send(self, request: Mapping[str, Any]) -> None:
        self._channel.send(json.dumps(request).encode("ascii") + b"\n")

    def next_message(self, *, idle_s: float) -> Json:
        """An event or the reply. Raises the error that hostside sent, ChannelLost, ChannelIdle."""
        message = self._next(("event", "reply", "error"), idle_s)
        if message is None:
            raise self._cut_off(self.ended(idle_s=idle_s))
        if "error" in message:
            raise self._error(message["error"])
        return message

    def ended(self, *, idle_s: float) -> Ended:
        status = self._channel.wait(timeout_s=idle_s)
        return Ended(status, self._channel.stderr_tail().strip() or " / ".join(self._noise))

    def _error(self, error: Json) -> SglfabError:
        found = from_json(error)
        found.where = f"{self._where}: {found.where}" if found.where else self._where
        return found

    def _cut_off(self, ended: Ended) -> SglfabError:
        """It ended without an answer: killed (as good as a lost connection), or failed by itself (a bug of ours)."""
        if ended.status == 0 or ended.status < 0 or ended.status > 128:
            return ChannelLost(f"our program on the host was ended (status {ended.status})", where=self._where)
        what = f"our program on the host ended with status {ended.status}: {ended.said[-500:]}"
        return HostsideBugError("hostside-bug", what, where=self._where, try_="report this")

    def close(self) -> None:
        self._channel.close()


def _parsed(line: bytes) -> Json | None:
    if not line.startswith(b"{"):
        return None
    try:
        message = json.loads(line)
    except ValueError:
        return None
    return message if isinstance(message, dict) else None


def no_python(python: str, label: str, ended: Ended) -> InputError:
    """The error for an interpreter that did not start: missing, not executable, or something that is no Python."""
    where = f"{python} on {label}"
    if ended.status == 127 or _MISSING.search(ended.said):
        return InputError("no-python", f"there is no {python} on {label}", where=where, try_=_SET_PYTHON)
    if ended.status == 126:
        what = f"{python} on {label} cannot be executed: {ended.said[-300:]}"
        return InputError("no-python", what, where=where, try_=_SET_PYTHON)
    what = f"{python} on {label} did not run our program (status {ended.status}): {ended.said[-500:]}"
    return InputError("python-failed", what, where=where, try_=f"run `{python} --version` there")
