"""How fast a log is read, beside grep with the same texts on the same file.

bench_reader.py [MiB] [--runtime] [--plain]
--runtime: a log with 60 % runtime lines; --plain: as where the extra `fast` (RE2) is not installed.
"""

from __future__ import annotations

import random
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from sglfab.diagnosis import catalogue, offline
from sglfab.logs import literals
from sglfab.project import Project

ROOT = Path(__file__).resolve().parents[1]
DEBUG = "layer {} tp {} hidden norm={:.4f} mean={:.5f} std={:.5f} absmax={:.3f} shape=torch.Size([{}, 7168]) dtype=bf16"
NEEDLE = "Input length (98311 tokens) exceeds the maximum allowed length (40122 tokens)."
RUNTIME = "Decode batch, #running-req: {}, #token: {}, token usage: 0.{:02d}, accept len: {:.2f}, cuda graph: True"


def lines(rng: random.Random, runtime: float) -> Iterator[str]:
    while True:
        head = f"[2025-06-15 10:{rng.randrange(60):02d}:{rng.randrange(60):02d} TP{rng.randrange(8)}] "
        draw = rng.random()
        if draw < runtime:
            yield head + RUNTIME.format(
                rng.randrange(30), rng.randrange(90000), rng.randrange(99), 1 + 3 * rng.random()
            )
        elif draw < runtime + 0.001:
            yield head + NEEDLE
        else:
            yield head + DEBUG.format(
                rng.randrange(64), rng.randrange(8), *(rng.random() for _ in range(4)), rng.randrange(64)
            )


def generate(path: Path, mebibytes: int, runtime: float) -> None:
    """A block of 16 MiB, repeated: the reader keeps nothing of one block for the next."""
    start = (ROOT / "tests/cases/dev/d063-ready-pcie/server.log").read_text(encoding="utf-8")
    block, size = [], 0
    for line in lines(random.Random(1), runtime):
        block.append(line)
        size += len(line) + 1
        if size >= 16 << 20:
            break
    text = "\n".join(block) + "\n"
    with path.open("w", encoding="utf-8") as file:
        file.write(start)
        for _ in range(max(1, mebibytes // 16)):
            file.write(text)


def grep_s(path: Path, texts: tuple[str, ...]) -> float:
    pattern = "|".join(re.sub(r"([][().*+?^${}|\\])", r"\\\1", text) for text in texts)
    command = ["grep", "-cE", "-e", pattern, str(path)]
    began = time.perf_counter()
    # Into a pipe: grep that writes to /dev/null stops at its first hit.
    subprocess.run(command, check=False, env={"LC_ALL": "C", "PATH": "/usr/bin:/bin"}, stdout=subprocess.PIPE)
    return time.perf_counter() - began


def read_s(path: Path, found: catalogue.Catalogue) -> float:
    began = time.perf_counter()
    with path.open("rb") as file:
        offline.diagnose(found, iter(lambda: file.read(1 << 20), b""), path=str(path))
    return time.perf_counter() - began


def main(argv: list[str]) -> int:
    mebibytes = next((int(a) for a in argv if a.isdigit()), 1024)
    if "--plain" in argv:
        literals.re2 = None
    found = catalogue.load(Project(ROOT))
    texts = found.screen(frozenset()).literals
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "server.log"
        generate(path, mebibytes, 0.6 if "--runtime" in argv else 0.0)
        grep, ours = grep_s(path, texts), read_s(path, found)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    matcher = found.screen(frozenset()).matcher
    print(f"{mebibytes} MiB, {len(texts)} texts: grep {grep:.1f} s, ours ({matcher}) {ours:.1f} s, {ours / grep:.1f}x")
    print(f"peak memory {peak:.0f} MiB")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
