"""`python -m sglfab.testing.diagnose_log FILE`: the JSON contract of a log's diagnosis, nothing around it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

from sglfab.diagnosis import catalogue, offline
from sglfab.project import Project

ROOT = Path(__file__).resolve().parents[2]


def chunks(path: Path, size: int = 1 << 20) -> Iterator[bytes]:
    with path.open("rb") as file:
        while chunk := file.read(size):
            yield chunk


def main(argv: list[str]) -> int:
    path = Path(argv[0])
    version = argv[1] if len(argv) > 1 else None
    verdict = offline.diagnose(catalogue.load(Project(ROOT)), chunks(path), path=str(path), sglang_version=version)
    json.dump(verdict.to_json(), sys.stdout, indent=1)
    sys.stdout.write("\n")
    return int(verdict.exit_code)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
