"""The stand-in behaves as the kit's README saw SGLang behave: endpoints, processes, ends."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import requests

from sglfab.testing.fixtures import StandinHost, end_session
from sglfab.testing.standin.build import make_models, make_standin, record_digest

HOLD = {"delays": {"warmup": 30}}
OOM = "Traceback (most recent call last):\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"


def until(what: Callable[[], object], *, within_s: float = 10) -> object:
    """The first true answer; fails when none came in time."""
    end = time.monotonic() + within_s
    while time.monotonic() < end:
        with contextlib.suppress(requests.ConnectionError):
            if answer := what():
                return answer
    raise AssertionError(f"nothing within {within_s} s")


def get(host: StandinHost, path: str, *, timeout_s: float = 5, **more: object) -> requests.Response:
    return requests.get(f"http://127.0.0.1:{host.port}{path}", timeout=timeout_s, **more)  # type: ignore[arg-type]


def ready(host: StandinHost) -> object:
    return until(lambda: get(host, "/health").status_code == 200)


def log(host: StandinHost) -> str:
    return (host.root / "server.log").read_text(encoding="utf-8")


def children(pid: int) -> dict[str, int]:
    found = {}
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in task.read_text().split():
            found[Path(f"/proc/{child}/cmdline").read_text().rstrip("\0")] = int(child)
    return found


def test_is_ready_within_a_second_and_answers_health_with_an_empty_body(standin_host: StandinHost) -> None:
    began = time.monotonic()
    standin_host.start()
    ready(standin_host)
    assert time.monotonic() - began < 2  # under 0.5 s alone; the machine is shared
    assert get(standin_host, "/health").content == b""


def test_socket_open_while_warming_up_answers_503_and_info_200(standin_host: StandinHost) -> None:
    standin_host.start(HOLD)
    until(lambda: get(standin_host, "/health").status_code == 503)
    assert get(standin_host, "/health").content == b""
    assert get(standin_host, "/model_info").json()["model_path"] == str(standin_host.target)
    assert get(standin_host, "/v1/models").status_code == 200


def test_processes_have_sglangs_titles(standin_host: StandinHost) -> None:
    server = standin_host.start()
    ready(standin_host)
    assert set(children(server.pid)) == {"sglang::scheduler_TP0", "sglang::scheduler_TP1", "sglang::detokenizer"}


def test_log_has_the_stages_in_order(standin_host: StandinHost) -> None:
    standin_host.start()
    ready(standin_host)
    order = [
        "server_args=",
        "Init parallel begin",
        "Load weight begin",
        "LlamaForCausalLMEagle3",
        "KV Cache is allocated",
    ]
    order += ["Engine startup timings", "Uvicorn running", "The server is fired up and ready to roll!"]
    places = [log(standin_host).index(piece) for piece in order]
    assert places == sorted(places)
    assert re.search(r"^\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d TP1\] Init parallel ends", log(standin_host), re.M)


def test_generate_counts_tokens_and_acceptance_and_repeats_itself(standin_host: StandinHost) -> None:
    standin_host.start()
    ready(standin_host)
    ask = {"text": "hello", "sampling_params": {"max_new_tokens": 8}}
    url = f"http://127.0.0.1:{standin_host.port}/generate"
    first, second = (requests.post(url, json=ask, timeout=5).json() for _ in range(2))
    assert first == second
    assert len(first["output_ids"]) == first["meta_info"]["completion_tokens"] == 8
    assert first["meta_info"]["spec_accept_length"] == 4.0
    assert "stand-in" in first["text"]


def test_api_key_guards_all_but_health(standin_host: StandinHost) -> None:
    standin_host.start({}, "--api-key", "hush")
    ready(standin_host)
    assert get(standin_host, "/model_info").status_code == 401
    assert get(standin_host, "/model_info", headers={"Authorization": "Bearer hush"}).status_code == 200
    assert "hush" not in log(standin_host)


def test_sigterm_drains_and_exits_0(standin_host: StandinHost) -> None:
    server = standin_host.start()
    ready(standin_host)
    server.terminate()
    assert server.wait(timeout=5) == 0
    assert "Draining requests" in log(standin_host)


def test_sigterm_can_be_ignored(standin_host: StandinHost) -> None:
    server = standin_host.start({"ignore_sigterm": True})
    ready(standin_host)
    server.terminate()
    until(lambda: "SIGTERM received" in log(standin_host))
    with pytest.raises(subprocess.TimeoutExpired):
        server.wait(timeout=0.5)


CRASHES = {
    "a rank hits an exception": ("load-weights", "TP1", "crash", -9, r"TP1\] Scheduler hit an exception: Traceback"),
    "a rank is killed while loading": ("kv-cache", "TP0", "kill", -9, r"Rank 0 scheduler died during initialization"),
    "the launcher exits on its own": ("args", "main", "crash", 1, r"OutOfMemoryError"),
    "the launcher is killed": ("import", "main", "kill", -9, r"STAND-IN"),
}


@pytest.mark.parametrize("case", CRASHES)
def test_crash_while_loading(standin_host: StandinHost, case: str) -> None:
    stage, who, do, code, line = CRASHES[case]
    server = standin_host.start({"at": [{"stage": stage, "who": who, "do": do, "text": OOM}]})
    assert server.wait(timeout=10) == code
    assert re.search(line, log(standin_host))


def test_cut_shard_ends_as_in_sglang(standin_host: StandinHost) -> None:
    shard = standin_host.target / "model-00002-of-00002.safetensors"
    os.truncate(shard, shard.stat().st_size // 2)
    server = standin_host.start()
    assert server.wait(timeout=10) == -9
    assert "SafetensorError: Error while deserializing header: incomplete metadata" in log(standin_host)


def test_unknown_flag_exits_2_with_the_error_last(standin_host: StandinHost) -> None:
    server = standin_host.start({}, "--no-such-flag", "1")
    assert server.wait(timeout=10) == 2
    assert log(standin_host).splitlines()[-1].endswith("error: unrecognized arguments: --no-such-flag")


def test_busy_port_loads_prints_errno_98_and_hangs_even_after_sigterm(standin_host: StandinHost) -> None:
    first = standin_host.start()
    ready(standin_host)
    second = standin_host.start()
    until(lambda: "[Errno 98]" in log(standin_host))
    second.terminate()
    with pytest.raises(subprocess.TimeoutExpired):
        second.wait(timeout=0.5)
    assert first.poll() is None


DEATHS = {
    "a scheduler": ("sglang::scheduler_TP1", "Subprocess scheduler_1 (pid="),
    "the detokenizer": ("sglang::detokenizer", "Subprocess detokenizer (pid="),
}


@pytest.mark.parametrize("case", DEATHS)
def test_child_killed_while_serving_ends_the_launcher(standin_host: StandinHost, case: str) -> None:
    title, line = DEATHS[case]
    server = standin_host.start({"detokenizer_watchdog_s": 0.2})
    ready(standin_host)
    os.kill(children(server.pid)[title], signal.SIGKILL)
    assert server.wait(timeout=10) == -9
    assert line in log(standin_host)


def test_child_killed_just_before_serving_ends_the_launcher_by_its_watchdog(standin_host: StandinHost) -> None:
    server = standin_host.start({"delays": {"warmup": 0.5}, "detokenizer_watchdog_s": 2})
    until(lambda: get(standin_host, "/health").status_code == 503)
    os.kill(children(server.pid)["sglang::detokenizer"], signal.SIGKILL)
    assert server.wait(timeout=10) == -9
    assert "Subprocess detokenizer (pid=" in log(standin_host)


def test_stopped_scheduler_hangs_health_but_not_the_info_endpoints(standin_host: StandinHost) -> None:
    server = standin_host.start()
    ready(standin_host)
    os.kill(children(server.pid)["sglang::scheduler_TP0"], signal.SIGSTOP)
    with pytest.raises(requests.Timeout):
        get(standin_host, "/health", timeout_s=0.5)
    assert get(standin_host, "/model_info").status_code == 200


def test_scripted_death_counts_from_serving(standin_host: StandinHost) -> None:
    action = {"after_s": 0.2, "who": "TP0", "do": "kill"}
    server = standin_host.start({"serving": [action]})
    ready(standin_host)
    assert server.wait(timeout=10) == -9


def test_children_leave_when_the_launcher_is_killed(standin_host: StandinHost) -> None:
    server = standin_host.start({"linger_s": 0})
    ready(standin_host)
    mine = children(server.pid)
    server.kill()
    server.wait(timeout=5)
    until(lambda: not any(Path(f"/proc/{pid}/cmdline").exists() and running(pid) for pid in mine.values()))


def running(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


@pytest.mark.parametrize("values", [{"paec_s": 1}, {"at": [{"stage": "args", "who": "main", "do": "dance"}]}])
def test_mistake_in_the_script_is_said(standin_host: StandinHost, values: dict[str, object]) -> None:
    assert standin_host.start(values).wait(timeout=10) == 1
    assert "SGLANG_STANDIN: unknown" in log(standin_host)


def test_every_file_matches_its_record(tmp_path: Path) -> None:
    made = make_standin(tmp_path / "env", release="0.5.12")
    rows = [line.split(",") for line in (made.dist_info / "RECORD").read_text().splitlines()]
    assert all(record_digest((made.site_packages / path).read_bytes()) == digest for path, digest, _ in rows if digest)
    assert {"sglang/srt/models/deepseek_v2.py", "sglang/srt/layers/logits_processor.py"} <= {row[0] for row in rows}
    assert made.dist_info.name == "sglang-0.5.12.dist-info"


def test_importlib_metadata_of_its_python_finds_the_release(tmp_path: Path) -> None:
    made = make_standin(tmp_path / "env", release="0.5.9")
    ask = "import importlib.metadata as m, sglang.version as v; print(m.version('sglang'), v.__version__)"
    said = subprocess.run([str(made.python), "-c", ask], capture_output=True, text=True, check=True).stdout
    assert said.split() == ["0.5.9", "0.5.9"]


def test_models_have_whole_shards_and_an_index(tmp_path: Path) -> None:
    target, draft = make_models(tmp_path)
    index = json.loads((target / "model.safetensors.index.json").read_text())
    assert all((target / shard).is_file() for shard in index["weight_map"].values())
    assert json.loads((draft / "config.json").read_text())["architectures"] == ["LlamaForCausalLMEagle3"]


def test_end_session_leaves_other_sessions_alone(standin_host: StandinHost) -> None:
    server = standin_host.start()
    ready(standin_host)
    other = subprocess.Popen(["sleep", "60"], start_new_session=True)
    try:
        end_session(server.pid)
        assert server.wait(timeout=5) == -9
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()
