"""`facts`: what this host is, and which SGLang the interpreter that runs us would import."""

from __future__ import annotations

import os
import platform
import resource
import socket
import sys
import threading
from typing import Any, Callable, Dict, List, Optional

from sglfab.hostside.failure import HostError
from sglfab.hostside.gpus import gpus
from sglfab.hostside.install import dist_info, find_root, version_of
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
        "sglang": sglang(request.get("pythonpath") or ""),
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


def sglang(pythonpath: str = "") -> Optional[Json]:
    """{"version","path","dist_info","editable"} of the sglang that the server would import, without importing it."""
    try:
        root = find_root(None, pythonpath)
    except HostError:
        return None
    info = dist_info(root)
    return {
        "version": version_of(root),
        "path": os.path.join(root, "sglang"),
        "dist_info": info,
        "editable": info is None,
    }
