"""Where the server's processes are in their Python code. py-spy reads their memory and does not pause them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from typing import Any, Callable, Dict, List, Optional, Sequence

from sglfab.hostside.processes import arguments

Json = Dict[str, Any]
Put = Callable[[str, Json], None]

_TIMEOUT_S = 8.0  # for all processes together
_TRIES = 2  # what is read while the process runs may be torn
_PROCESSES_MAX, _THREADS_MAX, _FRAMES_MAX, _TEXT_MAX = 32, 8, 40, 200


class StackWatch:
    """Puts one `stacks` for each process when it is asked to, and a `gap` for what could not be read."""

    def __init__(self, main_pid: int, put: Put) -> None:
        self._main_pid, self._put = main_pid, put
        self._at_work: Optional[threading.Thread] = None

    def take(self, processes: Sequence[Json]) -> None:
        """Dump each of these `{"pid","rank","role"}` in a thread; does nothing while the last call is at work."""
        if self._at_work is None or not self._at_work.is_alive():
            self._at_work = threading.Thread(target=self._dump, args=(processes[:_PROCESSES_MAX],), daemon=True)
            self._at_work.start()

    def _dump(self, processes: Sequence[Json]) -> None:
        py_spy = find(self._main_pid)
        if py_spy is None:
            self._put("gap", {"text": "py-spy: neither beside the server's Python nor in PATH, so no stacks"})
            return
        until = time.monotonic() + _TIMEOUT_S
        trouble = {process["pid"]: "" for process in processes}
        for _ in range(_TRIES):
            trouble = self._try(py_spy, [process for process in processes if process["pid"] in trouble], until)
        for text in sorted(set(trouble.values())):
            named = ", ".join(str(pid) for pid, said in trouble.items() if said == text)
            self._put("gap", {"text": "py-spy: pid %s: %s" % (named, text)})

    def _try(self, py_spy: str, processes: Sequence[Json], until: float) -> Dict[int, str]:
        """All at once; pid → what went wrong."""
        trouble = {}
        for process, child in [(process, _start(py_spy, process["pid"])) for process in processes]:
            threads = _finish(child, until)
            if isinstance(threads, str):
                trouble[process["pid"]] = threads
            else:
                self._put("stacks", {**process, "threads": threads})
        return trouble


def find(main_pid: int) -> Optional[str]:
    """py-spy beside the interpreter of the server or of this program, else in PATH: sglang depends on it."""
    pythons = (arguments(main_pid)[0], sys.executable)
    beside = [os.path.dirname(python) for python in pythons if os.path.isabs(python)]
    return shutil.which("py-spy", path=os.pathsep.join([*beside, os.environ.get("PATH", os.defpath)]))


def _start(py_spy: str, pid: int) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [py_spy, "dump", "--nonblocking", "--json", "--pid", str(pid)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def _finish(child: "subprocess.Popen[bytes]", until: float) -> "List[Json] | str":
    """The threads, or why there are none."""
    try:
        out, err = child.communicate(timeout=max(0.1, until - time.monotonic()))
    except subprocess.TimeoutExpired:
        child.kill()
        child.communicate()
        return "no answer in time"
    try:
        return threads_of(json.loads(out.decode("utf-8", "replace"))) if child.returncode == 0 else _reason(err)
    except (ValueError, KeyError, TypeError):
        return "its answer cannot be read"


def threads_of(dump: List[Json]) -> List[Json]:
    """[{"name","active","frames":["func (file:line)"]}], the innermost frame first, the main thread first."""
    ordered = sorted(dump, key=lambda thread: (thread["thread_name"] != "MainThread", not thread["active"]))
    return [
        {
            "name": str(thread["thread_name"] or "")[:_TEXT_MAX],
            "active": bool(thread["active"]),
            "frames": [_frame(frame) for frame in thread["frames"][:_FRAMES_MAX]],
        }
        for thread in ordered[:_THREADS_MAX]
    ]


def _frame(frame: Json) -> str:
    place = "%s:%s" % (frame.get("short_filename") or frame["filename"], frame["line"])
    return ("%s (%s)" % (frame["name"], place))[:_TEXT_MAX]


def _reason(stderr: bytes) -> str:
    """The innermost cause that py-spy names; where it may not look, the setting that forbids it."""
    lines = [line.strip() for line in stderr.decode("utf-8", "replace").splitlines()]
    if "Stack backtrace:" in lines:
        lines = lines[: lines.index("Stack backtrace:")]
    said = next((line for line in reversed(lines) if line), "it failed and said nothing")
    text = said.split(": ", 1)[1] if said[:1].isdigit() and ": " in said else said
    if any("ermission" in line for line in lines):
        text += _forbidden()
    return text[:_TEXT_MAX]


def _forbidden() -> str:
    try:
        with open("/proc/sys/kernel/yama/ptrace_scope", encoding="ascii") as file:
            scope = file.read().strip()
    except OSError:
        return ""
    return "" if scope == "0" or os.geteuid() == 0 else " (kernel.yama.ptrace_scope is %s and we are not root)" % scope
