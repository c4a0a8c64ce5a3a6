"""--dry-run and Invoke's own -R: every task that changes something prints what it would do, and changes nothing."""

from __future__ import annotations

import hashlib

import pytest

PLANS = {
    "launch": (("launch", "--profile", "standin"), "would stop"),
    "restart": (("restart",), "would stop"),
    "stop": (("stop",), "would stop"),
    "prune": (("runs", "--prune", "--keep", "0"), "nothing to remove"),
    "patch-debug": (("patch-debug", "--profile", "standin"), "nothing was changed"),
    "unpatch-debug": (("unpatch-debug", "--profile", "standin"), "nothing was changed"),
    "wait-health": (("wait-health",), "would wait"),
    "wait-health of a foreign server": (("wait-health", "--pid", "PID", "--adopt"), "would wait"),
    "wait-health of a URL": (("wait-health", "--url", "127.0.0.1:1"), "would wait"),
}
WAYS = {"--dry-run": lambda words: (*words, "--dry-run"), "-R": lambda words: ("-R", *words)}
CASES = [(way, name) for way in WAYS for name in PLANS]


def tree(*folders):
    """path → sha256 of every file that a person would call content."""
    files = (f for folder in folders for f in folder.rglob("*") if f.is_file() and "__pycache__" not in f.parts)
    return {str(f): hashlib.sha256(f.read_bytes()).hexdigest() for f in files if f.name != "server.log"}


@pytest.fixture(scope="module")
def dry(served):
    """All of them against one live server; what they printed, and what there was before and after."""
    host = served.place.host
    state = [host.state_dir / name for name in ("runs", "latest", "patches", "probes", "waits")]
    places = (*state, host.standin.site_packages)
    before, pid = tree(*places), str(served.place.pid(served.run))
    commands = [WAYS[way](PLANS[name][0]) for way, name in CASES]
    done = served.place.fab.all(*(tuple(pid if word == "PID" else word for word in words) for words in commands))
    return dict(zip(CASES, done, strict=True)), before, tree(*places)


@pytest.mark.parametrize(("way", "name"), CASES, ids=[f"{name} {way}" for way, name in CASES])
def test_the_plan_is_printed(dry, way, name):
    done = dry[0][way, name]
    assert done.code == 0, done
    assert PLANS[name][1] in done.out


def test_nothing_was_changed(dry, served):
    _, before, after = dry
    assert after == before
    assert served.place.live == [served.run]


def test_the_plan_of_a_launch_shows_the_command_and_the_run_that_would_go(dry, served):
    for way in WAYS:
        out = dry[0][way, "launch"].out
        assert served.run in out
        assert "--speculative-num-steps 3" in out


def test_the_plan_of_a_patch_is_its_diff(dry):
    assert "+++ " in dry[0]["-R", "patch-debug"].out
    assert "deepseek_v2.py" in dry[0]["--dry-run", "patch-debug"].out
