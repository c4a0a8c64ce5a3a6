"""Servers that we did not start: look at one, or make it a run of ours."""

from __future__ import annotations

import os
import secrets
import threading
import time
from typing import Any, Callable, Dict, List, Optional

from sglfab.hostside.cgroups import oom_counter
from sglfab.hostside.failure import HostError
from sglfab.hostside.ports import ports_of
from sglfab.hostside.processes import (
    Proc,
    arguments,
    boot_id,
    look,
    shown,
    shown_arguments,
    started_wall,
    title,
    user_of,
)
from sglfab.hostside.runs import describe, point_latest, run_dir
from sglfab.hostside.state import FULL_DISK, disk_full, private_dir, state_dir, write_json

Json = Dict[str, Any]
Emit = Callable[[Json], None]
_DEFAULT_PORT = 30000  # SGLang's, in every release


def inspect_pid(request: Json, emit: Emit, stdin_closed: threading.Event) -> Json:
    """What an operator needs to see before saying yes to that process."""
    proc = find(int(request["pid"]))
    return {
        "pid": proc.pid,
        "start": proc.start,
        "started_wall": started_wall(proc),
        "cmdline": shown(title(proc.pid)),
        "user": user_of(proc.pid),
        "log": log_of_pid(proc.pid),
        "ports": ports_of(proc.pid),
        "port": port_of_pid(proc.pid),
        "session": proc.session,
    }


def find(pid: int) -> Proc:
    proc = look(pid)
    if proc is None or proc.dead:
        raise HostError("pid-unknown", "no such process", where="pid %d" % pid, try_="ps -ef | grep sglang")
    return proc


def log_of_pid(pid: int) -> Optional[str]:
    """Where its standard output (else its standard error) goes, if that is a file that still has its name."""
    for number in (1, 2):
        try:
            path = os.readlink("/proc/%d/fd/%d" % (pid, number))
        except OSError:
            continue
        if os.path.isfile(path):
            return path
    return None


def port_of_pid(pid: int) -> Optional[int]:
    """--port of its command line, else SGLang's default if it listens there, else the one port that it listens on."""
    given = flag(arguments(pid), "--port")
    if given and given.isdigit():
        return int(given)
    ports = ports_of(pid)
    if _DEFAULT_PORT in ports:
        return _DEFAULT_PORT
    return ports[0] if len(ports) == 1 else None


def flag(argv: List[str], name: str) -> Optional[str]:
    """The value of `--name VALUE` or `--name=VALUE`, the last one as argparse does."""
    value = None
    for at, word in enumerate(argv):
        if word == name and at + 1 < len(argv):
            value = argv[at + 1]
        elif word.startswith(name + "="):
            value = word[len(name) + 1 :]
    return value


def adopt(request: Json, emit: Emit, stdin_closed: threading.Event) -> Json:
    """A run folder for a process that somebody else started; it has no keeper, so its exit status stays unknown."""
    proc = find(int(request["pid"]))
    os.umask(0o077)
    state = state_dir(request)
    run = _run(request, proc)
    folder = run_dir(state, run["id"])
    try:
        private_dir(os.path.dirname(folder))
        os.mkdir(folder, 0o700)
        write_json(os.path.join(folder, "run.json"), run)
        point_latest(state, run["profile"], folder)
    except OSError as error:
        if error.errno in FULL_DISK:
            raise disk_full(folder) from error
        raise
    return {"run": describe(folder)}


def _run(request: Json, proc: Proc) -> Json:
    profile, now = request.get("profile") or "adopted", time.time()
    return {
        "id": "%s-%s-%s" % (profile, time.strftime("%Y%m%d-%H%M%S", time.localtime(now)), secrets.token_hex(2)),
        "profile": profile,
        "plan": _plan(profile, proc, request),
        "operator": request.get("operator"),
        "laptop": request.get("laptop"),
        "created": time.strftime("%Y-%m-%dT%H:%M:%S%z", time.localtime(now)),
        "created_wall": now,
        "sglang_version": None,
        "boot_id": boot_id(),
        "main": proc.ident.to_json(),
        "keeper": None,
        "adopted": True,
        "log": request.get("log") or log_of_pid(proc.pid),
        "patch_manifest": None,
        "oom": oom_counter(proc.pid),
    }


def _plan(profile: str, proc: Proc, request: Json) -> Json:
    """Every field that a rendered plan has (model.Plan), as far as the command line tells it."""
    argv = arguments(proc.pid)
    tp_size = flag(argv, "--tp-size") or flag(argv, "--tp") or flag(argv, "--tensor-parallel-size") or ""
    return {
        "profile": profile,
        "release": "",
        "release_source": "assumed",
        "argv": shown_arguments(argv),
        "env": [],
        "cwd": _cwd(proc.pid),
        "setup": [],
        "ulimits": [],
        "python": argv[0],
        "http_host": flag(argv, "--host") or "127.0.0.1",
        "port": request.get("port") or port_of_pid(proc.pid) or _DEFAULT_PORT,
        "tp_size": int(tp_size) if tp_size.isdigit() else 1,
        "model_path": flag(argv, "--model-path") or flag(argv, "--model") or "",
        "draft_path": flag(argv, "--speculative-draft-model-path") or flag(argv, "--speculative-draft-model"),
        "patches": [],
        "secrets": [],
        "wait": {},
        "stop_grace_s": 30.0,
        "script": "",
        "starter": None,
        "notes": ["adopted: started by somebody else, so nothing but its command line is known"],
    }


def _cwd(pid: int) -> Optional[str]:
    try:
        return os.readlink("/proc/%d/cwd" % pid)
    except OSError:
        return None
