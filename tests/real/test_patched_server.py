"""The debug patch on the real server: the same tokens with and without it, and every promised record on every rank."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from real_server import PROMPTS, Unpatched

from sglfab.flows import patch
from sglfab.flows.identity import Operator
from sglfab.project import Project
from sglfab.testing.cpu.layout import PATCHED_FILES, CpuKit, recorded_sha256
from sglfab.testing.cpu.overlay import Overlay
from sglfab.testing.cpu.plain import PlainServer, greedy
from sglfab.testing.fixtures import find_free_port
from sglfab.transports.host import Host
from sglfab.transports.local import LocalTransport

pytestmark = [pytest.mark.sglang, pytest.mark.timeout(500)]

ROOT = Path(__file__).parents[2]
PROBE = ROOT / "sglfab" / "patching" / "probe" / "sglfab_probe.py"
SET = "eagle3-hidden-states"
ADA = Operator("ada", "lovelace")
TP_SIZE, STEPS = 2, 3
Record = Mapping[str, Any]


@dataclass
class Story:
    """What one life of the install showed: unpatched, patched and inert, patched and tracing, unpatched again."""

    tokens: dict[str, list[list[int]]] = field(default_factory=dict)
    lines: dict[int, list[Record]] = field(default_factory=dict)
    status: dict[str, patch.PatchStatus] = field(default_factory=dict)
    sha256: dict[str, str] = field(default_factory=dict)
    modes: dict[str, int] = field(default_factory=dict)
    log: str = ""


@pytest.fixture(scope="module")
def story(
    cpu_kit: CpuKit, overlay: Overlay, unpatched: Unpatched, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Story]:
    """Two servers, one after the other, from one copy of SGLang; the third is the session's own."""
    folder = tmp_path_factory.mktemp("patched-server")
    host = Host(LocalTransport(), python=str(overlay.python), state_dir=str(folder / "state"))
    project = Project(ROOT)
    told = Story(tokens={"unpatched": unpatched.tokens}, status={"unpatched": unpatched.status})
    trace = {"SGLFAB_TRACE_DIR": str(folder / "trace"), "SGLFAB_PROBE": str(PROBE)}
    (folder / "trace").mkdir()

    def serve(name: str, env: Mapping[str, str], seen: Callable[[], None] = lambda: None) -> None:
        with PlainServer(
            cpu_kit, port=find_free_port(), log=folder / f"{name}.log", python=overlay.python, env=env
        ) as server:
            server.wait_until_ready(within_s=200)
            told.tokens[name] = [greedy(server.url, prompt) for prompt in PROMPTS]
            told.status[name] = patch.status(project, host)
            seen()

    with pytest.MonkeyPatch.context() as environ:
        environ.setenv("SGLFAB_LOCK_DIR", str(folder / "locks"))
        patch.patch_debug(project, host, [SET], operator=ADA)
        serve("inert", {})
        serve("tracing", trace)
        patch.unpatch_debug(project, host, operator=ADA)
    told.lines = {rank: read(folder / "trace" / f"rank{rank}.jsonl") for rank in range(TP_SIZE)}
    told.sha256 = {file: hashlib.sha256((overlay.sglang / file).read_bytes()).hexdigest() for file in PATCHED_FILES}
    told.modes = {file.name: file.stat().st_mode & 0o777 for file in (folder / "trace").iterdir()}
    told.log = (folder / "tracing.log").read_text(errors="replace")
    yield told
    host.close()


def read(path: Path) -> list[Record]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def records(
    story: Story, rank: int, tap: str | None = None, role: str | None = None, mode: str | None = None
) -> list[Record]:
    wanted = {"tap": tap, "role": role, "mode": mode}
    return [
        line
        for line in story.lines[rank]
        if line["kind"] == "record" and all(value is None or line[name] == value for name, value in wanted.items())
    ]


@pytest.fixture(params=range(TP_SIZE), ids=["TP0", "TP1"])
def rank(request: pytest.FixtureRequest) -> int:
    return int(request.param)


def test_greedy_tokens_are_the_same_unpatched_inert_and_tracing(story: Story) -> None:
    assert all(len(tokens) == 16 for tokens in story.tokens["unpatched"])
    assert story.tokens["inert"] == story.tokens["unpatched"]
    assert story.tokens["tracing"] == story.tokens["unpatched"]


def test_after_unpatching_the_files_are_the_wheels(story: Story, cpu_kit: CpuKit) -> None:
    record = recorded_sha256(cpu_kit.site_packages)
    assert story.sha256 == {file: record[f"sglang/{file}"] for file in PATCHED_FILES}


def test_the_status_tells_the_servers_apart(story: Story) -> None:
    said = {name: [(s.active, s.why) for s in status.servers] for name, status in story.status.items()}
    assert [len(servers) for servers in said.values()] == [1, 1, 1]
    assert said["unpatched"][0][0] is False
    assert said["inert"][0] == (False, said["inert"][0][1])
    assert said["inert"][0][1].endswith("inert")
    assert said["tracing"][0][0] is True


def test_each_rank_proves_that_all_is_wrapped(story: Story, rank: int) -> None:
    proofs = [line for line in story.lines[rank] if line["kind"] == "proof"]
    assert len(proofs) == 1
    assert (proofs[0]["rank"], proofs[0]["tp_rank"], proofs[0]["wrapped"], proofs[0]["missing"]) == (rank, rank, 7, [])
    assert set(proofs[0]["files"]) == set(PATCHED_FILES)
    assert "sglfab:" not in story.log


def test_the_proof_stands_before_the_first_record(story: Story, rank: int) -> None:
    kinds = [line["kind"] for line in story.lines[rank]]
    assert kinds.index("proof") < kinds.index("record")
    assert set(kinds) == {"setup", "proof", "record"}


def test_each_rank_has_every_promised_record(story: Story, rank: int) -> None:
    found = {(line["role"], line["tap"], line["mode"]) for line in records(story, rank)}
    target = {("target", tap, mode) for tap in TARGET_TAPS for mode in ("EXTEND", "TARGET_VERIFY")}
    draft = {("draft", tap, mode) for tap in DRAFT_TAPS for mode in ("EXTEND", "DECODE", "DRAFT_EXTEND_V2")}
    assert found == target | draft
    setup = [line["tap"] for line in story.lines[rank] if line["kind"] == "setup"]
    assert setup == ["draft-weights", "target-layers"]


TARGET_TAPS = ("target-forward", "target-model", "logits-processor")
DRAFT_TAPS = ("draft-forward", "draft-model", "logits-processor")


def test_every_tensor_says_all_that_was_promised(story: Story, rank: int) -> None:
    names = {"shape", "dtype", "device", "norm", "mean", "std", "absmax", "nan", "inf", "fp"}
    tensors = [tensor for line in records(story, rank) for tensor in line["tensors"].values()]
    assert len(tensors) > 100
    assert all(set(tensor) - {"rows"} == names for tensor in tensors)
    assert {tensor["nan"] + tensor["inf"] for tensor in tensors} == {0}


def test_the_target_captures_three_different_layers(story: Story, rank: int) -> None:
    for line in records(story, rank, "target-model"):
        prints = [line["tensors"][f"aux.{i}"]["fp"] for i in range(3)]
        assert len(set(prints)) == 3
    assert {tuple(line["values"]["layers_to_capture"]) for line in records(story, rank, "target-forward")} == {
        (2, 4, 5)
    }


def test_the_draft_reads_what_the_target_stored(story: Story, rank: int) -> None:
    """Joined by step: what LogitsProcessor stored for the target is, as a whole, the next input of the draft's fc."""
    stored = {line["step"]: line["tensors"]["stored"] for line in records(story, rank, "logits-processor", "target")}
    inputs = [line for line in records(story, rank, "draft-model") if line["mode"] != "DECODE"]
    assert len(inputs) == len(stored) > 20
    for line in inputs:
        read_in = line["tensors"]["spec_hidden"]
        assert (read_in["fp"], read_in["shape"]) == (stored[line["step"]]["fp"], stored[line["step"]]["shape"])
        assert read_in["shape"][-1] == line["values"]["fc_in"]


def test_the_draft_reads_its_own_states_while_it_drafts(story: Story, rank: int) -> None:
    for line in records(story, rank, "draft-model", mode="DECODE"):
        assert line["tensors"]["spec_hidden"]["shape"][-1] == line["values"]["fc_out"]


def test_positions_of_the_draft_follow_the_targets(story: Story, rank: int) -> None:
    target = {line["step"]: line["values"]["positions"] for line in records(story, rank, "target-forward")}
    extends = [line for line in records(story, rank, "draft-forward") if line["mode"] != "DECODE"]
    assert extends
    assert all(line["values"]["positions"] == target[line["step"]] for line in extends)


def test_acceptance_is_in_the_trace(story: Story, rank: int) -> None:
    """The wired pair of the kit accepts every draft token."""
    verified = records(story, rank, "draft-forward", mode="DRAFT_EXTEND_V2")
    assert {tuple(line["values"]["num_correct_drafts"]) for line in verified} == {(STEPS,)}


def test_both_ranks_saw_the_same(story: Story) -> None:
    def seen(rank: int) -> list[Any]:
        return [
            (line["tap"], line["step"], line["call"], line["tensors"], line["values"]) for line in records(story, rank)
        ]

    assert seen(0) == seen(1)


def test_the_runbooks_script_reads_it(story: Story, rank: int, tmp_path: Path) -> None:
    """The Python of docs/runbooks/read-the-debug-trace.md, as it stands there."""
    page = (ROOT / "docs" / "runbooks" / "read-the-debug-trace.md").read_text(encoding="utf-8")
    script, trace = tmp_path / "script.py", tmp_path / "rank.jsonl"
    script.write_text(page.partition("```python\n")[2].partition("```")[0])
    trace.write_text("".join(json.dumps(line) + "\n" for line in story.lines[rank]))
    done = subprocess.run([sys.executable, str(script), str(trace)], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["accept length 4.0", "by position [1.0, 1.0, 1.0]"]


def test_the_trace_is_nobody_elses_business(story: Story) -> None:
    assert story.modes == {"rank0.jsonl": 0o600, "rank1.jsonl": 0o600}
