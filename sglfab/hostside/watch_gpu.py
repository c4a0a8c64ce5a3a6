"""GPU memory, use and users, every few seconds, where nvidia-smi is there."""

from __future__ import annotations

import threading
from typing import Any, Callable, Dict

from sglfab.hostside.gpus import gpus, have, with_processes

_EVERY_S = 5.0


def watch_gpus(put: Callable[[str, Dict[str, Any]], None], closed: threading.Event) -> None:
    if not have():
        put("gap", {"text": "gpu: no nvidia-smi on this host"})
        return
    failing = False
    while not closed.is_set():
        found = gpus()
        if found is not None:
            put("gpu", {"gpus": with_processes(found)})
        elif not failing:
            put("gap", {"text": "gpu: nvidia-smi fails or does not answer"})
        failing = found is None
        closed.wait(_EVERY_S)
