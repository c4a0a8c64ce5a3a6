"""The operations as they are shipped: one file, on disk or only in memory, that may be gone a moment later."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from sglfab.transports.bundle import bundle

# What the bootstrap does when the bundle finds no place on disk.
IN_MEMORY = """
import os, sys
fd = os.memfd_create("sglfab-hostside", 0)
os.write(fd, open(sys.argv[1], "rb").read())
os.execv(sys.executable, [sys.executable, "/proc/self/fd/%d" % fd])
"""


@pytest.mark.parametrize("place", ["on disk", "in memory"])
def test_a_server_outlives_the_bundle_that_launched_it(host, tmp_path, port, exit_status, eventually, alive, place):
    shipped, checkout = tmp_path / "hostside.pyz", host.program
    shipped.write_bytes(bundle().data)
    host.program = (
        (sys.executable, str(shipped)) if place == "on disk" else (sys.executable, "-c", IN_MEMORY, str(shipped))
    )
    run = host.launch({"port": port, "children": ["sglang::scheduler_TP0"]})
    with host.open("watch", run_id=run["id"], record={"wait": "w"}) as op:
        op.until(lambda e: e["kind"] == "http" and e["data"]["what"] == "generate")
    shipped.unlink()
    host.program = checkout
    os.kill(run["main"]["pid"], signal.SIGKILL)
    assert exit_status(run)["code"] == -9
    host.ok("stop", run_id=run["id"], grace_s=0)
    eventually(lambda: not alive(run["keeper"]["pid"]))
    names = {os.path.basename(name) for name in os.listdir(run["dir"])}
    assert not any("pyz" in name for name in names)


def test_every_operation_of_the_table_is_there():
    import importlib

    from sglfab.hostside.__main__ import OPS

    for place in OPS.values():
        module, function = place.split(":")
        assert callable(getattr(importlib.import_module("sglfab.hostside." + module), function)), place


def test_the_oldest_python_runs_it(host, port, exit_status):
    """vermin reads the syntax; this is the proof, where such a Python is at hand."""
    oldest = oldest_python()
    if oldest is None:
        pytest.skip("no Python 3.8 here")
    host.program = (oldest, "-m", "sglfab.hostside")
    assert host.ok("facts")["python"]["version"].startswith("3.8.")
    run = host.launch({"port": port, "children": ["sglang::scheduler_TP0"]}, secrets={"env.X": "a secret value"})
    with host.open("hold-locks", port=port, install=None, operator="a", laptop="l", what="w") as lock:
        lock.until(lambda e: "held" in e)
    with host.open("watch", run_id=run["id"], record={"wait": "w"}) as op:
        op.until(lambda e: e["kind"] == "http" and e["data"]["what"] == "generate")
        op.until(lambda e: e["kind"] == "processes")
    assert host.ok("check", port=port, paths=["/"])["port"]["owner"]["run"] == run["id"]
    assert host.ok("stop", run_id=run["id"], grace_s=2)["stopped"] is True
    assert exit_status(run)["signal"] == "SIGTERM"


def oldest_python():
    """A python3.8 on PATH can be a shim of pyenv that runs nothing, so each is tried."""
    candidates = [shutil.which("python3.8"), *sorted(Path.home().glob(".pyenv/versions/3.8.*/bin/python"))]
    for found in filter(None, candidates):
        tried = subprocess.run([found, "-c", "import fcntl"], capture_output=True, check=False)
        if tried.returncode == 0:
            return str(found)
    return None
