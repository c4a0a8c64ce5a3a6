"""What taps cost a server that does not trace, and what the plugin costs a launcher: `bench_patch.py [ROUNDS]`.

Runs the kit's interpreter, starts no server. The docs/benchmarks.md table is this output.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
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
# The footer alone, as often as it takes to see it: what an inert import adds.
FOOTER = """
import sys, time
text = open(sys.argv[1], encoding="utf-8").read()
code = compile(text[text.index("# >>> sglfab"):], "footer", "exec")
began = time.perf_counter()
for _ in range(1000):
    exec(code, {})
print((time.perf_counter() - began) / 1000)
"""
PLUGINS = """
import sys, time
from sglang.srt.plugins import load_plugins
def run_scheduler_process():
    load_plugins()
began = time.perf_counter()
run_scheduler_process() if sys.argv[1] == "scheduler" else load_plugins()
print(time.perf_counter() - began)
"""


class Bench:
    def __init__(self, overlay: Overlay, env: dict[str, str]) -> None:
        self._overlay, self._env = overlay, {**os.environ, **env}

    def seconds(self, program: str, *args: str, **env: str) -> float:
        argv = [str(self._overlay.python), "-c", program, *args]
        done = subprocess.run(argv, check=True, capture_output=True, text=True, env={**self._env, **env})
        return float(done.stdout.split()[-1])


def footers(bench: Bench, overlay: Overlay, project: Project, host: Host, rounds: int) -> None:
    imports: dict[str, list[float]] = {"unpatched": [], "inert": []}
    each: list[float] = []
    bench.seconds(IMPORT)  # the files come into the page cache
    for _ in range(rounds):
        imports["unpatched"].append(bench.seconds(IMPORT))
        patch.apply(project, host, [SET])
        bench.seconds(IMPORT)  # byte-code is written
        imports["inert"].append(bench.seconds(IMPORT))
        each += [bench.seconds(FOOTER, str(overlay.sglang / file)) for file in PATCHED_FILES]
        patch.remove(project, host)
        bench.seconds(IMPORT)
    for name, found in imports.items():
        print(f"| import of the two models, {name} | {statistics.median(found):.2f} s ({spread(found)}) |")
    print(f"| the footer itself, inert | {statistics.median(each) * 1e6:.1f} µs a file |")


def plugins(bench: Bench, project: Project, host: Host, folder: Path, rounds: int) -> None:
    for name, text in preview_plugin(project, host, [SET]).plugin.files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    path = server_env(default_kit())["PYTHONPATH"]
    probe = str(ROOT / "sglfab" / "patching" / "probe" / "sglfab_probe.py")
    told = {"PYTHONPATH": f"{path}{os.pathsep}{folder}", "SGLFAB_TRACE_DIR": str(folder), "SGLFAB_PROBE": probe}
    ways = {
        "without a plugin": ("launcher", {}),
        "with the plugin, launcher or detokenizer": ("launcher", told),
        "with the plugin, scheduler": ("scheduler", told),
    }
    found: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, (role, env) in ways.items():
            found[name].append(bench.seconds(PLUGINS, role, **env))
    for name, seconds in found.items():
        print(f"| `load_plugins()` {name} | {statistics.median(seconds) * 1e3:.1f} ms |")


def spread(values: list[float]) -> str:
    return f"{min(values):.2f}–{max(values):.2f}"


def main() -> None:
    rounds, kit, project = int(sys.argv[1]) if sys.argv[1:] else 5, default_kit(), Project(ROOT)
    with tempfile.TemporaryDirectory() as folder:
        overlay = make_overlay(kit, Path(folder) / "env")
        host = Host(LocalTransport(), python=str(overlay.python), state_dir=f"{folder}/state")
        bench = Bench(overlay, server_env(kit))
        plugins(bench, project, host, Path(folder) / "plugin", rounds)
        footers(bench, overlay, project, host, rounds)


if __name__ == "__main__":
    main()
