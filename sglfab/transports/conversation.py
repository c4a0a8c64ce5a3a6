"""The protocol of one operation on one channel: bootstrap's greeting, the request, JSON lines back."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from sglfab.errors import HostsideBugError, InputError, SglfabError, from_json
from sglfab.transports.base import Channel, ChannelIdle, ChannelLost
from sglfab.transports.bundle import Bundle

Json = dict[str, Any]

_GREETINGS = ("have", "need", "error")
_NOISE_KEPT = 5
_SET_PYTHON = "set `python:` in the profile"
_NO_PROGRAM = re.compile(r"permission denied|is a directory|not an executable", re.IGNORECASE)
_MISSING = re.compile(r"command not found|no such file|unknown command", re.IGNORECASE)


@dataclass(frozen=True)
class Ended:
    """How a program ended that never spoke our protocol. said: the last of stderr, else of what it printed."""

    status: int
    said: str

    @property
    def not_executable(self) -> bool:
        """The path is there but is no program, such as the folder of a venv; csh has no 126 for that."""
        return self.status == 126 or bool(_NO_PROGRAM.search(self.said))

    @property
    def not_found(self) -> bool:
        """Nothing is there; a program whose library is missing ends with 127, too, but it is there."""
        return (self.status == 127 or bool(_MISSING.search(self.said))) and "shared librar" not in self.said


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
                self._send(program.framed())
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
        with self._located():
            yield from self._channel.lines(idle_s=idle_s)

    @contextmanager
    def _located(self) -> Iterator[None]:
        """A broken channel says which host it led to."""
        try:
            yield
        except (ChannelLost, ChannelIdle) as broken:
            broken.where = broken.where or self._where
            raise

    def send(self, request: Mapping[str, Any]) -> None:
        self._send(json.dumps(request).encode("ascii") + b"\n")

    def _send(self, data: bytes) -> None:
        with self._located():
            self._channel.send(data)

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
    where, said = f"{python} on {label}", ended.said[-500:]
    if ended.not_found:
        return InputError("no-python", f"there is no {where} ({said})", where=where, try_=_SET_PYTHON)
    if ended.not_executable:
        return InputError("no-python", f"{where} cannot be executed ({said})", where=where, try_=_SET_PYTHON)
    what = f"{where} did not run our program (status {ended.status}): {said}"
    return InputError("python-failed", what, where=where, try_=f"run `{python} --version` there")
