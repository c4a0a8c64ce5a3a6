"""`check`: everything on the host that can fail a launch later; looks, changes nothing."""

from __future__ import annotations

import os
import threading
from typing import Any, Callable, Dict, List, Optional

from sglfab.hostside.checkpoints import describe_path
from sglfab.hostside.family import members
from sglfab.hostside.locks import live_locks, lock_names
from sglfab.hostside.ports import can_bind, owner
from sglfab.hostside.runs import Run, all_runs, server_of
from sglfab.hostside.state import free_mb, state_dir

Json = Dict[str, Any]


def check(request: Json, emit: Callable[[Json], None], stdin_closed: threading.Event) -> Json:
    """Port, paths, cwd, the locks of that port and `install`, live and leftover runs, the disk of the state folder."""
    state = state_dir(request)
    # Leftovers too: both kinds hold memory, GPUs and perhaps the port.
    live = [run for run in all_runs(state) if run["alive"] or run["leftover"]]
    cwd: Optional[str] = request.get("cwd")
    cwd = os.path.expanduser(cwd) if cwd else None
    return {
        "port": _port(request, live) if request.get("port") else None,
        "paths": [describe_path(path, cwd) for path in request.get("paths") or []],
        "cwd_ok": cwd is None or (os.path.isdir(cwd) and os.access(cwd, os.X_OK)),
        "locks": [lock for lock in live_locks() if lock["name"] + ".json" in lock_names(request)],
        "live_runs": live,
        "state_free_mb": free_mb(state),
        "state_ok": _can_make(state),
    }


def _can_make(path: str) -> bool:
    """Whether we could make the folder, or write into it, as far as rights and a read-only mount tell."""
    while not os.path.lexists(path) and path != "/":
        path = os.path.dirname(path)
    return os.path.isdir(path) and os.access(path, os.W_OK | os.X_OK)


def _port(request: Json, live: List[Run]) -> Json:
    """busy: a server of ours could not bind there now; `reason` where that is for another reason than a holder."""
    port, host = int(request["port"]), request.get("http_host") or "127.0.0.1"
    holder = owner(port)
    free, reason = can_bind(host, port)
    if holder:
        holder["run"] = _run_of(holder["pid"], live)
    # A holder on another address does not stop us from binding ours: only the bind test decides.
    return {"busy": not free, "owner": holder, "reason": reason}


def _run_of(pid: Optional[int], live: List[Run]) -> Optional[str]:
    for run in live:
        server = server_of(run)
        if server and pid in members(server):
            return str(run["id"])
    return None
