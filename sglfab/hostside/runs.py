"""The runs of the state folder: read, list, prune."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import sys
import threading
import time
from typing import Any, Callable, Dict, List, Optional

from sglfab.hostside.failure import HostError
from sglfab.hostside.family import Server
from sglfab.hostside.processes import boot_id, ident_from, living
from sglfab.hostside.programs import drop_old
from sglfab.hostside.state import folder_bytes, read_json, state_dir
from sglfab.hostside.waits import prune_waits

Run = Dict[str, Any]
Emit = Callable[[Dict[str, Any]], None]

_RUN_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*")
_STARTING_S = 120.0  # a run without a main process and younger than this may be in the hands of another launch


def runs(request: Dict[str, Any], emit: Emit, stdin_closed: threading.Event) -> Dict[str, Any]:
    """All runs, or those of one profile, newest first."""
    profile = request.get("profile")
    found = all_runs(state_dir(request))
    return {"runs": [run for run in found if profile is None or run.get("profile") == profile]}


def prune(request: Dict[str, Any], emit: Emit, stdin_closed: threading.Event) -> Dict[str, Any]:
    """Remove the oldest dead runs until `keep` are left, the recorded waits for other servers likewise, and programs of
    ours that nobody uses; with `dry` only say which runs and waits."""
    state, keep, dry = state_dir(request), int(request.get("keep") or 0), bool(request.get("dry"))
    if not dry:
        drop_old(sys.argv[0])
    gone = prune_runs(state, keep=keep, dry=dry), prune_waits(state, keep=keep, dry=dry)
    return {
        "removed": [name for part in gone for name in part["removed"]],
        "freed_bytes": sum(part["freed_bytes"] for part in gone),
    }


def run_dir(state: str, run_id: str) -> str:
    if not _RUN_ID.fullmatch(run_id):
        raise HostError(
            "run-id-invalid", "a run id is letters, digits and . _ + - only", where=repr(run_id), try_="fab runs"
        )
    return os.path.join(state, "runs", run_id)


def load_run(state: str, run_id: str) -> Run:
    """The run with `dir`, `alive` and `exit`. Raises HostError run-unknown."""
    found = describe(run_dir(state, run_id))
    if found is None:
        raise HostError("run-unknown", "no such run on this host: " + run_id, where=state, try_="fab runs")
    return found


def describe(folder: str) -> Optional[Run]:
    """run.json plus `dir`, `alive` (main's pid and start time match, and the boot), `leftover`, `exit` and `verdict`.

    leftover: main is gone, but its keeper still waits for processes of the server. exit, verdict: the files or null.
    """
    run = read_json(os.path.join(folder, "run.json"))
    if not isinstance(run, dict):
        return None
    here = run.get("boot_id") == boot_id()
    alive = here and living(ident_from(run.get("main"))) is not None
    leftover = here and not alive and living(ident_from(run.get("keeper"))) is not None
    beside = {name: read_json(os.path.join(folder, name + ".json")) for name in ("exit", "verdict")}
    return {**run, "dir": folder, "alive": alive, "leftover": leftover, **beside}


def server_of(run: Run) -> Optional[Server]:
    """The processes' identities of a run of this boot; None where they can't be alive any more."""
    main = ident_from(run.get("main"))
    if main is None or run.get("boot_id") != boot_id():
        return None
    return Server(main, ident_from(run.get("keeper")))


def log_of(run: Run) -> str:
    return str(run.get("log") or os.path.join(run["dir"], "server.log"))


def all_runs(state: str) -> List[Run]:
    """Every readable run, newest first."""
    found = (describe(folder) for folder in _folders(state))
    return sorted((run for run in found if run), key=_created, reverse=True)


def _created(run: Run) -> float:
    wall = run.get("created_wall")
    return float(wall) if isinstance(wall, (int, float)) else 0.0


def _folders(state: str) -> List[str]:
    parent = os.path.join(state, "runs")
    try:
        return [entry.path for entry in os.scandir(parent) if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []


def prune_runs(state: str, *, keep: int, dry: bool = False) -> Dict[str, Any]:
    """Never a live run, nor one that may be starting, nor one whose children still live."""
    present = all_runs(state)
    surplus = len(present) - keep
    doomed = [run for run in reversed(present) if _is_over(run)][: max(surplus, 0)]
    freed = sum(folder_bytes(run["dir"]) for run in doomed)
    if not dry:
        for run in doomed:
            shutil.rmtree(run["dir"], ignore_errors=True)
        _drop_dangling(os.path.join(state, "latest"))
    return {"removed": [run["id"] for run in doomed], "freed_bytes": freed}


def _is_over(run: Run) -> bool:
    if run["alive"] or living(ident_from(run.get("keeper"))):
        return False
    age_s = time.time() - os.stat(run["dir"]).st_mtime
    return run.get("main") is not None or age_s > _STARTING_S


def _drop_dangling(folder: str) -> None:
    try:
        links = [entry.path for entry in os.scandir(folder) if entry.is_symlink() and not os.path.exists(entry.path)]
    except OSError:
        return
    for path in links:
        os.unlink(path)


def point_latest(state: str, profile: str, folder: str) -> None:
    """`latest/<profile>` → the run, in one swap."""
    parent = os.path.join(state, "latest")
    os.makedirs(parent, mode=0o700, exist_ok=True)
    temporary = os.path.join(parent, ".new-%d" % os.getpid())
    with contextlib.suppress(FileNotFoundError):
        os.unlink(temporary)
    os.symlink(os.path.relpath(folder, parent), temporary)
    os.replace(temporary, os.path.join(parent, profile.replace("/", "_")))
