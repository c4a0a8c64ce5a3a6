"""The overlay: a test that edits SGLang edits a copy."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from sglfab.testing.cpu.layout import PATCHED_FILES, CpuKit, differs_from_record, edited_files
from sglfab.testing.cpu.overlay import Overlay

pytestmark = pytest.mark.sglang

ASK = "import importlib.metadata as m, sglang, torch; print(sglang.__file__, torch.__file__, m.version('sglang'))"


def test_its_python_imports_its_own_sglang_and_the_kits_torch(overlay: Overlay, cpu_kit: CpuKit) -> None:
    said = subprocess.run([str(overlay.python), "-c", ASK], capture_output=True, text=True, check=True).stdout.split()
    assert Path(said[0]).is_relative_to(overlay.sglang)
    assert Path(said[1]).is_relative_to(cpu_kit.site_packages)
    assert said[2] == "0.5.23"


def test_it_is_as_released(overlay: Overlay) -> None:
    assert differs_from_record(overlay.site_packages, PATCHED_FILES) == ()


def test_editing_it_leaves_the_kit_alone(overlay: Overlay, cpu_kit: CpuKit) -> None:
    file = overlay.sglang / PATCHED_FILES[0]
    before = file.read_bytes()
    with file.open("ab") as out:
        out.write(b"# an edit in place, which a hard link would carry into the kit\n")
    try:
        assert differs_from_record(overlay.site_packages, PATCHED_FILES) == (PATCHED_FILES[0],)
        assert edited_files(cpu_kit) == ()
    finally:
        file.write_bytes(before)
