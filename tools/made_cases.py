"""Writes the made cases as folders that the client's scorer reads: python tools/made_cases.py OUT [FILE...]."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import yaml

from sglfab.testing.madelogs.composer import make

PLOTS = Path(__file__).resolve().parents[1] / "tests" / "cases" / "made"


def expected(plot: dict[str, Any]) -> dict[str, Any]:
    made = make(plot)
    label = {"verdict": "crashed", "rank": None, "draft": False, **plot["expect"]}
    return {
        "id": plot["id"],
        "title": plot["id"],
        "sglang_version": plot["release"],
        "cause_lines": made.cause_lines[:400],
        "noise_lines": made.noise_lines,
        "advice_keywords": label.pop("advice", []),
        **label,
    }


def main(out: Path, files: list[Path]) -> None:
    for file in files:
        for plot in yaml.safe_load(file.read_text(encoding="utf-8")):
            folder = out / f"{file.stem}-{plot['id']}"
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "server.log").write_bytes(make(plot).log)
            (folder / "expect.yaml").write_text(yaml.safe_dump(expected(plot)), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), [Path(p) for p in sys.argv[2:]] or sorted(PLOTS.glob("*.yaml")))
