"""What nvidia-smi says. Everything is None on a host that has none."""

from __future__ import annotations

import shutil
import subprocess
from typing import Any, Dict, List, Optional

_TIMEOUT_S = 10.0


def have() -> bool:
    return shutil.which("nvidia-smi") is not None


def gpus() -> Optional[List[Dict[str, Any]]]:
    """[{"index","name","used_mb","total_mb","util"}]; util in percent, None where the GPU (MIG) does not tell."""
    rows = _query("--query-gpu=index,name,memory.used,memory.total,utilization.gpu")
    return None if rows is None else [_gpu(row) for row in rows if len(row) == 5]


def compute_pids() -> Optional[Dict[int, int]]:
    """Used MiB by pid of every process on a GPU, in nvidia-smi's own pid namespace."""
    rows = _query("--query-compute-apps=pid,used_memory")
    if rows is None:
        return None
    used: Dict[int, int] = {}
    for row in rows:
        pid = _int(row[0])
        if pid is not None and len(row) == 2:
            used[pid] = used.get(pid, 0) + (_int(row[1]) or 0)
    return used


def _gpu(row: List[str]) -> Dict[str, Any]:
    index, name, used, total, util = row
    return {"index": _int(index), "name": name, "used_mb": _int(used), "total_mb": _int(total), "util": _int(util)}


def _query(what: str) -> Optional[List[List[str]]]:
    if not have():
        return None
    try:
        done = subprocess.run(
            ["nvidia-smi", what, "--format=csv,noheader,nounits"],
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
    return [[cell.strip() for cell in line.split(",")] for line in lines if line.strip()]


def _int(text: str) -> Optional[int]:
    return int(text) if text.isdigit() else None
