"""Servers that run from an install: seen, told apart, and never patched under while they import."""

import os
import subprocess
import sys

import pytest

from sglfab.errors import PatchError
from sglfab.flows import patch
from sglfab.hostside.patch_servers import is_sglang

SET = "eagle3-hidden-states"
SERVER = """
import socket, sys
if "--listen" in sys.argv:
    sock = socket.create_server(("127.0.0.1", 0))
print("up", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def serve(installed):
    """Start a stand-in `python -m sglang.launch_server` from the install; ends with the test."""
    running = []
    (installed.root / "sglang" / "__init__.py").write_text("")
    (installed.root / "sglang" / "launch_server.py").write_text(SERVER)

    def start(*flags, root=installed.root, **env):
        server = subprocess.Popen(
            [sys.executable, "-m", "sglang.launch_server", *flags],
            env={**os.environ, "PYTHONPATH": str(root), **env},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        running.append(server)
        assert server.stdout.readline() == b"up\n"
        return server

    yield start
    for server in running:
        server.stdin.close()
        server.wait(10)
        server.stdout.close()


def seen(project, here, installed, server):
    status = patch.status(project, here, sglang_path=str(installed.root))
    return next((s for s in status.servers if s.name == f"pid {server.pid}"), None)


def test_a_server_that_is_starting_refuses_the_patch(serve, installed, project, here):
    server = serve()
    with pytest.raises(PatchError) as raised:
        patch.apply(project, here, [SET], sglang_path=str(installed.root))
    assert raised.value.code == "patch-server-starting"
    assert f"pid {server.pid}" in raised.value.what
    assert installed.pristine


def test_a_server_that_listens_does_not_mind(serve, installed, project, here):
    serve("--listen")
    assert patch.apply(project, here, [SET], sglang_path=str(installed.root)).verb == "patched"


def test_a_starting_server_of_another_install_does_not_mind(serve, installed, project, here, tmp_path):
    other = tmp_path / "other"
    (other / "sglang" / "srt").mkdir(parents=True)
    for name in ("__init__.py", "launch_server.py"):
        (other / "sglang" / name).write_bytes((installed.root / "sglang" / name).read_bytes())
    server = serve(root=other)
    assert seen(project, here, installed, server) is None
    assert patch.apply(project, here, [SET], sglang_path=str(installed.root)).verb == "patched"


def test_a_server_older_than_the_patch_does_not_have_it(serve, installed, project, here):
    server = serve("--listen")
    patch.apply(project, here, [SET], sglang_path=str(installed.root))
    found = seen(project, here, installed, server)
    assert found.active is False
    assert found.why.startswith("patched ")
    assert found.why.endswith("not active, restart")


@pytest.mark.parametrize(
    ("env", "active"),
    [({"SGLFAB_TRACE_DIR": "/x"}, True), ({}, False)],
    ids=["told to trace", "not told to trace"],
)
def test_a_younger_server_has_it_where_it_was_told_to_trace(serve, installed, project, here, *, env, active):
    patch.apply(project, here, [SET], sglang_path=str(installed.root))
    found = seen(project, here, installed, serve("--listen", **env))
    assert found.active is active
    assert found.why.endswith("to trace" if active else "inert")


def test_a_server_of_a_pristine_install_has_nothing(serve, installed, project, here):
    found = seen(project, here, installed, serve("--listen"))
    assert found.active is False
    assert "no patch is applied" in found.why


@pytest.mark.parametrize(
    ("argv", "is_one"),
    [
        (["/v/bin/python", "-m", "sglang.launch_server", "--tp", "8"], True),
        (["python3.11", "-u", "-m", "sglang", "serve"], True),
        (["/v/bin/python3", "/v/bin/sglang", "serve"], True),
        (["python", "/src/sglang/launch_server.py"], True),
        (["sglang::scheduler_TP0"], True),
        (["/home/sglang/bin/python", "-m", "http.server"], False),
        (["bash", "-c", "python -m sglang.launch_server"], False),
        (["vim", "/src/sglang/launch_server.py"], False),
        (["python", "-c", "import sglang"], False),
        (["tail", "-f", "sglang.log"], False),
        ([""], False),
    ],
    ids=lambda value: " ".join(value) or "a kernel thread" if isinstance(value, list) else str(value),
)
def test_what_counts_as_a_server(argv, is_one):
    assert is_sglang(argv) is is_one
