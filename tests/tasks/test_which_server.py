"""Which server is meant: the only live run, or the one that is named."""

from __future__ import annotations

from sglfab.testing.fixtures import find_free_port


def test_of_several_live_runs_one_must_be_named(place):
    first = place.launch()
    first_port, place.host.port = place.host.port, find_free_port()
    place.host.write_profile("second")
    assert place.fab("launch", "--profile", "second", "--no-wait").code == 0
    second = next(run for run in place.live if run != first)
    unnamed, by_profile, by_path, wrong = place.fab.all(
        ("stop", "--json"),
        ("logs", "--profile", "second", "--lines", "1"),
        ("status", "--profile", str(place.host.configs / "profiles" / "second.yaml"), "--json"),
        ("stop", "--run", "nobody-20260101-000000-0000", "--json"),
    )
    assert (unnamed.code, unnamed.json["error"]["code"]) == (2, "several-runs")
    assert first in unnamed.json["error"]["what"]
    assert second in unnamed.json["error"]["what"]
    assert by_profile.code == 0, by_profile
    assert [row["run"] for row in by_path.json["runs"]] == [second]
    assert (wrong.code, wrong.json["error"]["code"]) == (2, "no-such-run")
    assert sorted(place.live) == sorted([first, second])
    assert place.fab("stop", "--port", str(first_port)).code == 0
    assert place.live == [second]


def test_without_a_live_run_the_answer_says_what_to_type(place):
    waiting, logs, restart = place.fab.all(("wait-health", "--json"), ("logs",), ("restart", "--json"))
    assert (waiting.code, waiting.json["error"]["code"]) == (2, "no-run")
    assert "fab launch --profile" in waiting.json["error"]["try"]
    assert "--url" in waiting.json["error"]["try"]
    assert (logs.code, restart.code) == (2, 2)
