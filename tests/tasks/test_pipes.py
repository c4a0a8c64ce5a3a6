"""Readers that go away, streams that are closed, screens without a size: the exit code is still that of the answer."""

from __future__ import annotations

import subprocess

import pytest

from sglfab.testing.fab import ROOT, Done, Fab

fab = Fab()
CRASH = str(ROOT / "tests" / "cases" / "dev" / "d012-unbalanced-old" / "server.log")


def through(shell: str, *words: str, **env: str) -> Done:
    """`fab WORDS` in place of "$@" of a line of bash. out: what the line printed."""
    at = fab.where(**env)
    argv = ["bash", "-c", shell, "bash", *at.argv(*words)]
    done = subprocess.run(argv, cwd=ROOT, env=at.environ, capture_output=True, text=True, timeout=60, check=False)
    return Done(words, done.returncode, done.stdout, done.stderr)


LOST = {
    "a list": (["profiles"], 0),
    "a crash": (["diagnose", "--log", CRASH], 3),
    "a crash as JSON": (["diagnose", "--log", CRASH, "--json"], 3),
    "an error": (["render", "--profile", "eagle4"], 2),
    "Invoke's own list, which ends as other programs do": (["--list"], 141),
    "Invoke's own help": (["--help", "launch"], 141),
}


@pytest.mark.parametrize(("words", "code"), LOST.values(), ids=LOST.keys())
def test_a_reader_that_goes_away_changes_no_exit_code(words, code):
    done = through('"$@" | true; exit ${PIPESTATUS[0]}', *words)
    assert (done.code, "Traceback" in done.said, "BrokenPipe" in done.said) == (code, False, False), done


@pytest.mark.parametrize("words", [["diagnose", "--log", CRASH, "--json"], ["diagnose", "--log", CRASH]])
@pytest.mark.parametrize("closed", [">&-", ">&- 2>&-"])
def test_closed_streams_are_no_bug(words, closed):
    done = through(f'"$@" {closed}', *words)
    assert (done.code, done.said) == (3, ""), done


def test_a_full_disk_under_the_answer_is_said():
    done = through('"$@" > /dev/full', "profiles")
    assert (done.code, "disk-full" in done.err) == (2, True), done


@pytest.mark.parametrize("env", [{"COLUMNS": "0"}, {"COLUMNS": "0", "LINES": "0"}, {"COLUMNS": "x"}, {"TERM": "dumb"}])
def test_a_screen_of_unknown_size_still_shows_the_answer(env):
    done = through('"$@"', "profiles", **env)
    assert (done.code, "eagle3-debug" in done.out) == (0, True), done
