"""The operations as they are shipped: one file, on disk or only in memory, that may be gone a moment later."""

import os
import signal
import sys

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
    with host.open("watch", run_id=run["id"], record=True) as op:
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
