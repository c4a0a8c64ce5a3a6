"""What a watch tells, how soon, and what it costs."""

import json
import os
import signal
import socket
import sys
import time
from pathlib import Path

import pytest

from sglfab.diagnosis import deaths
from sglfab.hostside.watch_http import Identity
from sglfab.hostside.watch_kernel import _NEEDLE
from sglfab.hostside.watch_log import LogWatch, _unfinished
from sglfab.hostside.watch_shm import ShmWatch

HERE = Path(__file__).parent
CHILDREN = ["sglang::scheduler_TP0", "sglang::scheduler_TP1", "sglang::detokenizer"]


def http(what, **data):
    return lambda e: e["kind"] == "http" and e["data"]["what"] == what and data.items() <= e["data"].items()


def kind(name, check=lambda data: True):
    return lambda e: e["kind"] == name and check(e["data"])


def of_kind(op, name):
    return [event["data"] for event in op.events if event["kind"] == name]


def log_of(op):
    return "".join(data["data"] for data in of_kind(op, "log"))


def test_a_server_from_loading_to_its_first_token(host, port, tmp_path):
    order = {"port": port, "children": CHILDREN, "ready_at": str(tmp_path / "ready"), "print": ["hello ü"]}
    run = host.launch(order)
    with host.open("watch", run_id=run["id"], tp_size=2, record={"wait": "w"}) as op:
        op.until(http("health", state="503", ours=True))
        (tmp_path / "ready").touch()
        op.until(http("generate", state="200", ours=True))
        op.until(kind("tick"))
    start = op.events[0]
    assert start["kind"] == "start"
    assert {k: start["data"][k] for k in ("run", "main", "port", "tp_size", "profile", "patches")} == {
        "run": run["id"],
        "main": run["main"]["pid"],
        "port": port,
        "tp_size": 2,
        "profile": "demo",
        "patches": [],
    }
    assert abs(start["data"]["started_wall"] - run["created_wall"]) < 5
    assert log_of(op) == "hello ü\nall stands\n"
    states = [d["state"] for d in of_kind(op, "http") if d["what"] == "health"]
    assert (states[0], states[-1]) == ("503", "200")
    roles = [p["role"] for p in of_kind(op, "processes")[-1]["alive"]]
    assert sorted(roles) == ["detokenizer", "main", "scheduler", "scheduler"]
    assert {p["rank"] for p in of_kind(op, "processes")[-1]["alive"] if p["role"] == "scheduler"} == {"TP0", "TP1"}
    assert all(a["t"] <= b["t"] for a, b in zip(op.events, op.events[1:], strict=False))
    assert op.reply == {}
    recorded = [json.loads(line) for line in Path(run["dir"], "watch.jsonl").read_text().splitlines()]
    first, *told = ({k: line[k] for k in ("t", "kind", "data")} for line in recorded)
    assert first == {"t": 0.0, "kind": "wait", "data": {"wait": "w"}}
    assert told[: len(op.events)] == op.events
    assert len({line["watch"] for line in recorded}) == 1


def test_ready_is_told_within_half_a_second_of_the_first_200(host, port, tmp_path):
    run = host.launch({"port": port, "ready_at": str(tmp_path / "ready")})
    with host.open("watch", run_id=run["id"]) as op:
        op.until(http("health", state="503"))
        (tmp_path / "ready").touch()
        first = first_200(port)
        op.until(http("generate", state="200"))
        assert time.monotonic() - first < 0.5


def first_200(port):
    import http.client

    while True:
        connection = http.client.HTTPConnection("127.0.0.1", port)
        connection.request("GET", "/health")
        if connection.getresponse().status == 200:
            return time.monotonic()
        time.sleep(0.005)


def alive_with(op, role):
    return [p["pid"] for p in of_kind(op, "processes")[-1]["alive"] if p["role"] == role]


DEATHS = [("scheduler", 1), ("detokenizer", 0), ("main", 0)]


@pytest.mark.parametrize(("role", "number"), DEATHS)
def test_a_death_is_told_within_a_second(host, port, role, number):
    run = host.launch({"port": port, "children": CHILDREN})
    with host.open("watch", run_id=run["id"]) as op:
        op.until(kind("processes", lambda d: len(d["alive"]) == 4))
        pid = alive_with(op, role)[number]
        began = time.monotonic()
        os.kill(pid, signal.SIGKILL)
        seen = op.until(kind("processes", lambda d: d["gone"]))
        assert time.monotonic() - began < 1.0
        assert [(one["pid"], one["role"]) for one in seen["data"]["gone"]] == [(pid, role)]
        assert pid not in [p["pid"] for p in seen["data"]["alive"]]
        if role == "main":
            assert op.until(kind("exit"))["data"]["signal"] == "SIGKILL"
            assert time.monotonic() - began < 1.5


def test_the_kernel_is_read_up_to_its_end_right_before_a_death_is_told(host):
    if not os.access("/dev/kmsg", os.R_OK):
        pytest.skip("the kernel log is closed to us; a journal is read right after, in a thread of its own")
    run = host.launch({"children": CHILDREN})
    with host.open("watch", run_id=run["id"]) as op:
        op.until(kind("processes", lambda d: len(d["alive"]) == 4))
        os.kill(alive_with(op, "scheduler")[0], signal.SIGKILL)
        death = op.until(kind("processes", lambda d: d["gone"]))
    read = [e["t"] for e in op.events[: op.events.index(death)] if e["kind"] == "kernel"][-1]
    assert 0 <= death["t"] - read < deaths.JUST_S


def test_last_words_come_before_the_end(host, tmp_path):
    run = host.launch({"exit": {"at": str(tmp_path / "end"), "code": 7}})
    with host.open("watch", run_id=run["id"]) as op:
        op.until(kind("processes"))
        with open(run["log"], "a") as log:
            log.write("x" * 3_000_000 + "\nlast words\n")
        (tmp_path / "end").touch()
        op.until(kind("exit"))
    order = [e["kind"] for e in op.events]
    assert log_of(op).endswith("last words\n")
    assert order.index("exit") > max(n for n, name in enumerate(order) if name == "log")


def test_a_run_that_is_over_is_told_as_such(host, exit_status):
    run = host.launch({"exit": {"code": 3}, "print": ["why"]})
    exit_status(run)
    with host.open("watch", run_id=run["id"]) as op:
        assert op.until(kind("exit"))["data"]["code"] == 3
        assert "why" in log_of(op)
        assert of_kind(op, "processes")[0] == {
            "alive": [],
            "gone": [{"pid": run["main"]["pid"], "role": "main", "title": ""}],
        }


def test_a_helper_that_comes_and_goes_is_nobodys_death(host, port):
    run = host.launch({"port": port, "children": ["ninja", "sglang::scheduler_TP0"]})
    with host.open("watch", run_id=run["id"]) as op:
        op.until(kind("processes", lambda d: len(d["alive"]) == 3))
        os.kill(alive_with(op, "compiler")[0], signal.SIGKILL)
        gone = op.until(kind("processes", lambda d: d["gone"]))["data"]["gone"]
        assert [one["role"] for one in gone] == ["compiler"]
        assert op.until(kind("processes"))["data"]["gone"] == []


COMPILERS = [
    "ninja",
    "/usr/local/cuda/bin/nvcc",
    "cicc",
    "/opt/env/lib/python3.11/site-packages/triton/backends/nvidia/bin/ptxas",
    "/usr/lib/gcc/x86_64-linux-gnu/12/cc1plus",
]
# Past the page cache, which counts as no read; then idle.
READS = """
import mmap, os, time
fd = os.open({path!r}, os.O_RDONLY | os.O_DIRECT)
os.readv(fd, [mmap.mmap(-1, 4 << 20)])
time.sleep(600)
"""


def by_title(data):
    return {one["title"].split()[0]: one for one in data["alive"]}


def test_what_every_rank_and_compiler_costs(host, tmp_path):
    (tmp_path / "shard").write_bytes(os.urandom(4 << 20))
    try:
        os.close(os.open(tmp_path / "shard", os.O_RDONLY | os.O_DIRECT))
    except OSError:
        pytest.skip(f"{tmp_path} takes no O_DIRECT: there are no reads that count")
    os.sync()
    (tmp_path / "spins.py").write_text("while True: pass")
    (tmp_path / "reads.py").write_text(READS.format(path=str(tmp_path / "shard")))
    busy = {f"sglang::scheduler_TP{n}": str(tmp_path / f"{does}.py") for n, does in ((1, "spins"), (2, "reads"))}
    run = host.launch({"children": ["sglang::scheduler_TP0", *COMPILERS, "bash"], "busy": busy})
    with host.open("watch", run_id=run["id"]) as op:
        first = by_title(op.until(kind("processes", lambda d: len(d["alive"]) == 10))["data"])
        done = op.until(kind("processes", lambda d: by_title(d)["sglang::scheduler_TP1"]["cpu_s"] > 0.5), 60)
        later = by_title(done["data"])
        read = by_title(op.until(kind("processes", lambda d: by_title(d)["sglang::scheduler_TP2"]["read_kb"]))["data"])
    assert {name: first[name]["role"] for name in (*COMPILERS, "bash")} == {
        **dict.fromkeys(COMPILERS, "compiler"),
        "bash": "other",
    }
    assert later["sglang::scheduler_TP0"]["cpu_s"] < 0.2
    assert later["sglang::scheduler_TP1"]["rank"] == "TP1"
    assert 4096 <= read["sglang::scheduler_TP2"]["read_kb"] < 60_000
    assert read["sglang::scheduler_TP0"]["read_kb"] < 4096


def test_a_stopped_process_shows_its_state(host):
    run = host.launch({"children": CHILDREN})
    with host.open("watch", run_id=run["id"]) as op:
        op.until(kind("processes", lambda d: len(d["alive"]) == 4))
        os.kill(alive_with(op, "scheduler")[0], signal.SIGSTOP)
        seen = op.until(kind("processes", lambda d: any(p["state"] == "T" for p in d["alive"])))
        assert seen["data"]["gone"] == []


def test_gpus_and_who_else_is_on_them(host, nvidia_smi):
    run = host.launch({})
    busy = {"memory.used": "40000", "utilization.gpu": "97"}
    ours = {"pid": str(run["main"]["pid"]), "used_memory": "[N/A]"}
    nvidia_smi(gpus=[busy, {}], apps=[ours, {"pid": str(os.getpid()), "process_name": "a, b --api-key sk-1"}])
    with host.open("watch", run_id=run["id"]) as op:
        first, second = op.until(kind("gpu"))["data"]["gpus"]
    assert (first["used_mb"], first["util"], second["util"]) == (40000, 97, None)
    users = [(p["pid"], p["used_mb"], p["name"]) for p in first["processes"]]
    assert users == [
        (run["main"]["pid"], None, "/opt/env/bin/python"),
        (os.getpid(), 1000, "a, b --api-key ***"),
    ]
    assert second["processes"] == []


BROKEN_SMI = {"it fails": "exit 9", "its answer is none": "echo 'NVIDIA-SMI has failed: no driver'; exit 0"}


@pytest.mark.parametrize("does", BROKEN_SMI.values(), ids=BROKEN_SMI.keys())
def test_an_nvidia_smi_that_tells_nothing(host, nvidia_smi, tmp_path, does):
    run = host.launch({})
    nvidia_smi()
    (tmp_path / "bin" / "nvidia-smi").write_text(f"#!/bin/sh\n{does}\n")
    with host.open("watch", run_id=run["id"]) as op:
        op.until(kind("gap", lambda d: "nvidia-smi" in d["text"]))
    assert of_kind(op, "gpu") == []


def test_free_shared_memory_is_told_when_it_changes(host):
    host.move_to_small_disk(4096)
    told = Told()
    watch = ShmWatch(None, told.put, path=str(host.state))
    watch.poll()
    watch.poll()
    (host.state / "nccl-1").write_bytes(b"x" * 3_000_000)
    watch.poll()
    assert [k for k, _ in told] == ["shm", "shm"]
    assert told[0][1]["total_mb"] == pytest.approx(4.2, abs=0.1)
    assert told[0][1]["free_mb"] - told[1][1]["free_mb"] == pytest.approx(3.0, abs=0.1)


def test_shared_memory_that_is_not_there_is_one_gap(tmp_path):
    told = Told()
    watch = ShmWatch(None, told.put, path=str(tmp_path / "none"))
    watch.poll()
    watch.poll()
    assert [k for k, _ in told] == ["gap"]


def test_another_server_on_the_port_is_not_ours(host, port, bystander, eventually):
    with socket.socket() as other:
        other.bind(("127.0.0.1", port))
        other.listen()
        run = host.launch({"port": port, "listen": False})
        with host.open("watch", run_id=run["id"], probe_timeout_s=0.5) as op:
            seen = op.until(kind("port"))["data"]
            assert (seen["ours"], seen["owner"]["pid"]) == (False, os.getpid())
            assert op.until(http("health", state="timeout"))["data"]["ours"] is False


def test_a_200_of_somebody_else_is_no_first_token(host, port, bystander, eventually, tmp_path):
    foreign(bystander, {"port": port}, tmp_path, eventually)
    run = host.launch({"listen": False, "port": port})
    with host.open("watch", run_id=run["id"]) as op:
        op.until(http("health", state="200", ours=False))
        op.until(kind("tick"))
        op.until(kind("tick"))
    assert [d for d in of_kind(op, "http") if d["what"] != "health"] == []


FIRST_TOKENS = [
    pytest.param({}, {}, ["model_info", "generate"], "200", id="a model that generates"),
    pytest.param({"old": True}, {}, ["model_info", "generate"], "200", id="a release before 0.5.6"),
    pytest.param({"generation": False}, {}, ["model_info"], "200", id="an embedding model has no generate"),
    pytest.param({"api_key": "k"}, {"api_key": "k"}, ["model_info", "generate"], "200", id="with its key"),
    pytest.param({"api_key": "k"}, {"api_key": "x"}, ["model_info", "generate"], "other", id="with a wrong key"),
    pytest.param({}, {"generate": False}, [], None, id="told not to generate"),
]


@pytest.mark.parametrize(("order", "asked", "expected", "state"), FIRST_TOKENS)
def test_the_first_token(host, port, order, asked, expected, state):
    run = host.launch({"port": port, **order})
    with host.open("watch", run_id=run["id"], **asked) as op:
        op.until(http("health", state="200"))
        for what in expected:
            last = op.until(http(what))
        assert not expected or last["data"]["state"] == state
        op.until(kind("tick"))
    told = [d["what"] for d in of_kind(op, "http") if d["what"] != "health"]
    assert told[: len(expected)] == expected
    assert ("generate" in told) == ("generate" in expected)


def test_serving_goes_on_being_probed(host, port):
    run = host.launch({"port": port})
    with host.open("watch", run_id=run["id"], probe_timeout_s=0.5) as op:
        op.until(http("generate", state="200"))
        os.kill(run["main"]["pid"], signal.SIGSTOP)
        op.until(http("health", state="timeout", ours=True), 15)
        os.kill(run["main"]["pid"], signal.SIGCONT)
        op.until(http("health", state="200"))


def foreign(bystander, order, tmp_path, eventually):
    with open(tmp_path / "log", "wb") as log:
        argv = [sys.executable, str(HERE / "fake_server.py"), json.dumps(order), "--port", str(order.get("port", 0))]
        server = bystander(argv, stdout=log, stderr=log, start_new_session=True)
    eventually(lambda: b"all stands" in (tmp_path / "log").read_bytes())
    return server


@pytest.mark.parametrize("named", [("pid",), ("port",), ("pid", "log"), ("port", "log")], ids="+".join)
def test_a_foreign_server_by_what_is_known_of_it(host, port, bystander, eventually, tmp_path, named):
    server = foreign(bystander, {"port": port, "children": CHILDREN}, tmp_path, eventually)
    known = {"pid": server.pid, "port": port, "log": str(tmp_path / "log")}
    with host.open("watch", **{name: known[name] for name in named}) as op:
        op.until(http("generate", state="200", ours=True))
        start = op.events[0]["data"]
        assert (start["run"], start["main"], start["port"], start["log"]) == (None, server.pid, port, known["log"])
        os.kill(server.pid, signal.SIGKILL)
        op.until(kind("processes", lambda d: d["gone"]))
    assert log_of(op) == "all stands\n"


def test_a_log_alone(host, tmp_path):
    (tmp_path / "log").write_text("one\n")
    with host.open("watch", log=str(tmp_path / "log")) as op:
        op.until(kind("log"))
        with open(tmp_path / "log", "a") as log:
            log.write("two\n")
        op.until(kind("log"))
    assert log_of(op) == "one\ntwo\n"
    assert of_kind(op, "http") == of_kind(op, "processes") == []


def test_a_wait_that_goes_on_reads_no_byte_twice(host):
    run = host.launch({"print": ["one", "two"]})
    with host.open("watch", run_id=run["id"], from_offset=4) as op:
        assert op.until(kind("log"))["data"] == {"offset": 4, "data": "two\nall stands\n"}


def test_what_the_patches_wrote_is_counted(host):
    run = host.launch({}, probe={"sha": "x", "source": ""}, patches=["eagle3"])
    proof = {"kind": "proof", "time": 1.0, "rank": 0, "pid": 5, "wrapped": 6, "missing": ["m:A.b"]}
    with host.open("watch", run_id=run["id"], patches=["eagle3"]) as op:
        lines = [
            proof,
            *({"kind": "record", "time": 1.0, "rank": 0, "role": role} for role in ("target", "draft", "draft")),
        ]
        with open(f"{run['dir']}/trace/rank0.jsonl", "w") as trace:
            trace.write("".join(json.dumps(line) + "\n" for line in lines) + '{"kind": "record", "role": "ta')
        expected = {"proof": True, "wrapped": 6, "missing": ["m:A.b"], "records": {"target": 1, "draft": 2}}
        assert op.until(kind("trace"))["data"] == {"ranks": {"0": expected}}
        with open(f"{run['dir']}/trace/rank0.jsonl", "a") as trace:
            trace.write('rget"}\n')
        assert op.until(kind("trace"))["data"]["ranks"]["0"]["records"]["target"] == 2


def test_replicas_of_a_rank_are_proven_together(host):
    run = host.launch({}, probe={"sha": "x", "source": ""}, patches=["eagle3"])
    proof = json.dumps({"kind": "proof", "wrapped": 6, "missing": []}) + "\n"
    Path(run["dir"], "trace", "rank0.jsonl").write_text(proof)
    Path(run["dir"], "trace", "rank0.77.jsonl").write_text('{"kind": "record", "role": "target"}\n')
    with host.open("watch", run_id=run["id"], patches=["eagle3"]) as op:
        assert op.until(kind("trace"))["data"]["ranks"]["0"]["proof"] is False


def test_the_parts_of_a_long_trace_are_counted_together(host):
    run = host.launch({}, probe={"sha": "x", "source": ""}, patches=["eagle3"])
    proof, record = '{"kind": "proof", "wrapped": 6, "missing": []}\n', '{"kind": "record", "role": "target"}\n'
    for part, text in (("rank0", proof + record), ("rank0.part0003", record), ("rank0.part0004", record)):
        Path(run["dir"], "trace", f"{part}.jsonl").write_text(text)
    expected = {"proof": True, "wrapped": 6, "missing": [], "records": {"target": 3}}
    with host.open("watch", run_id=run["id"], patches=["eagle3"]) as op:
        assert op.until(kind("trace"))["data"] == {"ranks": {"0": expected}}


def test_a_full_disk_ends_the_record_and_not_the_watch(host):
    host.move_to_small_disk(256)
    run = host.launch({"print": ["y" * 100_000]})
    with host.open("watch", run_id=run["id"], record={"wait": "w"}) as op:
        with open(run["log"], "a") as log:
            log.write("z" * 30_000)
        gap = op.until(kind("gap", lambda d: d["text"].startswith("record:")))
        assert "No space left" in gap["data"]["text"] or "full" in gap["data"]["text"]
        op.until(kind("tick"))


def test_two_waits_record_side_by_side(host):
    run = host.launch({})
    with (
        host.open("watch", run_id=run["id"], record={"wait": "w"}) as one,
        host.open("watch", run_id=run["id"], record={"wait": "w"}) as two,
    ):
        one.until(kind("tick"))
        two.until(kind("tick"))
    lines = [json.loads(line) for line in Path(run["dir"], "watch.jsonl").read_text().splitlines()]
    assert len({line["watch"] for line in lines}) == 2


def test_a_watch_ends_with_its_pipe_and_leaves_the_server(host, alive):
    run = host.launch({})
    with host.open("watch", run_id=run["id"]) as op:
        op.until(kind("tick"))
        began = time.monotonic()
        op.close()
        op.process.wait(10)
        assert time.monotonic() - began < 2
    assert alive(run["main"]["pid"])


def test_a_watch_costs_little(host, port):
    run = host.launch({"port": port, "children": CHILDREN})
    with host.open("watch", run_id=run["id"], record={"wait": "w"}) as op:
        op.until(http("generate"))
        before, began = cpu_s(op.process.pid), time.monotonic()
        while time.monotonic() - began < 4:
            op.next()
        used = (cpu_s(op.process.pid) - before) / (time.monotonic() - began)
    assert used < 0.05


def cpu_s(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


# --- the log by itself ------------------------------------------------------------------------------------------------


class Told(list):
    def put(self, kind, data):
        self.append((kind, data))


def text(told):
    return "".join(data["data"] for kind, data in told if kind == "log").encode("utf-8", "surrogateescape")


def test_a_log_in_any_bytes(tmp_path):
    path, told = tmp_path / "log", Told()
    data = ("ü€😀" * 100_000).encode() + bytes(range(256)) * 5000
    path.write_bytes(data)
    LogWatch(str(path), 0, told.put).drain()
    assert text(told) == data
    assert all(len(d["data"].encode("utf-8", "surrogateescape")) <= 256 << 10 for _, d in told)
    assert "\udcc3" not in told[0][1]["data"], "a character is not cut where a piece ends"


def rewrite(path, data):
    path.write_bytes(data)


def replace(path, data):
    path.with_name("new").write_bytes(data)
    path.with_name("new").rename(path)


RESETS = [
    pytest.param(rewrite, b"new\n", "truncated", id="truncated to less"),
    pytest.param(rewrite, b"another text, longer than before\n", "truncated", id="truncated and grown past our offset"),
    pytest.param(replace, b"new\n", "rotated", id="another file under the name"),
    pytest.param(rewrite, b"old line\nand more\n", None, id="grown by an editor that kept the beginning"),
]


@pytest.mark.parametrize(("change", "data", "reason"), RESETS)
def test_a_log_that_changes_under_us(tmp_path, change, data, reason):
    path, told = tmp_path / "log", Told()
    path.write_bytes(b"old line\n")
    watch = LogWatch(str(path), 0, told.put)
    watch.poll()
    change(path, data)
    watch.poll()
    assert [d["reason"] for k, d in told if k == "log-reset"] == ([reason] if reason else [])
    assert text(told) == b"old line\n" + (data if reason else data[len(b"old line\n") :])


def test_the_old_file_is_read_to_its_end_before_the_new_one(tmp_path):
    path, told = tmp_path / "log", Told()
    path.write_bytes(b"a\n")
    watch = LogWatch(str(path), 0, told.put)
    watch.poll()
    path.rename(tmp_path / "log.1")
    with open(tmp_path / "log.1", "ab") as old:
        old.write(b"b\n")
    watch.poll()
    path.write_bytes(b"c\n")
    watch.poll()
    assert [(k, d.get("data", d.get("reason"))) for k, d in told] == [
        ("log", "a\n"),
        ("log", "b\n"),
        ("log-reset", "rotated"),
        ("log", "c\n"),
    ]


def test_a_log_that_is_not_there_yet_is_one_gap(tmp_path):
    path, told = tmp_path / "log", Told()
    watch = LogWatch(str(path), 0, told.put)
    watch.poll()
    watch.poll()
    path.write_bytes(b"late\n")
    watch.poll()
    assert [k for k, _ in told] == ["gap", "log"]


@pytest.mark.parametrize(
    ("data", "count"),
    [
        (b"abc", 0),
        ("ü".encode(), 0),
        ("ü".encode()[:1], 1),
        ("€".encode()[:2], 2),
        ("😀".encode()[:3], 3),
        (b"\x80\x80\x80", 0),
    ],
)
def test_a_character_that_is_not_finished(data, count):
    assert _unfinished(b"...." + data) == count


KERNEL = [
    ("Out of memory: Killed process 4711 (python) total-vm:1kB", True),
    ("Memory cgroup out of memory: Killed process 4711 (sglang::schedul)", True),
    ("oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=x", True),
    ("NVRM: Xid (PCI:0000:3b:00): 79, pid=4711, GPU has fallen off the bus.", True),
    ("eth0: link up, 1000 Mbps", False),
    ('audit: type=1400 comm="boom-kills"', False),
    ("systemd[1]: Listening on Userspace Out-Of-Memory (OOM) Killer Socket.", False),
]


@pytest.mark.parametrize(("line", "wanted"), KERNEL, ids=[line[:30] for line, _ in KERNEL])
def test_lines_of_the_kernel_log(line, wanted):
    assert bool(_NEEDLE.search(line)) is wanted


def test_a_port_that_nobody_holds_is_nobodys(port):
    assert Identity(port, None).look() is None
