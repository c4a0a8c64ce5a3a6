"""`--url` from the operator's side: what is an address, who answers there, and what ends the wait at once."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from scripted_host import StillClock

from sglfab.errors import InputError, UnreachableError
from sglfab.flows.clock import SystemClock
from sglfab.flows.http_direct import DirectProbe
from sglfab.flows.web_address import checked_url, silent, without_user
from sglfab.testing.fab import ROOT
from sglfab.testing.fixtures import find_free_port

ADDRESSES = {
    "127.0.0.1:30000": "http://127.0.0.1:30000",
    "localhost": "http://localhost",
    "http://gpu1:30000/": "http://gpu1:30000",
    "https://gpu1.example/health": "https://gpu1.example",
    "[::1]:30000": "http://[::1]:30000",
    "http://gpu_1:1": "http://gpu_1:1",
    "http://münchen.example": "http://münchen.example",
}
WRONG = (
    *("", "30000", ":30000", "http://", "ftp://x", "http://a b:1", "http://x:port", "http://x:0", "http://x:99999"),
    *("http://[::1", "http:localhost:1", "http://a..b", "file:///etc/passwd", "http://x" + "y" * 64 + ":1"),
)


@pytest.mark.parametrize(("text", "base"), ADDRESSES.items(), ids=ADDRESSES.keys())
def test_an_address(text, base):
    assert checked_url(text) == base


@pytest.mark.parametrize("text", WRONG)
def test_no_address(text):
    with pytest.raises(InputError) as caught:
        checked_url(text)
    assert (caught.value.code, caught.value.where) == ("bad-url", "--url")
    assert "30000" in caught.value.try_


@pytest.mark.parametrize(
    ("base", "shown"),
    {
        "http://ann:p@ss@gpu1:1": "http://gpu1:1",
        "https://ann@[::1]:1": "https://[::1]:1",
        "http://a": "http://a",
    }.items(),
)
def test_a_password_is_no_part_of_what_is_kept(base, shown):
    assert without_user(base) == shown


def probe(url: str, **given: float) -> DirectProbe:
    return DirectProbe(url, api_key=None, probe_timeout_s=5, clock=SystemClock(), **{"reconnect_s": 60, **given})


BLOCKED = {
    "a name that nobody knows": ("http://no-such-host.invalid:30000", "no-such-host.invalid is not known", 0),
    "TLS asked of plain HTTP": ("https://127.0.0.1:{port}", "TLS fails", 60),
}


@pytest.mark.parametrize(("url", "says", "reconnect_s"), BLOCKED.values(), ids=BLOCKED.keys())
def test_what_cannot_be_asked_at_all_ends_the_wait_at_once(stranger, url, says, reconnect_s):
    """A resolver that is away for a moment is waited for; here, for 0 s."""
    with pytest.raises(UnreachableError) as caught:
        list(probe(url.format(port=stranger), reconnect_s=reconnect_s)())
    assert says in caught.value.what


class Stranger(BaseHTTPRequestHandler):
    """Answers every GET, and no POST, as `python -m http.server` does for files that are there."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "3")
        self.end_headers()
        self.wfile.write(b"ok\n")

    def log_message(self, format: str, *args: object) -> None:
        """The test says what it saw."""


@pytest.fixture
def stranger() -> Iterator[int]:
    with ThreadingHTTPServer(("127.0.0.1", find_free_port()), Stranger) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        yield server.server_port
        server.shutdown()


def test_what_a_stranger_answers_is_told(stranger):
    seen = list(probe(f"127.0.0.1:{stranger}")())
    assert [(one["what"], one["status"]) for one in seen] == [("health", 200), ("model_info", 200), ("generate", 501)]


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost"])
def test_nobody_is_told_from_somebody(stranger, name):
    assert not silent(f"http://{name}:{stranger}")
    port = find_free_port()
    assert silent(f"http://{name}:{port}")
    (seen,) = probe(f"{name}:{port}")()
    assert (seen["state"], seen["status"]) == ("refused", None)


def test_a_look_waits_as_long_as_the_last_one_took(stranger):
    """What the host tells meanwhile is not held up by a server that lets every question time out."""

    class Slow(StillClock):
        def now_s(self) -> float:
            self.sleep(1.0)  # each question takes its time
            return self.now

    clock = Slow()
    asking = DirectProbe(f"127.0.0.1:{stranger}", api_key=None, probe_timeout_s=5, reconnect_s=60, clock=clock)
    began = clock.now
    assert len(list(asking())) == 3
    took = clock.now - began
    assert list(asking()) == []
    clock.sleep(took)
    assert len(list(asking())) == 3


# A network of its own, in which the kernel has two ports for outgoing connections, one of them the server's.
ITS_OWN_PORT = """
import fcntl, socket, struct
from sglfab.flows.web_address import silent
with socket.socket() as lo:
    fcntl.ioctl(lo, 0x8914, struct.pack("16sh", b"lo", 0x49))  # SIOCSIFFLAGS: up
open("/proc/sys/net/ipv4/ip_local_port_range", "w").write("40000 40001")
def reaches_itself():
    with socket.socket() as plain:
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # no TIME_WAIT of the trap
        return plain.connect_ex(("127.0.0.1", 40000)) == 0
assert any(reaches_itself() for _ in range(10)), "the trap does not work"
assert all(silent("http://127.0.0.1:40000") for _ in range(50))
with socket.socket() as server:
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.bind(("127.0.0.1", 40000))
print("never")
"""


def test_a_probe_never_reaches_itself():
    alone = ["unshare", "--map-root-user", "--net"]
    if subprocess.run([*alone, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("this machine lets nobody have a network of their own")
    argv = [*alone, sys.executable, "-c", ITS_OWN_PORT]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(argv, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert done.stdout == "never\n", done.stderr
