"""watch.jsonl: what a wait expected and every observation that it was told, so that it can be judged again."""

from __future__ import annotations

import errno
import json
import os
import re
from typing import Any, Dict, Optional, Sequence

from sglfab.hostside.failure import HostError
from sglfab.hostside.state import state_dir
from sglfab.hostside.waits import FILE, folder_of, hold

Json = Dict[str, Any]

# SGLang prints its arguments as Python or as JSON; the key of an adopted server is not ours to know beforehand.
_PRINTED = re.compile(r"""((?:api_key|password|hf_token)['"]?\s*[=:]\s*(['"]))((?:(?!\2).)+)""")


def recorder_of(request: Json, run_dir: Optional[str]) -> Recorder:
    """What a `watch` asks for: a record beside its run, else in a folder of that wait alone, or none."""
    wait, hide = request.get("record"), request.get("hide") or ()
    if not wait or run_dir:
        return Recorder(run_dir if wait else None, wait or {}, hide)
    try:
        folder = folder_of(state_dir(request), request.get("record_id"))
    except HostError as error:
        return Recorder(None, wait, hide, trouble="record: %s (%s)" % (error.what, error.where))
    return Recorder(folder, wait, hide, name=os.path.basename(folder))


class Recorder:
    """Appends observations, each with `watch`, the id of this connection: waits at the same time mix in one file."""

    def __init__(
        self,
        folder: Optional[str],
        wait: Json,
        hide: Sequence[str] = (),
        *,
        name: Optional[str] = None,
        trouble: Optional[str] = None,
    ) -> None:
        """folder: None records nothing. trouble: why, where it was asked for. name: of a record without a run.

        wait: the first line's data; its `shift_s` is how long the wait had lasted when this connection began.
        hide: secrets that the server may print; they do not get into a file of ours.
        """
        self._fd: Optional[int] = None
        self._trouble = trouble
        self._watch = os.urandom(4).hex()
        self._shift_s = float(wait.get("shift_s") or 0.0)
        self._hide = sorted((value for value in hide if value), key=len, reverse=True)
        self._held = ""  # the end of the log so far, where it may be the beginning of a secret
        if folder:
            self._open(os.path.join(folder, FILE))
            self._line({"t": 0.0, "kind": "wait", "data": self._hidden(wait)})
        self.name = name if self._fd is not None else None

    def _open(self, path: str) -> None:
        try:
            self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
            hold(self._fd)
        except OSError as error:
            self._trouble = "record: %s" % error.strerror

    def write(self, observation: Json) -> Optional[str]:
        """Append one; returns, once, why recording ended. Never raises."""
        self._line({**observation, "data": self._shown(observation["kind"], observation["data"])})
        trouble, self._trouble = self._trouble, None
        return trouble

    def _line(self, observation: Json) -> None:
        if self._fd is None:
            return
        whole = {**observation, "t": round(observation["t"] + self._shift_s, 3), "watch": self._watch}
        self._append(json.dumps(whole, separators=(",", ":")).encode("ascii") + b"\n")

    def _shown(self, kind: str, data: Json) -> Json:
        """The data without the secrets, which two pieces of the log may share."""
        if kind == "log-reset":
            self._held = ""
        if kind != "log":
            shown: Json = self._hidden(data)
            return shown
        text = _PRINTED.sub(lambda found: found[1] + _stars(found[3]), self._hidden(self._held + data["data"]))
        offset = data["offset"] - _bytes(self._held)
        end = len(text) - max((_begun(text, value) for value in self._hide), default=0)
        self._held = text[end:]
        return {**data, "offset": offset, "data": text[:end]}

    def _hidden(self, value: Any) -> Any:
        if not self._hide:
            return value
        if isinstance(value, str):
            for secret in self._hide:
                value = value.replace(secret, _stars(secret))
            return value
        if isinstance(value, dict):
            return {key: self._hidden(inner) for key, inner in value.items()}
        return [self._hidden(inner) for inner in value] if isinstance(value, (list, tuple)) else value

    def _append(self, line: bytes) -> None:
        assert self._fd is not None
        try:
            if os.write(self._fd, line) != len(line):  # one write a line, so that lines of two waits stay whole
                raise OSError(errno.ENOSPC, "the disk is full")
        except OSError as error:
            self._trouble = "record: watch.jsonl ends here: %s" % error.strerror
            self.close()

    def close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
        self._fd = None


def _bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogateescape"))


def _stars(secret: str) -> str:
    """As many as the secret has bytes: the offsets of what follows in a log stay true."""
    return "*" * _bytes(secret)


def _begun(text: str, secret: str) -> int:
    """How many characters at the end of a text are the beginning of a secret, but not all of it."""
    return next((n for n in range(min(len(secret) - 1, len(text)), 0, -1) if text.endswith(secret[:n])), 0)
