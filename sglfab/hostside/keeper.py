"""The small parent of a launched server: it starts it, and writes down how it ended.

Runs as a process of its own in a session of its own, and starts the server in a second session, so that a group
signal (ours, or SGLang's SGLANG_KILLPG_ON_SCHEDULER_EXCEPTION) never takes the keeper along. It is a child subreaper:
children that lose their parent come to it, and it reaps them. Its order comes as one JSON object on stdin, its answer
goes to stdout as one JSON line; after that it holds neither.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
import time
from typing import Any, Dict, List, NoReturn, Optional

from sglfab.hostside.family import Server, members
from sglfab.hostside.processes import Ident, look
from sglfab.hostside.state import sync_dir, write_json

_PR_SET_CHILD_SUBREAPER = 36
_RESERVE_BYTES = 8192
_ORPHANS_KEPT = 64
_POLL_S, _POLL_MAX_S = 0.05, 2.0
_QUIET = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)
_RESET = (*_QUIET, signal.SIGPIPE, signal.SIGXFSZ, signal.SIGCHLD, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU)

Order = Dict[str, Any]


def main() -> int:
    """Order (stdin): dir, run, script, env, secrets, umask. Answer (stdout): {"main","keeper"} or {"errno","what"}."""
    order = json.loads(sys.stdin.buffer.read().decode("ascii"))
    os.closerange(3, 256)  # a bundle that lives in memory came as a descriptor; everything of it is imported by now
    answer = os.dup(1)
    try:
        _let_go(order["dir"])
        exit_file = ExitFile(order["dir"])
        main_pid = _start(order, answer)
    except OSError as error:
        _say(answer, {"errno": error.errno, "what": "%s: %s" % (error.strerror, error.filename or order["dir"])})
        return 1
    _reap(main_pid, exit_file)
    return 0


def _let_go(run_dir: str) -> None:
    """Detach from whoever started us: our own session, none of their pipes, no hang-up."""
    if os.getpid() != os.getsid(0):
        os.setsid()
    os.umask(0o077)
    for number in _QUIET:
        signal.signal(number, _ignore)  # a handler, not SIG_IGN: the server's exec then starts from the defaults
    _become_subreaper()
    null = os.open(os.devnull, os.O_RDWR)
    log = os.open(os.path.join(run_dir, "keeper.log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for source, target in ((null, 0), (log, 1), (log, 2)):
        os.dup2(source, target)
    os.close(null)
    os.close(log)


def _ignore(number: int, frame: object) -> None:
    """A keeper that a signal ended could not say how the server ended."""


def _become_subreaper() -> None:
    try:
        ctypes = importlib.import_module("ctypes")  # some builds of Python have none
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    except (ImportError, OSError, AttributeError):
        sys.stderr.write("prctl is not there: orphans of the server will not be reaped here\n")


class ExitFile:
    """exit.json: its blocks are reserved at the start, so that a full disk cannot swallow the exit status."""

    def __init__(self, run_dir: str) -> None:
        self._path, self._reserve = os.path.join(run_dir, "exit.json"), os.path.join(run_dir, ".exit.reserved")
        self._dir = run_dir
        fd = os.open(self._reserve, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            os.write(fd, b" " * _RESERVE_BYTES)
            os.fsync(fd)
        finally:
            os.close(fd)

    def write(self, status: Dict[str, Any]) -> None:
        """The first time into the reserved blocks, then as any other file; never raises."""
        try:
            if os.path.exists(self._reserve):
                self._fill_reserve(status)
            else:
                write_json(self._path, status)
        except OSError as error:
            sys.stderr.write("exit.json: %s\n" % error)

    def _fill_reserve(self, status: Dict[str, Any]) -> None:
        with open(self._reserve, "r+b") as file:
            file.write(json.dumps(status).encode("ascii") + b"\n")
            file.truncate()
            file.flush()
            os.fsync(file.fileno())
        os.replace(self._reserve, self._path)
        sync_dir(self._dir)


def _start(order: Order, answer: int) -> int:
    """Fork the server behind a gate; open it once run.json names the pids. Returns main's pid."""
    log = os.open(os.path.join(order["dir"], "server.log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    secrets = _secrets_pipe(order["secrets"])
    gate_out, gate = os.pipe()
    failed, failed_in = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(gate)
        _become_server(order, gate_out, failed_in, log, secrets)
    for fd in (gate_out, failed_in, log, *([secrets] if secrets is not None else [])):
        os.close(fd)
    try:
        started = _record(order, pid)
    except OSError:
        os.close(gate)  # a closed gate: the child ends without having become a server
        os.waitpid(pid, 0)
        raise
    os.write(gate, b"!")
    os.close(gate)
    _raise_if_failed(failed, pid)
    _say(answer, started)
    return pid


def _record(order: Order, pid: int) -> Dict[str, Any]:
    started = {"main": _ident(pid), "keeper": _ident(os.getpid())}
    write_json(os.path.join(order["dir"], "run.json"), {**order["run"], **started})
    return started


def _ident(pid: int) -> Dict[str, int]:
    proc = look(pid)
    return proc.ident.to_json() if proc else {"pid": pid, "start": 0}


def _secrets_pipe(secrets: Dict[str, str]) -> Optional[int]:
    """A descriptor from which start.py reads the secret arguments: no argv, environment or file ever holds them."""
    if not secrets:
        return None
    reader, writer = os.pipe()
    data = json.dumps(secrets).encode("ascii")
    if len(data) > 60000:  # a pipe takes 64 KiB before it blocks
        raise OSError(7, "the secret arguments are larger than 60 kB", "secrets")
    os.write(writer, data)
    os.close(writer)
    return reader


def _become_server(order: Order, gate: int, failed: int, log: int, secrets: Optional[int]) -> NoReturn:
    """In the child: wait for the gate, then become launch.sh in a session of its own."""
    try:
        os.setsid()
        if os.read(gate, 1) != b"!":
            os._exit(127)
        for number in _RESET:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, set())
        os.umask(order["umask"])
        env = dict(order["env"])
        if secrets is not None:
            os.set_inheritable(secrets, True)
            env["SGLFAB_SECRETS_FD"] = str(secrets)
        os.dup2(log, 1)
        os.dup2(log, 2)
        _exec(order["script"], env)
    except OSError as error:
        os.write(failed, json.dumps([error.errno, str(error)]).encode("ascii"))
    os._exit(127)


def _exec(script: str, env: Dict[str, str]) -> None:
    try:
        os.execve(script, [script], env)
    except PermissionError:  # the state folder is on a file system mounted noexec
        os.execve("/bin/bash", ["bash", script], env)


def _raise_if_failed(failed: int, pid: int) -> None:
    """The pipe closes by itself when exec succeeds."""
    with os.fdopen(failed, "rb") as pipe:
        data = pipe.read()
    if data:
        os.waitpid(pid, 0)
        number, what = json.loads(data.decode("ascii"))
        raise OSError(number, what, "launch.sh")


def _say(answer: int, message: Dict[str, Any]) -> None:
    try:
        os.write(answer, json.dumps(message).encode("ascii") + b"\n")
    except OSError:
        sys.stderr.write("nobody heard: %s\n" % message)  # the launch was interrupted; the run is recorded
    os.close(answer)


def _reap(main_pid: int, exit_file: ExitFile) -> None:
    """Wait for main and for every orphan; end when main has ended and nobody of the server is left."""
    main = Ident(main_pid, _ident(main_pid)["start"])
    orphans: List[Dict[str, Any]] = []
    status: Optional[Dict[str, Any]] = None
    pause_s = _POLL_S
    while True:
        try:
            pid, raw = os.waitpid(-1, 0 if status is None else os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            if not members(Server(main)):
                return
            time.sleep(pause_s)
            pause_s = min(pause_s * 2, _POLL_MAX_S)
            continue
        code, name = _decode(raw)
        if pid == main_pid:
            status = {"code": code, "signal": name, "time": time.time(), "orphans": orphans}
        elif len(orphans) < _ORPHANS_KEPT:
            orphans.append({"pid": pid, "code": code, "signal": name})
        if status is not None:
            exit_file.write(status)


def _decode(raw: int) -> "tuple[int, Optional[str]]":
    """Exit code, negative for a signal, and the signal's name."""
    if os.WIFSIGNALED(raw):
        number = os.WTERMSIG(raw)
        return -number, _signal_name(number)
    return os.WEXITSTATUS(raw), None


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "SIG%d" % number  # the real-time signals have no names of their own
