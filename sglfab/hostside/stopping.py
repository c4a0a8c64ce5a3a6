"""`stop`: end one server, and only it: SIGTERM main → grace → SIGTERM the rest → SIGKILL what is left → confirm."""

from __future__ import annotations

import os
import signal
import threading
import time
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, Optional, Set

from sglfab.hostside.failure import HostError
from sglfab.hostside.family import Server, members
from sglfab.hostside.gpus import compute_pids, gpus
from sglfab.hostside.ports import listeners, ports_of
from sglfab.hostside.processes import Ident, Proc, living, look, send, shown, title, user_of
from sglfab.hostside.runs import load_run, server_of
from sglfab.hostside.state import read_json, state_dir

Json = Dict[str, Any]
Emit = Callable[[Json], None]
_POLL_S = 0.1
_REST_S = 3.0  # after SIGTERM to the rest of the session
_KILL_S = 10.0  # after SIGKILL: a process in an uninterruptible IO or driver call needs a while
_PORT_S = 5.0
_GPU_S = 20.0
_EMPTY_SHARE = 0.02
_LOOK_S = 1.0  # how often a wait also looks for new processes: a scan of /proc is not free
_EXIT_FILE_S = 2.0


@dataclass
class Target:
    """What is to end. `seen`: every process of it so far, so that one that lost its parent stays known."""

    server: Optional[Server]
    port: Optional[int] = None
    run_dir: Optional[str] = None
    seen: Set[Ident] = field(default_factory=set)

    def left(self) -> Dict[int, Proc]:
        if self.server is None:
            return {}
        found = members(self.server, self.seen)
        self.seen.update(proc.ident for proc in found.values())
        return found

    def exit(self) -> Optional[Json]:
        found = read_json(os.path.join(self.run_dir, "exit.json")) if self.run_dir else None
        return found if isinstance(found, dict) else None


def stop(request: Json, emit: Emit, stdin_closed: threading.Event) -> Json:
    """End the run or the named pid. Idempotent. Raises HostError not-permitted, pid-unknown, run-unknown."""
    began = time.monotonic()
    target = _target(request)
    was_running = bool(target.left())
    on_gpu = compute_pids() if was_running else None
    if was_running:
        _end(target, float(request.get("grace_s") or 0.0), emit)
    survivors = [_named(proc) for proc in target.left().values()]
    gpu_free = _gpu_free(target, on_gpu, emit) if was_running else None
    if was_running and target.port and not survivors:
        emit(
            {
                "step": "port %d closed" % target.port
                if _port_closed(target.port)
                else "port %d is still open" % target.port
            }
        )
    return {
        "was_running": was_running,
        "stopped": not survivors,
        "exit": _exit_status(target, was_running),
        "took_s": round(time.monotonic() - began, 3),
        "survivors": survivors,
        "gpu_free": gpu_free,
    }


def _target(request: Json) -> Target:
    if request.get("run_id"):
        run = load_run(state_dir(request), request["run_id"])
        plan = run.get("plan") or {}
        return Target(server_of(run), plan.get("port"), run["dir"])
    proc = look(int(request["pid"]))
    if proc is None:
        raise HostError("pid-unknown", "no such process", where="pid %s" % request["pid"], try_="ps -ef | grep sglang")
    if request.get("start") not in (None, proc.start):
        where = "pid %d: %s" % (proc.pid, shown(title(proc.pid)))
        raise HostError("pid-reused", "that pid is another process now", where=where, try_="ps -ef | grep sglang")
    _refuse_ourselves(proc)
    ports = ports_of(proc.pid)
    return Target(Server(proc.ident), ports[0] if ports else None)


def _refuse_ourselves(proc: Proc) -> None:
    """The named process must not be init, nor one that we hang from (the operator's shell, sshd)."""
    pid = os.getpid()
    while pid > 1 and pid != proc.pid:
        parent = look(pid)
        pid = parent.ppid if parent else 0
    if proc.pid in (1, pid):
        where = "pid %d: %s" % (proc.pid, shown(title(proc.pid)))
        what = "that process carries this very command"
        raise HostError("pid-refused", what, where=where, try_="ps -ef | grep sglang")


def _end(target: Target, grace_s: float, emit: Emit) -> None:
    main = living(target.server.main) if target.server else None
    if main:
        emit({"step": "SIGTERM to pid %d (main), up to %g s to drain" % (main.pid, grace_s)})
        _signal([main], signal.SIGTERM)
        _wait(lambda: not living(main.ident), grace_s, target.left)
        emit({"step": "main did not end in time" if living(main.ident) else "main ended"})
        if not living(main.ident):
            _wait(lambda: not target.left(), _REST_S / 2)  # children that see their parent go end by themselves
    _signal_rest(target, signal.SIGTERM, _REST_S, emit)
    _signal_rest(target, signal.SIGKILL, _KILL_S, emit)
    emit({"step": "%d processes are left" % len(target.left()) if target.left() else "every process is gone"})


def _signal_rest(target: Target, number: int, wait_s: float, emit: Emit) -> None:
    left = list(target.left().values())
    if left:
        emit(
            {
                "step": "%s to %d processes: %s"
                % (signal.Signals(number).name, len(left), ", ".join(str(p.pid) for p in left))
            }
        )
        _signal(left, number)
        _wait(lambda: not target.left(), wait_s)


def _signal(procs: List[Proc], number: int) -> None:
    for proc in procs:
        try:
            send(proc.ident, number)
            if number == signal.SIGKILL:
                continue
            send(proc.ident, signal.SIGCONT)  # a stopped process takes no SIGTERM
        except PermissionError as error:
            what = "pid %d belongs to %s: not ours to signal" % (proc.pid, user_of(proc.pid) or "another user")
            raise HostError(
                "not-permitted", what, where=shown(title(proc.pid)), try_="ask its owner, or log in as them"
            ) from error


def _wait(done: Callable[[], bool], timeout_s: float, also: Callable[[], object] = lambda: None) -> bool:
    until, look_at = time.monotonic() + timeout_s, 0.0
    while not done():
        now = time.monotonic()
        if now >= until:
            return False
        if now >= look_at:
            look_at = now + _LOOK_S
            also()
        time.sleep(_POLL_S)
    return True


def _named(proc: Proc) -> Json:
    return {"pid": proc.pid, "start": proc.start, "state": proc.state, "title": shown(title(proc.pid))}


def _port_closed(port: int) -> bool:
    return _wait(lambda: not listeners(port), _PORT_S)


def _exit_status(target: Target, was_running: bool) -> Optional[Json]:
    """The keeper writes exit.json a moment after main's end."""
    if was_running and target.run_dir and target.server and target.server.keeper and not living(target.server.main):
        _wait(
            lambda: target.exit() is not None or living(target.server.keeper if target.server else None) is None,
            _EXIT_FILE_S,
        )
    return target.exit()


def _gpu_free(target: Target, before: Optional[Dict[int, int]], emit: Emit) -> Optional[bool]:
    """No GPU names one of our processes any more, or every GPU is empty.

    None without nvidia-smi, and where it shows other pid numbers (in a container) while somebody's memory is in use.
    """
    if before is None:
        return None
    ours = {ident.pid for ident in target.seen}
    if not ours & set(before):
        return _all_empty()
    free = _wait(lambda: not ours & set(before if (now := compute_pids()) is None else now), _GPU_S)
    emit({"step": "GPU memory is free" if free else "GPU memory is still held"})
    return free


def _all_empty() -> Optional[bool]:
    """True when no GPU has more in use than a driver keeps for itself; None where that cannot be told."""
    found = gpus()
    if not found or any(gpu["used_mb"] is None or not gpu["total_mb"] for gpu in found):
        return None
    return True if all(gpu["used_mb"] < _EMPTY_SHARE * gpu["total_mb"] for gpu in found) else None
