"""Every shipped patch set at once on the real server: each tap leaves the record that its set promises."""

from __future__ import annotations

import hashlib
import json
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from sglfab.flows import patch
from sglfab.project import Project
from sglfab.testing.cpu.layout import CpuKit, recorded_sha256
from sglfab.testing.cpu.overlay import Overlay
from sglfab.testing.cpu.plain import PlainServer
from sglfab.testing.fixtures import find_free_port
from sglfab.transports.host import Host
from sglfab.transports.local import LocalTransport

pytestmark = [pytest.mark.sglang, pytest.mark.slow, pytest.mark.timeout(400)]

ROOT = Path(__file__).parents[2]
PROBE = ROOT / "sglfab" / "patching" / "probe" / "sglfab_probe.py"
SETS = Project(ROOT).names("patches")
TP_SIZE, STEPS = 2, 3
Record = Mapping[str, Any]


@pytest.fixture(scope="module")
def trace(cpu_kit: CpuKit, overlay: Overlay, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[list[Record]]]:
    """The lines of each rank, after a few prompts."""
    folder = tmp_path_factory.mktemp("shipped-sets")
    (folder / "trace").mkdir()
    project, host = Project(ROOT), Host(LocalTransport(), python=str(overlay.python), state_dir=str(folder / "state"))
    done = patch.apply(project, host, SETS, draft=["LlamaForCausalLMEagle3"])
    env = {"SGLFAB_TRACE_DIR": str(folder / "trace"), "SGLFAB_PROBE": str(PROBE)}
    with PlainServer(
        cpu_kit, port=find_free_port(), log=folder / "server.log", python=overlay.python, env=env
    ) as server:
        server.wait_until_ready(within_s=200)
        for prompt in ("one and two", "three and four and five"):
            generate(server.url, prompt)
    patch.remove(project, host)
    record = recorded_sha256(cpu_kit.site_packages)
    now = {file: hashlib.sha256((overlay.sglang / file).read_bytes()).hexdigest() for file in done.files}
    assert now == {file: record[f"sglang/{file}"] for file in done.files}
    yield [
        [json.loads(line) for line in (folder / "trace" / f"rank{rank}.jsonl").read_text().splitlines()]
        for rank in range(TP_SIZE)
    ]
    host.close()


def generate(url: str, prompt: str) -> None:
    body = {"text": prompt, "sampling_params": {"temperature": 0, "max_new_tokens": 12}}
    request = urllib.request.Request(f"{url}/generate", json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=60) as reply:
        reply.read()


@pytest.fixture(params=range(TP_SIZE), ids=["TP0", "TP1"])
def lines(trace: list[list[Record]], request: pytest.FixtureRequest) -> list[Record]:
    return trace[request.param]


def of(lines: list[Record], tap: str) -> list[Record]:
    return [line for line in lines if line.get("tap") == tap and line["kind"] in ("record", "setup")]


def test_every_tap_is_in_and_none_was_switched_off(lines: list[Record]) -> None:
    (proof,) = [line for line in lines if line["kind"] == "proof"]
    assert proof["missing"] == []
    assert {line["kind"] for line in lines} <= {"setup", "proof", "record"}


def test_the_draft_was_filled_from_its_checkpoint(lines: list[Record]) -> None:
    (loaded,) = of(lines, "draft-load")
    values = loaded["values"]
    assert values["unmatched"], values
    assert set(values["unmatched"]["first"]) <= {"t2d"}  # SGLang needs only d2t
    assert [one["name"] for one in values["unfilled"]["first"]] == ["model.embed_tokens.weight"]
    assert loaded["tensors"]["fc"]["shape"] == [values["hidden_size"], 3 * values["hidden_size"]]
    low, high = values["hot_token_range"]
    assert 0 <= low < high < values["vocab_size"]


def test_the_wired_pair_accepts_all_in_every_round(lines: list[Record]) -> None:
    rounds = of(lines, "verify")
    assert len(rounds) > 3
    assert {tuple(line["values"]["accept_tokens"]) for line in rounds} == {(STEPS + 1,)}
    assert {line["values"]["num_steps"] for line in rounds} == {STEPS}
    assert all(line["tensors"]["accept_tokens"]["mean"] == STEPS + 1 for line in rounds)


def test_the_logits_of_both_are_sane(lines: list[Record]) -> None:
    found = of(lines, "logits")
    assert {line["role"] for line in found} == {"target", "draft"}
    assert {line["tensors"]["logits"]["nan"] + line["tensors"]["logits"]["inf"] for line in found} == {0}
    assert all(line["values"]["top1"] for line in found)


def test_the_drafts_layer_reads_states_as_wide_as_its_embeddings(lines: list[Record]) -> None:
    found = of(lines, "draft-input")
    assert {line["mode"] for line in found} == {"EXTEND", "DECODE", "DRAFT_EXTEND_V2"}
    assert all(line["tensors"]["hidden"]["shape"] == line["tensors"]["embeds"]["shape"] for line in found)
