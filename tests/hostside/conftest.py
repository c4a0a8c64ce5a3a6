"""Runs the hostside program as the transports do: one process per operation, JSON in, JSON lines out."""

import contextlib
import json
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from sglfab.testing.fixtures import end_session

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


class Op:
    """One running operation. Leaving the `with` closes its stdin and waits for its end."""

    def __init__(self, name, request, env, argv):
        self.process = subprocess.Popen(
            argv,
            cwd=ROOT,
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self.messages = queue.Queue()
        self.process.stdin.write(json.dumps({"op": name, **request}).encode() + b"\n")
        self.process.stdin.flush()
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()
        self.events, self.reply, self.error = [], None, None

    def _read(self):
        for line in self.process.stdout:
            self.messages.put(json.loads(line))
        self.messages.put(None)

    def next(self, timeout_s=20.0):
        message = self.messages.get(timeout=timeout_s)
        if message is None:
            return None
        if "event" in message:
            self.events.append(message["event"])
        self.reply, self.error = message.get("reply", self.reply), message.get("error", self.error)
        return message

    def until(self, wanted, timeout_s=20.0):
        """The first event from now on for which wanted(event) holds."""
        end = time.monotonic() + timeout_s
        while time.monotonic() < end:
            message = self.next(max(0.01, end - time.monotonic()))
            if message is None:
                break
            if "event" in message and wanted(message["event"]):
                return message["event"]
        raise AssertionError(f"never seen; the last were {self.events[-5:]}, error {self.error}")

    def finish(self):
        while self.next(60.0) is not None:
            pass
        return self

    def close(self):
        if not self.process.stdin.closed:
            self.process.stdin.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
        self.process.wait(20)
        self.reader.join(5)
        while not self.messages.empty():
            self.next()
        self.stderr = self.process.stderr.read().decode()
        self.process.stdout.close()
        self.process.stderr.close()


class HostProgram:
    """The host under test: a state folder and a lock folder of its own."""

    def __init__(self, tmp):
        self.state, self.tmp = tmp / "state", tmp
        self.prefix, self.program = (), (sys.executable, "-m", "sglfab.hostside")
        self.env = {**os.environ, "SGLFAB_LOCK_DIR": str(tmp / "locks")}
        self.launched, self.mounted = [], []

    def open(self, name, **request):
        return Op(name, {"state_dir": str(self.state), **request}, self.env, (*self.prefix, *self.program))

    def call(self, name, **request):
        """(reply, error, events) of an operation that ends by itself."""
        with self.open(name, **request) as op:
            op.finish()
        assert "Traceback" not in op.stderr, op.stderr
        return op.reply, op.error, op.events

    def ok(self, name, **request):
        reply, error, _ = self.call(name, **request)
        assert error is None, error
        return reply

    def request(self, order, run_id="demo-1", *, patches=(), **more):
        """The launch request of the scripted server."""
        script = f"#!/bin/bash\nexec {sys.executable} {HERE / 'fake_server.py'} '{json.dumps(order)}'\n"
        plan = {"port": order.get("port"), "http_host": "127.0.0.1", "tp_size": 1, "patches": list(patches)}
        who = {"operator": "ann", "laptop": "lap", "sglang_version": "0.5.23"}
        what = {"profile": "demo", "plan": plan, "script": script, "starter": None, "secrets": {}, "probe": None}
        return {"run_id": run_id, "keep_runs": 50, **who, **what, **more}

    def launch(self, order, run_id="demo-1", **more):
        """The run of a scripted server that stands."""
        run = self.ok("launch", **self.request(order, run_id, **more))["run"]
        self.launched.append(run_id)
        wait_for(lambda: "all stands" in Path(run["dir"], "server.log").read_text() or exit_of(run))
        return run

    def move_to_small_disk(self, kb):
        """The state folder becomes a file system of that many KiB; skips the test where we may not mount one."""
        self.state = self.tmp / "small"
        self.state.mkdir()
        argv = ["mount", "-t", "tmpfs", "-o", f"size={kb}k", "tmpfs", self.state]
        if subprocess.run(argv, capture_output=True, check=False).returncode:
            pytest.skip("mounting a tmpfs is not permitted here")
        self.mounted.append(self.state)

    def close(self):
        """End what was launched, and whoever else was started with this host's environment; then its state may go."""
        for run_id in self.launched:
            self.call("stop", run_id=run_id, grace_s=0)
        for pid in self.left():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for folder in self.mounted:
            subprocess.run(["umount", "-l", folder], check=True)

    def left(self):
        """Living processes that have this host's lock folder in their environment: it is told from all others by it."""
        mark = f"SGLFAB_LOCK_DIR={self.env['SGLFAB_LOCK_DIR']}".encode()
        return [int(path.parent.name) for path in Path("/proc").glob("[0-9]*/environ") if mark in environ_of(path)]


def environ_of(path):
    try:
        return path.read_bytes().split(b"\0")
    except OSError:
        return []


def wait_for(check, timeout_s=10.0):
    """The first true value of check(): a poll on a condition, not a guess of a duration."""
    end = time.monotonic() + timeout_s
    while time.monotonic() < end:
        value = check()
        if value:
            return value
        time.sleep(0.02)
    raise AssertionError("it never came true")


def exit_of(run):
    path = Path(run["dir"], "exit.json")
    return json.loads(path.read_text()) if path.exists() else None


def is_alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


@pytest.fixture
def host(tmp_path):
    program = HostProgram(tmp_path)
    yield program
    program.close()


GPU = {"name": "NVIDIA H200", "memory.used": "4", "memory.total": "143771", "utilization.gpu": "[N/A]"}
APP = {"gpu_bus_id": "00000000:3B:00.0", "used_memory": "1000", "process_name": "/opt/env/bin/python"}


@pytest.fixture
def nvidia_smi(host, tmp_path):
    """Puts a scripted nvidia-smi on the host's PATH; rows hold what differs from GPU and APP, all text."""
    folder = tmp_path / "bin"

    def write(gpus=({},), apps=()):
        folder.mkdir(exist_ok=True)
        numbered = [
            {**GPU, "index": str(n), "pci.bus_id": f"00000000:{0x3B + n:02X}:00.0", **gpu} for n, gpu in enumerate(gpus)
        ]
        (folder / "table").write_text(json.dumps({"gpus": numbered, "apps": [{**APP, **app} for app in apps]}))
        program = folder / "nvidia-smi"
        program.write_text(f'#!/bin/sh\nexec {sys.executable} {HERE / "nvidia_smi.py"} {folder / "table"} "$@"\n')
        program.chmod(0o755)
        host.env["PATH"] = f"{folder}:{os.environ['PATH']}"

    return write


@pytest.fixture
def port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture
def eventually():
    return wait_for


@pytest.fixture
def exit_status():
    """exit.json of a run, waited for."""
    return lambda run: wait_for(lambda: exit_of(run))


@pytest.fixture
def alive():
    return is_alive


@pytest.fixture
def bystander():
    """Starts programs that are nobody's business here; each must survive what a test does, and is ended after it.

    Each leads a session, so that its children end with it.
    """
    started = []

    def start(argv, **options):
        process = subprocess.Popen(argv, **{"start_new_session": True, **options})
        started.append(process)
        return process

    yield start
    for process in started:
        end_session(process.pid)
        process.wait(10)
