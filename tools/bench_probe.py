"""What the probe costs: a verify round of the real server on the CPU, and of single tensors.

bench_probe.py [CYCLES] [WAY…]: one server a way, all started first; then only one runs at a time (SIGSTOP holds the
others), in another order each cycle. A way: unpatched, inert, each-step, each-10th, naive.
bench_probe.py statistics: tensors alone, a big one and small ones.
"""

from __future__ import annotations

import json
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import yaml

from sglfab.flows import patch
from sglfab.project import Project, open_project
from sglfab.testing.cpu.layout import CpuKit, default_kit
from sglfab.testing.cpu.overlay import Overlay, make_overlay
from sglfab.testing.cpu.plain import PlainServer
from sglfab.testing.fixtures import find_free_port, signal_session
from sglfab.transports.host import Host
from sglfab.transports.local import LocalTransport

ROOT = Path(__file__).resolve().parents[1]
PROBE = ROOT / "sglfab" / "patching" / "probe" / "sglfab_probe.py"
SET = "eagle3-hidden-states"
TOKENS, REQUESTS = 96, 2  # of a request; of a way in one cycle
# What people put into three files by hand: a line for each tensor that our set records.
NAIVE = """
def _naive(owner, pick):
    original = owner.forward

    def forward(*args, **kwargs):
        result = original(*args, **kwargs)
        for value in pick(args, kwargs, result):
            for tensor in value if isinstance(value, (list, tuple)) else [value]:
                if tensor is not None:
                    print(owner.__name__, tuple(tensor.shape), tensor.float().mean().item(), flush=True)
        return result

    owner.forward = __import__("functools").wraps(original)(forward)
"""
NAIVE_CALLS = {
    "srt/models/deepseek_v2.py": "_naive(DeepseekV2Model, lambda a, k, r: [r[0], *(r[1].chunk(3, -1))])",
    "srt/models/llama_eagle3.py": "_naive(LlamaModel, lambda a, k, r: [a[3].spec_info.hidden_states, *r])",
    "srt/layers/logits_processor.py": (
        "_naive(LogitsProcessor, lambda a, k, r: [a[2], *(a[5:6] or [k.get('aux_hidden_states')]), r.hidden_states,"
        " r.next_token_logits])"
    ),
}


@dataclass
class Way:
    """One server, stopped while it is not measured."""

    name: str
    server: PlainServer
    trace: Path
    ms: list[float]
    bytes: list[float]

    def measure(self) -> None:
        signal_session(self.server.process.pid, signal.SIGCONT)
        generate(self.server.url, tokens=16)  # whatever the pause left behind
        before, seconds, rounds = self.size(), 0.0, 0
        for _ in range(REQUESTS):
            began = time.perf_counter()
            rounds += generate(self.server.url, tokens=TOKENS)
            seconds += time.perf_counter() - began
        time.sleep(0.2)
        signal_session(self.server.process.pid, signal.SIGSTOP)
        self.ms.append(1000 * seconds / rounds)
        self.bytes.append((self.size() - before) / rounds)
        print(f"{self.name}: {self.ms[-1]:.1f} ms", file=sys.stderr, flush=True)

    def size(self) -> int:
        return sum(file.stat().st_size for file in self.trace.glob("rank0*"))


def generate(url: str, *, tokens: int) -> int:
    """One answer; how many verify rounds it took."""
    sampling = {"temperature": 0, "max_new_tokens": tokens, "ignore_eos": True}
    body = json.dumps({"text": "one and two", "sampling_params": sampling}).encode()
    request = urllib.request.Request(f"{url}/generate", body, {"Content-Type": "application/json"})
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=120) as reply:
        return int(json.loads(reply.read())["meta_info"]["spec_verify_ct"])


def each_10th(folder: Path) -> Project:
    """The project with our set, thinned out as docs/runbooks/read-the-debug-trace.md says."""
    text = yaml.safe_load((ROOT / "configs" / "patches" / f"{SET}.yaml").read_text(encoding="utf-8"))
    for tap in text["taps"]:
        tap["every"] = 10
    (folder / "patches").mkdir(parents=True)
    (folder / "patches" / f"{SET}-10.yaml").write_text(yaml.safe_dump(text), encoding="utf-8")
    return open_project(ROOT, configs=str(folder))


def apply(overlay: Overlay, folder: Path, project: Project, name: str) -> None:
    host = Host(LocalTransport(), python=str(overlay.python), state_dir=str(folder / "state"))
    patch.apply(project, host, [name], draft=["LlamaForCausalLMEagle3"])
    host.close()


def write_naive(overlay: Overlay) -> None:
    for file, call in NAIVE_CALLS.items():
        with (overlay.sglang / file).open("a", encoding="utf-8") as module:
            module.write(f"{NAIVE}\n\n{call}\n")


def start(name: str, kit: CpuKit, folder: Path) -> Way:
    overlay, trace = make_overlay(kit, folder / "env"), folder / "trace"
    trace.mkdir()
    preparations: Mapping[str, Callable[[], None]] = {
        "unpatched": lambda: None,
        "inert": lambda: apply(overlay, folder, Project(ROOT), SET),
        "each-step": lambda: apply(overlay, folder, Project(ROOT), SET),
        "each-10th": lambda: apply(overlay, folder, each_10th(folder / "configs"), f"{SET}-10"),
        "naive": lambda: write_naive(overlay),
    }
    preparations[name]()
    env = {"SGLFAB_TRACE_DIR": str(trace), "SGLFAB_PROBE": str(PROBE)} if name.startswith("each") else {}
    server = PlainServer(kit, port=find_free_port(), log=folder / "log", python=overlay.python, env=env)
    return Way(name, server, trace, [], [])


WAYS = ("unpatched", "inert", "each-step", "each-10th", "naive")


def rounds(cycles: int, names: tuple[str, ...]) -> None:
    kit = default_kit()
    root = Path(tempfile.mkdtemp(prefix="sglfab-bench-"))
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, root, ignore_errors=True)
        ways = []
        for name in names:
            (root / name).mkdir()
            way = start(name, kit, root / name)
            stack.enter_context(way.server)
            way.server.wait_until_ready(within_s=200)
            signal_session(way.server.process.pid, signal.SIGSTOP)
            ways.append(way)
        for cycle in range(cycles):
            for way in ways[cycle % len(ways) :] + ways[: cycle % len(ways)]:
                way.measure()
        report(ways)


def report(ways: list[Way]) -> None:
    base = ways[0]
    print("| way | ms per verify round | against the first, of the same cycle | trace, bytes per round and rank |")
    print("|---|---|---|---|")
    for way in ways:
        more = [100 * (mine / theirs - 1) for mine, theirs in zip(way.ms, base.ms, strict=True)]
        against = f"{statistics.median(more):+.0f} % ({min(more):+.0f} to {max(more):+.0f})" if way is not base else ""
        time_ms = f"{statistics.median(way.ms):.1f} ({min(way.ms):.1f}–{max(way.ms):.1f})"
        print(f"| {way.name} | {time_ms} | {against} | {statistics.median(way.bytes):.0f} |")


COMPARE = """
from statistics_checks import compared, compared_small

print("4096 x 7168 bf16: plain %.0f ms, ours %.0f ms" % tuple(1e3 * s for s in compared(9)))
print("4 x 128 bf16: plain %.0f us, ours %.0f us in the forward and %.0f us in the writer" %
      tuple(1e6 * s / 30 for s in compared_small(200)))
"""


def main(argv: list[str]) -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the servers must not stay behind, least of all stopped
    if argv == ["statistics"]:
        checks = ROOT / "tests" / "real" / "probe_checks"
        return subprocess.run([str(default_kit().python), "-c", COMPARE], cwd=checks, check=False).returncode
    cycles = next((int(word) for word in argv if word.isdigit()), 6)
    rounds(cycles, tuple(word for word in argv if not word.isdigit()) or WAYS)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
