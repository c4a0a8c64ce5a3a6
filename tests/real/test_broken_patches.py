"""What goes wrong with taps on the real server: it serves the right tokens, or never starts with a clear verdict."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from real_server import PROMPTS, Unpatched

from sglfab.flows import patch
from sglfab.flows.patch_plugin import preview_plugin
from sglfab.project import Project
from sglfab.testing.cpu.layout import PATCHED_FILES, CpuKit, differs_from_record
from sglfab.testing.cpu.overlay import Overlay
from sglfab.testing.cpu.plain import PlainServer, greedy, server_env
from sglfab.testing.fab import Fab
from sglfab.testing.fixtures import find_free_port
from sglfab.transports.host import Host
from sglfab.transports.local import LocalTransport

pytestmark = [pytest.mark.sglang, pytest.mark.timeout(400)]

ROOT = Path(__file__).parents[2]
PROBE = ROOT / "sglfab" / "patching" / "probe" / "sglfab_probe.py"
SET = "eagle3-hidden-states"
TP_SIZE = 2
# Each footer loads the probe until it is there: in a scheduler logits_processor first, then the models by name.
ACCIDENTS = """
import sys
loads = sys.__dict__.setdefault("sglfab_loads", [])
loads.append(__name__)
if len(loads) == 1:
    raise SystemExit("the probe leaves")
exec(compile("def (" if len(loads) == 2 else open({probe!r}).read(), {probe!r}, "exec"))
"""
# The draft's own tap cannot read what it is told to: len() of a number.
ACCIDENTAL_SET = """
taps:
  - {tap: logits, module: srt/layers/logits_processor.py, object: LogitsProcessor.forward, role: enclosing}
  - {tap: target, module: srt/models/deepseek_v2.py, object: DeepseekV2ForCausalLM.forward, role: target}
  - tap: draft-forward
    module: srt/models/llama_eagle3.py
    object: LlamaForCausalLMEagle3.forward
    inherited: true
    role: draft
    encloses: true
    mode: args.forward_batch.forward_mode
    values: {broken: args.forward_batch.batch_size | len}
  - tap: draft-model
    module: srt/models/llama_eagle3.py
    object: LlamaModel.forward
    role: draft
    tensors: {hidden: return.0}
"""


@dataclass(frozen=True)
class Served:
    """What a server with something broken in it answered, wrote and printed."""

    tokens: list[list[int]]
    trace: Mapping[int, list[Mapping[str, Any]]]  # by rank
    log: str

    def kinds(self, rank: int) -> list[str]:
        return [line["kind"] for line in self.trace[rank]]

    @property
    def said(self) -> list[str]:
        return [line for line in self.log.splitlines() if "sglfab:" in line]


def serve(kit: CpuKit, python: Path, folder: Path, trace: Path, env: Mapping[str, str]) -> Served:
    told = {"SGLFAB_TRACE_DIR": str(trace), "SGLFAB_PROBE": str(PROBE), **env}
    log = folder / "server.log"
    with PlainServer(kit, port=find_free_port(), log=log, python=python, env=told) as server:
        server.wait_until_ready(within_s=200)
        tokens = [greedy(server.url, prompt) for prompt in PROMPTS]
    ranks = {rank: trace / f"rank{rank}.jsonl" for rank in range(TP_SIZE)}
    return Served(tokens, {rank: lines(path) for rank, path in ranks.items() if path.exists()}, log.read_text("utf-8"))


def lines(path: Path) -> list[Mapping[str, Any]]:
    """The whole lines: on a full disk the last one may be cut."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines(keepends=True) if line.endswith("\n")]


@contextmanager
def patched(overlay: Overlay, project: Project, names: list[str], state: Path) -> Iterator[None]:
    host = Host(LocalTransport(), python=str(overlay.python), state_dir=str(state))
    patch.apply(project, host, names)
    try:
        yield
    finally:
        patch.remove(project, host)


# --- footers whose probe does not load, and a tap that cannot read ----------------------------------------------------


@pytest.fixture(scope="module")
def accidents(cpu_kit: CpuKit, overlay: Overlay, tmp_path_factory: pytest.TempPathFactory) -> Served:
    folder = tmp_path_factory.mktemp("accidents")
    (folder / "team" / "patches").mkdir(parents=True)
    (folder / "team" / "patches" / "accidents.yaml").write_text(ACCIDENTAL_SET)
    (folder / "accidents.py").write_text(ACCIDENTS.format(probe=str(PROBE)))
    (folder / "trace").mkdir()
    project = Project(ROOT, extra=(folder / "team",))
    with patched(overlay, project, ["accidents"], folder / "state"):
        env = {"SGLFAB_PROBE": str(folder / "accidents.py")}
        return serve(cpu_kit, overlay.python, folder, folder / "trace", env)


def test_a_probe_that_leaves_or_is_no_python_and_a_tap_that_raises_change_no_token(
    accidents: Served, unpatched: Unpatched
) -> None:
    assert accidents.tokens == unpatched.tokens


def test_each_accident_is_one_line_of_the_log(accidents: Served) -> None:
    said = "\n".join(accidents.said)
    assert said.count("no trace of sglang.srt.models.deepseek_v2: SyntaxError") == TP_SIZE
    assert said.count("no trace of sglang.srt.layers.logits_processor: SystemExit") >= TP_SIZE
    assert said.count("tap draft-forward is off") == TP_SIZE


def test_the_tap_beside_the_broken_one_records_and_the_set_is_not_proved(accidents: Served) -> None:
    """No proof line: a wait ends as degraded and names the ranks."""
    for rank in range(TP_SIZE):
        kinds = accidents.kinds(rank)
        assert "proof" not in kinds
        assert {"waiting", "off", "record"} <= set(kinds)
        assert {line["tap"] for line in accidents.trace[rank] if line["kind"] == "record"} == {"draft-model"}


# --- the plugin, on a disk that fills ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def small_disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A file system of 128 kB; a plain folder where mounting is not allowed."""
    folder = tmp_path_factory.mktemp("small disk")
    mount = ["mount", "-t", "tmpfs", "-o", "size=128k", "tmpfs", str(folder)]
    mounted = os.getuid() == 0 and subprocess.run(mount, capture_output=True, check=False).returncode == 0
    yield folder
    if mounted:
        subprocess.run(["umount", str(folder)], check=True)


@pytest.fixture(scope="module")
def plugin(cpu_kit: CpuKit, overlay: Overlay, small_disk: Path, tmp_path_factory: pytest.TempPathFactory) -> Served:
    folder = tmp_path_factory.mktemp("plugin")
    host = Host(LocalTransport(), python=str(overlay.python), state_dir=str(folder / "state"))
    for name, text in preview_plugin(Project(ROOT), host, [SET]).plugin.files.items():
        (folder / "plugin" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "plugin" / name).write_text(text)
    path = os.pathsep.join([server_env(cpu_kit)["PYTHONPATH"], str(folder / "plugin")])
    env = {"PYTHONPATH": path, "SGLFAB_PLUGIN": str(folder / "plugin")}
    return serve(cpu_kit, overlay.python, folder, small_disk, env)


def test_tracing_by_the_plugin_changes_no_token_and_no_file(
    plugin: Served, unpatched: Unpatched, overlay: Overlay
) -> None:
    assert plugin.tokens == unpatched.tokens
    assert differs_from_record(overlay.site_packages, PATCHED_FILES) == ()


def test_the_plugin_proves_every_tap_on_every_rank(plugin: Served) -> None:
    for rank in range(TP_SIZE):
        (proof,) = [line for line in plugin.trace[rank] if line["kind"] == "proof"]
        assert (proof["tp_rank"], proof["missing"], set(proof["files"])) == (rank, [], set(PATCHED_FILES))
        assert plugin.kinds(rank).index("proof") < plugin.kinds(rank).index("record")


def test_a_full_disk_ends_the_trace_with_one_line_a_rank_and_not_the_server(plugin: Served, small_disk: Path) -> None:
    if not os.path.ismount(small_disk):
        pytest.skip("mounting is not allowed here")
    assert len([line for line in plugin.said if "No space left" in line]) == TP_SIZE


# --- one server each: only in `make test-all` -------------------------------------------------------------------------


@pytest.mark.slow
def test_a_trace_folder_that_is_not_there_changes_no_token(
    cpu_kit: CpuKit, overlay: Overlay, unpatched: Unpatched, tmp_path: Path
) -> None:
    with patched(overlay, Project(ROOT), [SET], tmp_path / "state"):
        served = serve(cpu_kit, overlay.python, tmp_path, tmp_path / "gone", {})
    assert served.tokens == unpatched.tokens
    assert sum("nothing is wrapped" in line for line in served.said) >= TP_SIZE
    assert not (tmp_path / "gone").exists()


# What somebody else's patch may be: no try around it, no look whether it compiles. Ours cannot become one of these.
# (file, what is appended, what the evidence must say)
BROKEN_FILES = {
    "SyntaxError in the target": ("srt/models/deepseek_v2.py", "def (\n", "deepseek_v2"),
    "SystemExit in the draft": (
        "srt/models/llama_eagle3.py",
        "raise SystemExit('leaves at import')\n",
        "scheduler died during initialization (exit code: 1)",
    ),
    "exception at import": (
        "srt/layers/logits_processor.py",
        "raise RuntimeError('fails at import')\n",
        "fails at import",
    ),
    "exception at call": (
        "srt/layers/logits_processor.py",
        "def _fail(*args, **kwargs):\n    raise RuntimeError('fails at call')\n\n\nLogitsProcessor.forward = _fail\n",
        "fails at call",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", BROKEN_FILES)
def test_a_file_that_somebody_broke_never_serves_and_the_verdict_says_why(
    cpu_kit: CpuKit, overlay: Overlay, tmp_path: Path, name: str
) -> None:
    relative, tail, said = BROKEN_FILES[name]
    path = overlay.sglang / relative
    original = path.read_bytes()
    fab = Fab(env={"SGLFAB_STATE_DIR": str(tmp_path / "state"), "SGLFAB_CPU": str(cpu_kit.root)})
    sets = (f"python={overlay.root}", f"port={find_free_port()}")
    words = [word for assignment in sets for word in ("--set", assignment)]
    path.write_bytes(original + b"\n\n" + tail.encode())
    try:
        done = fab("launch", "--profile", "cpu-demo", "--json", *words, timeout_s=380)
    finally:
        path.write_bytes(original)
        fab("stop", "--grace", "1")
    assert (done.code, done.json["verdict"]) == (3, "crashed"), done
    assert said in json.dumps(done.json["primary"]), done
