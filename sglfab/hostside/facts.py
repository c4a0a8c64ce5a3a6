"""`facts`: what this host is, and which SGLang the interpreter that runs us would import."""

from __future__ import annotations

import importlib.util
import json
import os
import platform
import resource
import socket
import sys
import threading
from importlib import metadata
from typing import Any, Callable, Dict, List, Optional

from sglfab.hostside.gpus import gpus
from sglfab.hostside.logind import kill_user_processes, linger
from sglfab.hostside.processes import boot_id, user_name
from sglfab.hostside.state import free_mb, machine_id, state_dir

Json = Dict[str, Any]
_LIMITS = {
    "nofile": "NOFILE",
    "nproc": "NPROC",
    "memlock": "MEMLOCK",
    "stack": "STACK",
    "core": "CORE",
    "as": "AS",
    "fsize": "FSIZE",
}


def facts(request: Json, emit: Callable[[Json], None], stdin_closed: threading.Event) -> Json:
    state = state_dir(request)
    return {
        "hostname": socket.gethostname(),
        "machine_id": machine_id(),
        "boot_id": boot_id(),
        "user": user_name(os.getuid()),
        "uid": os.getuid(),
        "home": os.path.expanduser("~"),
        "python": {"path": sys.executable, "version": platform.python_version()},
        "sglang": sglang(),
        "state_dir": state,
        "state_free_mb": free_mb(state),
        "gpus": gpus(),
        "ulimits": {name: _limit(constant) for name, constant in _LIMITS.items()},
        "kill_user_processes": kill_user_processes(),
        "linger": linger(),
    }


def _limit(constant: str) -> List[Optional[int]]:
    """[soft, hard], None for unlimited."""
    pair = resource.getrlimit(getattr(resource, "RLIMIT_" + constant))
    return [None if value == resource.RLIM_INFINITY else value for value in pair]


def sglang() -> Optional[Json]:
    """{"version","path","dist_info","editable"} of the sglang that an import would find, without importing it."""
    path = _package_folder()
    if path is None:
        return None
    try:
        dist = metadata.distribution("sglang")
    except metadata.PackageNotFoundError:
        return {"version": None, "path": path, "dist_info": None, "editable": True}
    inside = str(dist.locate_file("sglang"))
    elsewhere = os.path.realpath(inside) != os.path.realpath(path)
    return {
        "version": dist.version,
        "path": path,
        "dist_info": _dist_info(dist),
        "editable": elsewhere or _direct(dist),
    }


def _package_folder() -> Optional[str]:
    try:
        spec = importlib.util.find_spec("sglang")
    except (ImportError, ValueError):
        return None
    places = list(spec.submodule_search_locations or []) if spec else []
    return places[0] if places else None


def _dist_info(dist: metadata.Distribution) -> Optional[str]:
    path = getattr(dist, "_path", None)  # no public way before 3.12 either
    return str(path) if path is not None else None


def _direct(dist: metadata.Distribution) -> bool:
    try:
        origin = json.loads(dist.read_text("direct_url.json") or "{}")
    except ValueError:
        return False
    return bool(isinstance(origin, dict) and origin.get("dir_info", {}).get("editable"))
