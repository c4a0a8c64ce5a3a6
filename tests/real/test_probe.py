"""The probe with the real torch of the kit: statistics, taps, and that it never hurts; cases in probe_checks/."""

from __future__ import annotations

import ast
import json
import subprocess
from pathlib import Path

import pytest

from sglfab.testing.cpu.layout import CpuKit

pytestmark = [pytest.mark.sglang, pytest.mark.timeout(180)]

SCRIPTS = Path(__file__).parent / "probe_checks"
CHECKS = [
    node.name
    for file in sorted(SCRIPTS.glob("*_checks.py"))
    if file.name != "gpu_checks.py"
    for node in ast.parse(file.read_text(encoding="utf-8")).body
    if isinstance(node, ast.FunctionDef) and node.name.startswith("check_")
]


@pytest.fixture(scope="module")
def outcomes(cpu_kit: CpuKit, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str | None]:
    folder = str(tmp_path_factory.mktemp("traces"))
    done = subprocess.run([str(cpu_kit.python), str(SCRIPTS), folder], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, str | None] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize("check", CHECKS, ids=lambda name: name.removeprefix("check_").replace("_", " "))
def test_probe(outcomes: dict[str, str | None], check: str) -> None:
    assert outcomes[check] is None, outcomes[check]
