"""What taps cost a server that does not trace: `bench_patch.py [ROUNDS]`, on the kit's interpreter, without a server.

Prints the rows of "Taps in a server that does not trace" in docs/benchmarks.md, and the whole import for comparison.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from sglfab.flows import patch
from sglfab.flows.patch_plugin import preview_plugin
from sglfab.project import Project
from sglfab.testing.cpu.layout import PATCHED_FILES, default_kit
from sglfab.testing.cpu.overlay import Overlay, make_overlay
from sglfab.testing.cpu.plain import server_env
from sglfab.transports.host import Host
from sglfab.transports.local import LocalTransport

ROOT = Path(__file__).resolve().parents[1]
SET = "eagle3-hidden-states"
IMPORT = """
import time
began = time.perf_counter()
import sglang.srt.models.llama_eagle3, sglang.srt.models.deepseek_v2
print(time.perf_counter() - began)
"""
# The footer alone, as often as it takes to see it.
FOOTER = """
import sys, time
text = open(sys.argv[1], encoding="utf-8").read()
code = compile(text[text.index("# >>> sglfab"):], "footer", "exec")
began = time.perf_counter()
for _ in range(1000):
    exec(code, {})
print((time.perf_counter() - began) / 1000)
"""
# In a process that has imported what SGLang's launcher has by then.
PLUGIN = """
import contextlib, importlib.util, json, time, typing
began = time.perf_counter()
import sglfab_plugin
imported = time.perf_counter()
sglfab_plugin.activate()
print(imported - began, time.perf_counter() - imported)
"""


class Bench:
    def __init__(self, overlay: Overlay, project: Project, state: str) -> None:
        self.overlay, self.project = overlay, project
        self.host = Host(LocalTransport(), python=str(overlay.python), state_dir=state)

    def seconds(self, program: str, *args: str, **env: str) -> list[float]:
        argv = [str(self.overlay.python), "-c", program, *args]
        told = {**os.environ, **server_env(self.overlay.kit), "PYTHONDONTWRITEBYTECODE": "", **env}
        done = subprocess.run(argv, check=True, capture_output=True, text=True, env=told)
        return [float(word) for word in done.stdout.split()]

    def footers(self, rounds: int) -> None:
        whole: dict[str, list[float]] = {"unpatched": [], "inert": []}
        each: list[float] = []
        for _ in range(rounds):
            whole["unpatched"] += self.warm(IMPORT)
            patch.apply(self.project, self.host, [SET])
            whole["inert"] += self.warm(IMPORT)
            each += [self.seconds(FOOTER, str(self.overlay.sglang / file))[0] for file in PATCHED_FILES]
            patch.remove(self.project, self.host)
        row("the footer, inert, a file", each, 1e6, "µs")
        for name, found in whole.items():
            row(f"the import of both models, {name}", found, 1, "s")

    def warm(self, program: str) -> list[float]:
        """The second of two runs: byte-code is written, the files are in the page cache."""
        self.seconds(program)
        return self.seconds(program)

    def plugin(self, folder: Path, rounds: int) -> None:
        for name, text in preview_plugin(self.project, self.host, [SET]).plugin.files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text, encoding="utf-8")
        told = {"PYTHONPATH": str(folder), "SGLFAB_TRACE_DIR": str(folder)}
        found = [self.seconds(PLUGIN, **told) for _ in range(rounds)]
        row("the plugin in a launcher: its import", [first for first, _ in found], 1e3, "ms")
        row("the plugin in a launcher: no scheduler", [second for _, second in found], 1e6, "µs")


def row(what: str, seconds: Sequence[float], unit: float, name: str) -> None:
    low, middle, high = (f"{value * unit:.3g}" for value in (min(seconds), statistics.median(seconds), max(seconds)))
    print(f"| {what} | {middle} {name} ({low}–{high}) |", flush=True)


def main() -> None:
    rounds = int(sys.argv[1]) if sys.argv[1:] else 5
    with tempfile.TemporaryDirectory() as folder:
        overlay = make_overlay(default_kit(), Path(folder) / "env")
        bench = Bench(overlay, Project(ROOT), f"{folder}/state")
        bench.plugin(Path(folder) / "plugin", rounds)
        bench.footers(rounds)


if __name__ == "__main__":
    main()
