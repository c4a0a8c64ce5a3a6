"""The real SGLang on the CPU, for the tests of this folder."""

from __future__ import annotations

import os

import pytest
from real_server import Unpatched, live_unpatched

from sglfab.testing.bench import make_bench
from sglfab.testing.cpu.layout import CpuKit, default_kit, edited_files, is_ready
from sglfab.testing.cpu.overlay import Overlay, make_overlay
from sglfab.testing.fixtures import free_port

__all__ = ["free_port"]


@pytest.fixture(scope="session")
def cpu_kit() -> CpuKit:
    """The installed kit. Missing: skipped with the reason; failed where SGLFAB_REQUIRE_REAL=1 (`make test` sets it)."""
    kit = default_kit()
    if not is_ready(kit):
        reason = f"no real SGLang in {kit.root}: make sglang"
        if os.environ.get("SGLFAB_REQUIRE_REAL") == "1":
            pytest.fail(reason)
        pytest.skip(reason)
    return kit


@pytest.fixture(scope="module")
def overlay(cpu_kit: CpuKit, tmp_path_factory: pytest.TempPathFactory) -> Overlay:
    """A copy of the kit's sglang that a module's tests may patch; its python is what a profile names."""
    if edited := edited_files(cpu_kit):
        pytest.fail(f"the kit itself was edited ({', '.join(edited)}): python -m sglfab.testing.cpu install --pristine")
    return make_overlay(cpu_kit, tmp_path_factory.mktemp("overlay") / "env")


@pytest.fixture(scope="session")
def unpatched(cpu_kit: CpuKit, tmp_path_factory: pytest.TempPathFactory) -> Unpatched:
    """One server of the kit, lived once for all modules."""
    bench = make_bench(cpu_kit, tmp_path_factory.mktemp("unpatched"))
    try:
        return live_unpatched(bench)
    finally:
        bench.clean_up()
