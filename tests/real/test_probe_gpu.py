"""The probe on a real GPU, with a real CUDA graph; cases in probe_checks/gpu_checks.py."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(300)]

SCRIPTS = Path(__file__).parent / "probe_checks"
PYTHON = os.environ.get("SGLFAB_GPU_PYTHON", sys.executable)
ASK = "import torch; assert torch.cuda.is_available()"


def test_the_probe_on_a_gpu(tmp_path: Path) -> None:
    if subprocess.run([PYTHON, "-c", ASK], capture_output=True, check=False).returncode:
        pytest.skip(f"no torch with a GPU in {PYTHON}; name another in SGLFAB_GPU_PYTHON")
    done = subprocess.run([PYTHON, str(SCRIPTS), str(tmp_path), "gpu"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, str | None] = json.loads(done.stdout.splitlines()[-1])
    assert {name: why for name, why in found.items() if why} == {}
    assert len(found) == 2
