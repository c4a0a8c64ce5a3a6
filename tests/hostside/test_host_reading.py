"""Files by byte offset, and HTTP that no proxy sees."""

import os
import socket
import time
from pathlib import Path

import pytest

from sglfab.hostside.reading import last_lines

TEXT = "one\ntwo ü\r50%\nthree\nhalf".encode()
BYTES = bytes(range(256)) * 2000


def joined(events):
    return "".join(event["data"] for event in events).encode("utf-8", "surrogateescape")


@pytest.mark.parametrize(
    ("offset", "max_bytes", "expected"),
    [
        (0, None, BYTES),
        (7, None, BYTES[7:]),
        (0, 300_000, BYTES[:300_000]),
        (-5, None, BYTES[-5:]),
        (10**9, None, b""),
        (0, 0, b""),
    ],
)
def test_any_bytes_arrive_as_they_are(host, tmp_path, offset, max_bytes, expected):
    (tmp_path / "file").write_bytes(BYTES)
    reply, error, events = host.call("read", path=str(tmp_path / "file"), offset=offset, max_bytes=max_bytes)
    assert (joined(events), error, reply) == (expected, None, {"size": len(BYTES)})


@pytest.mark.parametrize("path", ["/no/such/file", "/etc"])
@pytest.mark.parametrize("op", ["read", "tail", "watch"])
def test_what_cannot_be_read(host, op, path):
    what = {"log": path} if op == "watch" else {"path": path}
    _, error, _ = host.call(op, **what)
    assert (error["code"], error["exit"], error["where"]) == ("log-unreadable", 2, path)


@pytest.mark.parametrize("op", ["read", "tail", "watch"])
@pytest.mark.parametrize(("kind", "why"), [("pipe", "it is a pipe"), ("device", "it is a device")])
def test_what_is_no_file_is_refused_and_not_waited_for(host, tmp_path, op, kind, why):
    path = "/dev/null"
    if kind == "pipe":
        path = str(tmp_path / "pipe")
        os.mkfifo(path)
    _, error, _ = host.call(op, **({"log": path} if op == "watch" else {"path": path}))
    assert (error["code"], error["where"]) == ("log-unreadable", path)
    assert why in error["what"]


def test_a_file_that_fails_while_it_is_read(host):
    """/proc/self/mem opens and then gives EIO at offset 0, as a dead mount does."""
    for op in ("read", "tail"):
        _, error, _ = host.call(op, path="/proc/self/mem")
        assert (error["code"], error["where"]) == ("log-unreadable", "/proc/self/mem")


TAILS = [
    (TEXT, 1, b"half"),
    (TEXT, 2, b"three\nhalf"),
    (TEXT, 3, "two ü\r50%\nthree\nhalf".encode()),
    (TEXT, 99, TEXT),
    (TEXT, 0, b""),
    (TEXT + b"\n", 1, b"half\n"),
    (b"", 5, b""),
    (b"\n\n\n", 2, b"\n\n"),
    (b"x" * 600_000 + b"\nlast\n", 1, b"last\n"),
    (b"first\n" + b"x" * 600_000 + b"\nlast\n", 2, b"x" * 600_000 + b"\nlast\n"),
]


@pytest.mark.parametrize(("data", "lines", "expected"), TAILS)
def test_the_last_lines(tmp_path, data, lines, expected):
    (tmp_path / "file").write_bytes(data)
    with open(tmp_path / "file", "rb") as file:
        assert data[last_lines(file, len(data), lines) :] == expected


def test_following_sees_growth_truncation_and_replacement(host, tmp_path):
    path = tmp_path / "log"
    path.write_text("old 1\nold 2\n")
    with host.open("tail", path=str(path), lines=1, follow=True) as tail:
        assert tail.until(lambda e: True)["data"] == "old 2\n"
        with open(path, "a") as file:
            file.write("new\n")
        assert tail.until(lambda e: True)["data"] == "new\n"
        path.write_text("cut\n")
        assert tail.until(lambda e: True)["data"] == "cut\n"
        (tmp_path / "next").write_text("replaced by another file\n")
        (tmp_path / "next").rename(path)
        assert tail.until(lambda e: True)["data"] == "replaced by another file\n"
        tail.close()
        assert tail.finish().reply == {}


def test_the_log_and_the_traces_of_a_run(host):
    run = host.launch({"print": ["a", "b"]}, probe={"sha": "x", "source": ""})
    assert joined(host.call("tail", run_id=run["id"], which="log", lines=2)[2]) == b"b\nall stands\n"
    assert host.call("tail", run_id=run["id"], which="trace", lines=5)[2] == []
    for rank in (10, 2):
        with open(f"{run['dir']}/trace/rank{rank}.jsonl", "w") as file:
            file.write(f'{{"rank": {rank}}}\n')
    events = host.call("tail", run_id=run["id"], which="trace", lines=5)[2]
    assert events == [{"rank": "2", "data": '{"rank": 2}\n'}, {"rank": "10", "data": '{"rank": 10}\n'}]


def test_of_a_trace_in_parts_the_newest_is_shown(host):
    run = host.launch({}, probe={"sha": "x", "source": ""})
    for name in ("rank0", "rank0.part0010", "rank0.part0009", "rank0.77", "rank1", "rank1.part0002", "rank1.broken"):
        Path(run["dir"], "trace", f"{name}.jsonl").write_text(f"{name}\n")
    events = host.call("tail", run_id=run["id"], which="trace", lines=5)[2]
    assert [event["data"] for event in events] == ["rank0.77\n", "rank0.part0010\n", "rank1.part0002\n"]


def test_a_trace_that_appears_later_is_followed(host):
    run = host.launch({}, probe={"sha": "x", "source": ""})
    with host.open("tail", run_id=run["id"], which="trace", lines=5, follow=True) as tail:
        with open(f"{run['dir']}/trace/rank0.jsonl", "w") as file:
            file.write("{}\n")
        assert tail.until(lambda e: True) == {"rank": "0", "data": "{}\n"}


@pytest.fixture
def server(host, port):
    host.launch({"port": port})
    return port


def test_a_request_and_its_answer(host, server):
    body = {"text": "ü", "n": 1}
    reply = host.ok("request", method="POST", path="/echo", port=server, http_host="0.0.0.0", body=body, timeout_s=5)
    assert (reply["status"], reply["error"]) == (200, None)
    assert reply["body"] == '{"text": "\\u00fc", "n": 1}'


def test_no_proxy_is_asked(host, server, port):
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        host.env[name] = "http://127.0.0.1:9"
    assert host.ok("request", method="GET", path="/health", port=server, timeout_s=5)["status"] == 200


def test_nobody_there(host, port):
    reply = host.ok("request", method="GET", path="/health", port=port, timeout_s=5)
    assert (reply["status"], reply["error"]) == (None, "refused")


def test_a_server_that_says_nothing(host):
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        reply = host.ok("request", method="GET", path="/health", port=silent.getsockname()[1], timeout_s=0.3)
    assert (reply["status"], reply["error"]) == (None, "timeout")


def test_a_server_that_trickles_is_a_time_out_too(host, server):
    began = time.monotonic()
    reply = host.ok("request", method="GET", path="/trickle", port=server, timeout_s=0.5)
    assert (reply["status"], reply["error"]) == (None, "timeout")
    assert time.monotonic() - began < 3


@pytest.mark.parametrize("number", [0, 65536, -1, "8000", None])
def test_a_port_that_is_none(host, number):
    assert host.call("request", method="GET", path="/", port=number)[1]["code"] == "port-invalid"
