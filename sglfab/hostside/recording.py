"""`record`: how a wait for a run ended, beside the run."""

from __future__ import annotations

import os
import threading
import time
from typing import Any, Callable, Dict

from sglfab.hostside.runs import load_run
from sglfab.hostside.state import state_dir, write_json

Json = Dict[str, Any]


def record(request: Json, emit: Callable[[Json], None], stdin_closed: threading.Event) -> Json:
    """Write the run's verdict.json; `verdict` is what is kept of it. Raises HostError run-unknown, disk-full."""
    run = load_run(state_dir(request), request["run_id"])
    write_json(os.path.join(run["dir"], "verdict.json"), {**request["verdict"], "time": time.time()})
    return {}
