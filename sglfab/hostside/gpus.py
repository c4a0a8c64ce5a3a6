"""What nvidia-smi says. Everything is None on a host that has none."""

from __future__ import annotations

import shutil
import subprocess
from typing import Any, Dict, List, Optional

from sglfab.hostside.processes import shown, user_of

_TIMEOUT_S = 10.0
_GPU = ("index", "name", "pci.bus_id", "memory.used", "memory.total", "utilization.gpu")
_PROCESS = ("gpu_bus_id", "pid", "used_memory", "process_name")


def have() -> bool:
    return shutil.which("nvidia-smi") is not None


def gpus() -> Optional[List[Dict[str, Any]]]:
    """[{"index","name","bus","used_mb","total_mb","util"}]; util in percent, None where the GPU (MIG) does not tell."""
    rows = _query("--query-gpu=", _GPU)
    return [_gpu(row) for row in rows] if rows else None


def with_processes(found: List[Dict[str, Any]]) -> List[Dict[str, Any]]:
    """The same, each with "processes": [{"pid","user","name","used_mb"}], or None where nvidia-smi does not tell.

    pids are of nvidia-smi's own namespace; user and name are None where /proc does not show that pid.
    """
    rows = _query("--query-compute-apps=", _PROCESS)
    if rows is None:
        return [{**gpu, "processes": None} for gpu in found]
    return [{**gpu, "processes": [_process(row) for row in rows if row[0] == gpu["bus"]]} for gpu in found]


def compute_pids() -> Optional[Dict[int, int]]:
    """Used MiB by pid of every process on a GPU, in nvidia-smi's own pid namespace."""
    rows = _query("--query-compute-apps=", _PROCESS)
    if rows is None:
        return None
    used: Dict[int, int] = {}
    for _, pid, mb, _ in rows:
        number = _int(pid)
        if number is not None:
            used[number] = used.get(number, 0) + (_int(mb) or 0)
    return used


def _gpu(row: List[str]) -> Dict[str, Any]:
    index, name, bus, used, total, util = row
    numbers = {"used_mb": _int(used), "total_mb": _int(total), "util": _int(util)}
    return {"index": _int(index), "name": name, "bus": bus, **numbers}


def _process(row: List[str]) -> Dict[str, Any]:
    _, pid, used, name = row
    number = _int(pid)
    user = user_of(number) if number is not None else None
    return {"pid": number, "user": user, "name": shown(name), "used_mb": _int(used)}


def _query(what: str, fields: "tuple[str, ...]") -> Optional[List[List[str]]]:
    """The whole rows of an answer; the last field may hold commas."""
    if not have():
        return None
    try:
        done = subprocess.run(
            ["nvidia-smi", what + ",".join(fields), "--format=csv,noheader,nounits"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    if done.returncode != 0:
        return None
    lines = done.stdout.decode("utf-8", "replace").splitlines()
    rows = [[cell.strip() for cell in line.split(",", len(fields) - 1)] for line in lines if line.strip()]
    return [row for row in rows if len(row) == len(fields)]


def _int(text: str) -> Optional[int]:
    return int(text) if text.isdigit() else None
