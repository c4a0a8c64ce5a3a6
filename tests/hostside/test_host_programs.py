"""Old versions of our own program on a host: the newest few stay, and what is used."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from sglfab.hostside.programs import KEEP, OLD_S, drop_old

DAY_S = 86400.0


@pytest.fixture
def programs(tmp_path):
    """Makes programs by their age in days, 0 being the one that runs; returns their paths, the newest first."""

    def make(*ages: float):
        paths = []
        for number, age in enumerate(ages):
            path = tmp_path / f"hostside-{number:064x}.pyz"
            path.write_text("import time; print(flush=True); time.sleep(60)\n")
            os.utime(path, (time.time() - age * DAY_S,) * 2)
            paths.append(str(path))
        return paths

    return make


@pytest.mark.parametrize(
    ("ages", "dropped"),
    [
        ((0, 30, 31, 32), 0),
        ((0, 30, 31, 32, 33, 34), 2),
        ((0, 1, 2, 3, 4, 5, 6), 0),
        ((0, 1, 2, 3, 6, 8, 9), 2),
        ((40, 30, 31, 32, 33), 1),
    ],
    ids=["few", "too many", "all used of late", "some used of late", "the oldest is the one that runs"],
)
def test_the_newest_and_the_used_stay(programs, tmp_path, ages, dropped):
    made = programs(*ages)
    (tmp_path / "notes.txt").write_text("not ours")
    gone = drop_old(made[0])
    assert (len(gone), KEEP, OLD_S) == (dropped, 4, 7 * DAY_S)
    assert made[0] not in gone
    assert sorted(os.listdir(tmp_path)) == sorted(
        ["notes.txt", *(os.path.basename(path) for path in made if path not in gone)]
    )


def test_one_that_runs_stays_however_old(programs):
    made = programs(0, 30, 31, 32, 33, 34)
    with subprocess.Popen([sys.executable, made[-1]], stdout=subprocess.PIPE) as running:
        assert running.stdout.readline()  # right after exec a process has no arguments yet
        assert drop_old(made[0]) == [made[-2]]
        running.kill()


def test_a_draft_that_was_never_finished_goes_too(programs, tmp_path):
    made = programs(0, 1, 1, 1)
    draft = tmp_path / f"hostside-{9:064x}.pyz.0a1b2c.77"
    draft.write_text("half")
    os.utime(draft, (time.time() - 30 * DAY_S,) * 2)
    assert drop_old(made[0]) == [str(draft)]


@pytest.mark.parametrize("own", ["-c", "/proc/self/fd/3", __file__])
def test_from_a_checkout_or_from_memory_nothing_is_dropped(own):
    assert drop_old(own) == []
