"""`check` and `facts`: what can fail a launch later is found while nothing has changed."""

import json
import os
import socket
import struct
import sys
import threading
import time
from pathlib import Path

import pytest

from sglfab.hostside import sockdiag
from sglfab.hostside.family import Server
from sglfab.hostside.ports import can_bind, listeners, ports_of, silent, table
from sglfab.hostside.processes import Ident
from sglfab.hostside.sockdiag import Listener
from sglfab.hostside.watch_http import HttpWatch, Identity


def shard(path, *, tensors=1000, lost=0, garbage=False):
    header = json.dumps(
        {"__metadata__": {}, "w": {"dtype": "U8", "shape": [tensors], "data_offsets": [0, tensors]}}
    ).encode()
    data = b"x" * 64 if garbage else struct.pack("<Q", len(header)) + header + b"\0" * tensors
    path.write_bytes(data[: len(data) - lost])


def model(folder, shards=("a.safetensors", "b.safetensors"), index=("a.safetensors", "b.safetensors"), **broken):
    folder.mkdir()
    (folder / "config.json").write_text('{"architectures": ["DeepseekV3ForCausalLM"]}')
    for name in shards:
        shard(folder / name, **broken.get(name[0], {}))
    if index:
        weights = {f"w{n}": name for n, name in enumerate(index)}
        (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weights}))
    return folder


MODELS = [
    pytest.param({}, [], [], id="a whole model"),
    pytest.param({"index": None}, [], [], id="a model without an index"),
    pytest.param({"shards": ("a.safetensors",)}, ["b.safetensors"], [], id="a shard of the index is missing"),
    pytest.param({"b": {"lost": 1}}, [], ["b.safetensors"], id="a shard that lacks its last byte"),
    pytest.param({"a": {"lost": 1050}}, [], ["a.safetensors"], id="a shard that ends in its header"),
    pytest.param({"b": {"garbage": True}}, [], ["b.safetensors"], id="a shard that is none"),
    pytest.param({"b": {"tensors": 0, "lost": 0}}, [], [], id="a shard of an empty tensor"),
]


@pytest.mark.parametrize(("made", "missing", "cut"), MODELS)
def test_the_shards_of_a_model(host, tmp_path, made, missing, cut):
    folder = model(tmp_path / "model", **made)
    [path] = host.ok("check", port=None, paths=[str(folder)])["paths"]
    assert (path["kind"], path["missing_shards"], path["cut_files"]) == ("dir", missing, cut)
    assert path["config"] == {"architectures": ["DeepseekV3ForCausalLM"]}
    assert path["size_bytes"] == sum(file.stat().st_size for file in folder.iterdir())


def test_what_a_path_can_be(host, tmp_path):
    (tmp_path / "weights.gguf").write_bytes(b"1234")
    (tmp_path / "relative").mkdir()
    (tmp_path / "dangling.safetensors").symlink_to(tmp_path / "gone")
    paths = [
        str(tmp_path / "weights.gguf"),
        str(tmp_path / "nowhere"),
        "deepseek-ai/DeepSeek-V3",
        "relative",
        "./relative2",
    ]
    found = host.ok("check", port=None, cwd=str(tmp_path), paths=paths)
    assert [path["kind"] for path in found["paths"]] == ["file", "missing", "hub", "dir", "missing"]
    assert found["cwd_ok"] is True


def test_a_config_that_is_no_json_or_huge_is_none(host, tmp_path):
    for name, text in (("bad", "{"), ("huge", json.dumps({"x": "y" * (2 << 20)}))):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(text)
        [path] = host.ok("check", port=None, paths=[str(tmp_path / name)])["paths"]
        assert (path["kind"], path["config"]) == ("dir", None)


@pytest.mark.parametrize(("cwd", "good"), [("/", True), ("/no/such/folder", False), ("/etc/passwd", False)])
def test_the_working_folder(host, cwd, good):
    assert host.ok("check", port=None, paths=[], cwd=cwd)["cwd_ok"] is good


@pytest.mark.parametrize("address", ["127.0.0.1", "0.0.0.0", "::1"])
def test_a_busy_port_names_its_holder(host, address):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family) as other:
        other.bind((address, 0))
        other.listen()
        found = host.ok("check", port=other.getsockname()[1], http_host=address, paths=[])["port"]
    assert found["busy"] is True
    assert found["owner"]["pid"] == os.getpid()
    assert Path(sys.executable).name[:6] in found["owner"]["cmdline"] or "pytest" in found["owner"]["cmdline"]
    assert found["owner"]["run"] is None


def test_a_port_of_a_run_of_ours_is_told_as_that(host, port):
    run = host.launch({"port": port})
    found = host.ok("check", port=port, http_host="127.0.0.1", paths=[])
    assert (found["port"]["busy"], found["port"]["owner"]["run"]) == (True, run["id"])
    assert [live["id"] for live in found["live_runs"]] == [run["id"]]


def test_a_free_port_and_a_run_that_ended(host, port, exit_status):
    exit_status(host.launch({"port": port, "exit": {"code": 0}}))
    found = host.ok("check", port=port, http_host="127.0.0.1", paths=[])
    assert found["port"] == {"busy": False, "owner": None, "reason": None}
    assert found["live_runs"] == []


def test_connections_that_linger_do_not_make_a_port_busy(host):
    with socket.socket() as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind(("127.0.0.1", 0))
        server.listen()
        port = server.getsockname()[1]
        client = socket.create_connection(("127.0.0.1", port))
        accepted, _ = server.accept()
        accepted.close()  # the side that closes first keeps the port in TIME_WAIT
        client.close()
    assert host.ok("check", port=port, http_host="127.0.0.1", paths=[])["port"]["busy"] is False


@pytest.mark.parametrize(("family", "address"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")])
def test_both_ways_to_find_who_listens_agree(family, address):
    with socket.socket(family) as server, socket.socket(family) as idle:
        for one in (server, idle):
            try:
                one.bind((address, 0))
            except OSError as error:
                pytest.skip(f"no {address} here: {error.strerror}")
        server.listen()
        port, inode = server.getsockname()[1], os.fstat(server.fileno()).st_ino
        expected = [Listener(inode=inode, host=address, port=port, uid=os.getuid())]
        assert table(port) == expected
        assert sockdiag.listening(port) in (expected, None)
        assert expected[0] in (sockdiag.listening() or expected)
        assert listeners(idle.getsockname()[1]) == []
        assert ports_of(os.getpid()) == [port]


def test_a_port_is_silent_until_somebody_listens(tmp_path):
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        port = server.getsockname()[1]
        assert silent(port)
        server.listen()
        assert not silent(port)


def test_a_watch_does_not_even_try_to_connect_before_the_server_listens():
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        port = bound.getsockname()[1]
        told, closed = [], threading.Event()

        def put(kind, data):
            told.append((kind, data))
            closed.set()

        watched = Identity(port, Server(Ident(os.getpid(), 0)))
        more = {"api_key": None, "timeout_s": 1.0, "generate": True}
        HttpWatch("127.0.0.1", port, identity=watched, put=put, closed=closed, **more).run()
    seen = [(data["state"], data["detail"]) for kind, data in told if kind == "http"]
    assert seen == [("refused", "nobody listens")]  # the kernel's own refusal reads otherwise


def test_an_address_that_is_not_of_this_host_has_a_reason():
    free, reason = can_bind("203.0.113.7", 31000)
    assert (free, "assign" in (reason or "")) == (False, True)


def test_the_facts_of_this_host(host):
    facts = host.ok("facts")
    assert facts["uid"] == os.getuid()
    assert facts["python"]["path"] == sys.executable
    assert facts["state_dir"] == str(host.state)
    assert facts["state_free_mb"] > 0
    assert facts["ulimits"]["nofile"][0] > 0
    assert not os.path.exists(host.state), "a look must not create anything"


def fake_install(folder, *, release="0.5.99", wheel=True, name="sglang"):
    """A folder with a package sglang; wheel: a distribution of some name says that it installed it."""
    package = folder / "sglang"
    (package / "srt" / "layers").mkdir(parents=True)
    (package / "__init__.py").write_text("raise SystemExit('imported!')")
    (package / "version.py").write_text(f'__version__ = "{release}"\n')
    if wheel:
        info = folder / f"{name}-9.9.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 9.9\n")
        (info / "RECORD").write_text("sglang/srt/layers/logits_processor.py,sha256=x,1\n")
    return str(folder)


INSTALLS = {
    "a wheel": {},
    "a fork's wheel: the release is the package's own word": {"name": "amd_sglang"},
    "a source tree": {"wheel": False},
}


@pytest.mark.parametrize("made", INSTALLS.values(), ids=INSTALLS.keys())
def test_sglang_is_found_without_importing_it(host, tmp_path, made):
    host.env["PYTHONPATH"] = fake_install(tmp_path / "site", **made)
    found = host.ok("facts")["sglang"]
    assert (found["version"], found["editable"]) == ("0.5.99", not made.get("wheel", True))
    assert found["path"].endswith("/site/sglang")
    assert bool(found["dist_info"]) is made.get("wheel", True)


def test_the_pythonpath_of_the_profile_comes_before_the_interpreters_own(host, tmp_path):
    host.env["PYTHONPATH"] = fake_install(tmp_path / "site")
    source = fake_install(tmp_path / "source", release="0.6.0", wheel=False)
    assert host.ok("facts", pythonpath=f"{tmp_path}/nothing:{source}")["sglang"]["version"] == "0.6.0"
    assert host.ok("facts", pythonpath=str(tmp_path / "nothing"))["sglang"]["version"] == "0.5.99"


def test_no_sglang_is_null(host):
    host.prefix = ("env", "-u", "PYTHONPATH")
    assert host.ok("facts")["sglang"] is None


def test_a_look_is_quick(host, tmp_path):
    folder = model(tmp_path / "model", shards=[f"{n}.safetensors" for n in range(160)], index=None)
    began = time.monotonic()
    host.ok("check", port=None, paths=[str(folder)])
    assert time.monotonic() - began < 5
