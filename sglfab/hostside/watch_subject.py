"""What a watch looks at: a run of ours, or any of a pid, a port and a log file, or nothing of this host."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import Any, Dict, Optional, Tuple

from sglfab.hostside.family import Server
from sglfab.hostside.foreign import find, log_of_pid, port_of_pid
from sglfab.hostside.ports import loopback, owner
from sglfab.hostside.processes import Proc, look, started_wall
from sglfab.hostside.reading import open_file
from sglfab.hostside.runs import load_run, log_of, server_of
from sglfab.hostside.state import state_dir

Json = Dict[str, Any]


@dataclass(frozen=True)
class Subject:
    """host: where to probe; started_wall: unix time; oom: the cgroup counter as it was at the launch."""

    server: Optional[Server]
    port: Optional[int]
    host: str
    log: Optional[str]
    run: Optional[str] = None
    run_dir: Optional[str] = None
    profile: Optional[str] = None
    started_wall: Optional[float] = None
    tp_size: Optional[int] = None
    patches: Tuple[str, ...] = ()
    oom: Optional[Json] = None
    gaps: Tuple[str, ...] = ()

    @property
    def nothing(self) -> bool:
        """Whether only the operator's side looks."""
        return not (self.run or self.server or self.port or self.log)

    def start_data(self) -> Json:
        return {
            "wall": time.time(),
            "run": self.run,
            "started_wall": self.started_wall,
            "main": self.server.main.pid if self.server else None,
            "port": self.port,
            "tp_size": self.tp_size,
            "patches": list(self.patches),
            "profile": self.profile,
            "log": self.log,
        }


def subject_of(request: Json) -> Subject:
    if request.get("run_id"):
        return _of_run(request)
    if any(request.get(name) for name in ("pid", "port", "log")):
        return _of_foreign(request)
    return Subject(server=None, port=None, host="", log=None)


def _of_run(request: Json) -> Subject:
    run = load_run(state_dir(request), request["run_id"])
    plan = run.get("plan") or {}
    server = server_of(run)
    return Subject(
        server=server,
        port=request.get("port") or plan.get("port"),
        host=loopback(request.get("http_host") or plan.get("http_host")),
        log=log_of(run) if not run.get("adopted") or run.get("log") else None,
        run=run["id"],
        run_dir=run["dir"],
        profile=run.get("profile"),
        started_wall=_started(server) or run.get("created_wall"),
        tp_size=request.get("tp_size") or plan.get("tp_size"),
        patches=tuple(request["patches"] if request.get("patches") is not None else plan.get("patches") or ()),
        oom=run.get("oom"),
        gaps=() if server else ("processes: the host was restarted since, or the launch never finished",),
    )


def _started(server: Optional[Server]) -> Optional[float]:
    proc = look(server.main.pid) if server else None
    return started_wall(proc) if proc and server and proc.start == server.main.start else None


def _of_foreign(request: Json) -> Subject:
    """`port` alone finds the process by its socket; `pid` alone finds port and log by its argv and descriptors."""
    gaps = []
    port: Optional[int] = request.get("port")
    proc = _process(request.get("pid"), port)
    if proc is None and port:
        gaps.append("processes: nobody that we can see listens on port %d" % port)
    if proc and not port:
        port = port_of_pid(proc.pid)
        if port is None:
            gaps.append("http: pid %d names no port and listens on none yet; say --port" % proc.pid)
    log = _log(request.get("log"), proc)
    if log is None:
        gaps.append("log: its standard output is no file")
    return Subject(
        server=Server(proc.ident) if proc else None,
        port=port,
        host=loopback(request.get("http_host")),
        log=log,
        started_wall=started_wall(proc) if proc else None,
        tp_size=request.get("tp_size"),
        patches=tuple(request.get("patches") or ()),
        gaps=tuple(gaps),
    )


def _process(pid: Optional[int], port: Optional[int]) -> Optional[Proc]:
    if pid:
        return find(int(pid))
    holder = owner(port) if port else None
    return look(holder["pid"]) if holder and holder["pid"] else None


def _log(given: Optional[str], proc: Optional[Proc]) -> Optional[str]:
    if given:
        path = os.path.abspath(os.path.expanduser(given))
        open_file(path).close()
        return path
    return log_of_pid(proc.pid) if proc else None
