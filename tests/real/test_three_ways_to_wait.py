"""The seed's loop, a loop on the status code and `fab wait-health`, side by side on the same real servers."""

from __future__ import annotations

import json

import pytest
from real_server import READY_S, Unpatched, quickest

from sglfab.testing import race
from sglfab.testing.bench import make_bench

pytestmark = [pytest.mark.sglang, pytest.mark.timeout(400)]
CRASHED_S = 2.0


def test_only_the_seeds_loop_never_sees_the_server_ready(unpatched: Unpatched):
    seen = unpatched.ready
    assert seen.seed is None
    assert seen.status is not None
    assert seen.ours is not None
    assert seen.ours <= READY_S, seen


def test_only_ours_sees_a_killed_scheduler_and_names_it(cpu_kit, tmp_path):
    bench = make_bench(cpu_kit, tmp_path)
    (tmp_path / "configs" / "profiles" / "raced.yaml").write_text(f"extends: cpu-demo\nport: {bench.port}\n")
    try:
        seen = quickest(race.crash_delays, bench.fab, within_s=CRASHED_S)
        assert (seen.seed, seen.status) == (None, None)
        assert seen.ours is not None
        assert seen.ours <= CRASHED_S, seen
        assert json.loads(bench.read(bench.run(seen.run), "verdict.json"))["verdict"] == "crashed"
    finally:
        bench.clean_up()
