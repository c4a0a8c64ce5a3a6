"""Which servers run from an install, since when, whether they still start, and whether they were told to trace."""

from __future__ import annotations

import glob
import os
import time
from typing import Any, Dict, Iterator, List, Optional

from sglfab.hostside.ports import ports_of
from sglfab.hostside.processes import Proc, arguments, everyone, shown, started_wall, user_of
from sglfab.hostside.runs import all_runs

Json = Dict[str, Any]
# Every process of a server imports the patched modules within its first minute; later a swap cannot reach it.
_IMPORTS_S = 180.0


def servers_of(root: str, state: str) -> List[Json]:
    """{"pid","start_wall","run","user","starting","traced","plugin","cmdline"} of each main process.

    traced None: its environment is not ours to read. plugin: it has the taps as a plugin, whatever the files hold.
    """
    runs = {run["main"]["pid"]: run["id"] for run in all_runs(state) if run["alive"]}
    procs = everyone()
    mains = [proc for proc in _mains(procs, set(runs)) if _uses(proc.pid, root)]
    return [_server(proc, runs.get(proc.pid)) for proc in mains]


def _mains(procs: Dict[int, Proc], ours: "set[int]") -> Iterator[Proc]:
    """SGLang processes whose parent is none."""
    found = {pid for pid in procs if pid in ours or is_sglang(arguments(pid))}
    return (procs[pid] for pid in sorted(found) if procs[pid].ppid not in found)


def is_sglang(argv: List[str]) -> bool:
    """`python -m sglang…`, `…/bin/sglang serve`, launch_server.py, or a title that SGLang gave itself (sglang::…)."""
    if argv[0].startswith("sglang::"):
        return True
    module = next((argv[i + 1] for i, word in enumerate(argv[:-1]) if word == "-m"), "")
    script = next((word for word in argv[1:] if not word.startswith("-")), "")
    python = os.path.basename(argv[0]).startswith("python")
    return python and (module.split(".")[0] == "sglang" or os.path.basename(script) in ("sglang", "launch_server.py"))


def _uses(pid: int, root: str) -> bool:
    """Whether the first sglang on its path is the one in root; where none is found: by the libraries it has mapped."""
    for folder in _search_path(pid):
        if os.path.isdir(os.path.join(folder, "sglang", "srt")):
            return os.path.realpath(folder) == root
    return (" %s/" % root) in _text("/proc/%d/maps" % pid)


def _search_path(pid: int) -> Iterator[str]:
    """PYTHONPATH, then the site-packages of the environment that its interpreter was started from."""
    argv, environ = arguments(pid), _environ(pid) or {}
    yield from (path for path in environ.get("PYTHONPATH", "").split(os.pathsep) if path)
    started_as = argv[0] if argv[0].startswith("/") else ""
    for prefix in (os.path.dirname(os.path.dirname(started_as)), environ.get("VIRTUAL_ENV", "")):
        if prefix:
            yield from sorted(glob.glob(os.path.join(glob.escape(prefix), "lib", "python3*", "site-packages")))


def _server(proc: Proc, run: Optional[str]) -> Json:
    start, environ = started_wall(proc), _environ(proc.pid)
    return {
        "pid": proc.pid,
        "start_wall": start,
        "run": run,
        "user": user_of(proc.pid),
        "starting": time.time() - start < _IMPORTS_S and not ports_of(proc.pid),
        "traced": None if environ is None else bool(environ.get("SGLFAB_TRACE_DIR")),
        "plugin": bool((environ or {}).get("SGLFAB_PLUGIN")),
        "cmdline": shown(" ".join(arguments(proc.pid))),
    }


def _environ(pid: int) -> Optional[Dict[str, str]]:
    text = _text("/proc/%d/environ" % pid)
    return dict(part.split("=", 1) for part in text.split("\0") if "=" in part) if text else None


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""
