"""Dispatch: the first stdin line is the request, its `op` names the function, stdout takes JSON lines.

For whoever writes an operation. It is one function of one module of this folder:

    def op(request: dict, emit: Callable[[dict], None], stdin_closed: Stdin) -> dict

- `request`: the whole first line, `op` and `state_dir` included.
- `emit(event)`: writes `{"event": event}` as one line, from any thread.
- `stdin_closed`: set when the operator's side went away; an operation that runs long waits on it and returns. One
  that is not in FINISHES is ended LINGER_S later, and its `emit` into a broken pipe ends it at once. Those in
  FINISHES always run to their end. Its `asked()` and `told()` are what the operator's side has asked for
  and told meanwhile.
- The returned dict is the reply. `raise HostError(…)` (failure.py) is an error for the operator; any other exception
  is a bug of ours.
- stdout belongs to the protocol: file descriptor 1 is stderr while an operation runs, so a stray print harms nothing.
  Children inherit 0 and 2: who must outlive the operation (keeper, server) gets /dev/null or a file for 0, 1 and 2.
- Import siblings as `from sglfab.hostside.X import …` (the bundle keeps that path), all of them before a fork: the
  bundle may be gone later.

To add an operation: write the module, add its line to OPS. Modules are imported when their operation is asked for.
"""

from __future__ import annotations

import errno
import importlib
import json
import os
import sys
import threading
import traceback
from typing import Any, Callable, Dict, Optional, Tuple

from sglfab.hostside.failure import HostError
from sglfab.hostside.stdin import Stdin

Json = Dict[str, Any]
Emit = Callable[[Json], None]
Op = Callable[[Json, Emit, Stdin], Json]

OPS = {
    "ping": "pinging:ping",
    "facts": "facts:facts",
    "check": "checks:check",
    "hold-locks": "locks:hold_locks",
    "launch": "launching:launch",
    "stop": "stopping:stop",
    "runs": "runs:runs",
    "prune": "runs:prune",
    "waits": "waits:waits",
    "inspect-pid": "foreign:inspect_pid",
    "adopt": "foreign:adopt",
    "watch": "watching:watch",
    "record": "recording:record",
    "read": "reading:read",
    "tail": "reading:tail",
    "request": "http_probe:request",
    "patch-read": "patch_files:patch_read",
    "patch-write": "patch_files:patch_write",
}

# A broken pipe in the middle of these would leave half a thing behind; they are short or bounded by themselves.
FINISHES = frozenset({"launch", "stop", "prune", "adopt", "record", "patch-write"})

# How long an operation may go on after the operator's side went away.
LINGER_S = 5.0


class Wire:
    """The way back: JSON lines on a private copy of stdout. A broken pipe ends the process, unless it `finishes`."""

    def __init__(self, fd: int) -> None:
        self._fd, self._lock, self.finishes = fd, threading.Lock(), False

    def put(self, message: Json) -> None:
        data = json.dumps(message, separators=(",", ":")).encode("ascii") + b"\n"
        try:
            with self._lock:
                self._write(data)
        except OSError:
            if not self.finishes:
                os._exit(0)

    def _write(self, data: bytes) -> None:
        while data:
            data = data[os.write(self._fd, data) :]

    def event(self, event: Json) -> None:
        self.put({"event": event})


def main() -> int:
    """Run one operation; 0 after a reply, else the exit code of the error that was sent."""
    wire = Wire(_private_stdout())
    try:
        request = _request(sys.stdin.buffer.readline())
        wire.finishes = request["op"] in FINISHES
        closed = _watch_stdin(wire)
        reply = _find(request["op"])(request, wire.event, closed)
        wire.put({"reply": reply})
    except HostError as error:
        return _fail(wire, error)
    except OSError as error:
        return _fail(wire, _disk_full(error) or _bug(error))
    except Exception as error:
        return _fail(wire, _bug(error))
    return 0


def _private_stdout() -> int:
    fd = os.dup(1)
    os.dup2(2, 1)
    return fd


def _request(line: bytes) -> Json:
    if not line:
        os._exit(0)  # the operator's side went away before it asked for anything
    try:
        request = json.loads(line.decode("utf-8"))
    except ValueError:
        request = None
    if not isinstance(request, dict) or not isinstance(request.get("op"), str):
        what = "the first line is no request"
        raise HostError("hostside-bad-request", what, where=repr(line[:80]), try_="report this", exit_code=1)
    return request


def _find(name: str) -> Op:
    if name not in OPS:
        raise HostError(
            "hostside-unknown-op", "no such operation", where=name, try_=", ".join(sorted(OPS)), exit_code=1
        )
    module, function = OPS[name].split(":")
    found: Op = getattr(importlib.import_module("sglfab.hostside." + module), function)
    return found


def _watch_stdin(wire: Wire) -> Stdin:
    stdin = Stdin()

    def follow() -> None:
        stdin.follow()
        if not wire.finishes:
            threading.Event().wait(LINGER_S)
            os._exit(0)

    threading.Thread(target=follow, name="stdin", daemon=True).start()
    return stdin


def _fail(wire: Wire, error: HostError) -> int:
    wire.put({"error": error.to_json()})
    return error.exit_code


def _disk_full(error: OSError) -> Optional[HostError]:
    if error.errno not in (errno.ENOSPC, errno.EDQUOT):
        return None
    where = str(error.filename or "")
    return HostError("disk-full", "no space left on the host", where=where, try_="df -h " + (where or "~/.sglfab"))


def _bug(error: BaseException) -> HostError:
    traceback.print_exc(file=sys.stderr)
    what = "%s: %s" % (type(error).__name__, error)
    return HostError("hostside-bug", what, where="%s:%d in %s" % _site(error), try_="report this", exit_code=1)


def _site(error: BaseException) -> Tuple[str, int, str]:
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return os.path.basename(frame.filename), frame.lineno or 0, frame.name


if __name__ == "__main__":
    sys.exit(main())
