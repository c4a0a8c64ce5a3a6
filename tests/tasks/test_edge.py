"""What the operator's shell sees of the tasks: help, wrong flags, team use. Real `fab` processes."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from sglfab.testing.fab import FAB, ROOT, Fab
from tasks.commandline import without_hosts

fab = Fab()


KEPT = {
    "-H and its host": (["-H", "a,b", "-S", "x"], ["-S", "x"]),
    "-H with its host in one word": (["-Ha", "-i", "key"], ["-i", "key"]),
    "--hosts": (["-r", "team", "--hosts", "a"], ["-r", "team"]),
    "--hosts=": (["--hosts=a"], []),
    "-R": (["-R", "-t", "5"], ["-t", "5"]),
    "others stay": (["-S", "my config", "-i", "H"], ["-S", "my config", "-i", "H"]),
    "nothing": ([], []),
}


@pytest.mark.parametrize(("words", "kept"), KEPT.values(), ids=KEPT.keys())
def test_what_a_further_command_keeps_of_the_words_before_the_task(words, kept):
    assert without_hosts(words) == kept


def test_list_shows_every_command_of_the_contract_with_a_help_line():
    listed = json.loads(fab("--list", "-F", "json").out)
    helps = {task["name"]: task["help"] for task in listed["tasks"]}
    expected = {
        "launch", "patch-debug", "unpatch-debug", "patch-status", "patch-check", "wait-health", "diagnose", "stop",
        "restart", "status", "logs", "runs", "preflight", "profiles", "render", "explain",
    }  # fmt: skip
    assert set(helps) == expected
    assert all(text and text.endswith(".") for text in helps.values())


def test_help_of_launch_names_its_flags():
    shown = fab("--help", "launch").out
    for flag in ("--profile", "--set", "--dry-run", "--no-wait", "--takeover", "--deadline", "--json", "--configs"):
        assert flag in shown


WRONG = {
    "an unknown flag is Invoke's own message and exit 1": (["launch", "--bogus"], 1, "--bogus"),
    "an unknown task is Invoke's own message and exit 1": (["lunch"], 1, "lunch"),
    "a bare --set": (["launch", "--profile", "eagle3", "--set"], 2, "bare-set"),
    "--set followed by a flag": (["launch", "--profile", "eagle3", "--set", "--json"], 2, "bare-set"),
    "--set without =": (["launch", "--profile", "eagle3", "--set", "tp"], 2, "bare-set"),
    "an empty profile": (["launch", "--profile", ""], 2, "empty-value"),
    "an empty install, which is not the default one": (["patch-debug", "--sglang-path="], 2, "empty-value"),
    "an empty log, which is not that of a run": (["wait-health", "--log", ""], 2, "empty-value"),
    "an empty release": (["render", "--profile", "eagle3", "--release", ""], 2, "empty-value"),
    "a release before all that we know": (["render", "--profile", "eagle3", "--release", "0.0.1"], 2, "0.4.6"),
    "a URL that is a port": (["wait-health", "--url", "30000"], 2, "bad-url"),
    "a profile in capitals": (["render", "--profile", "EAGLE3"], 2, "try:   eagle3"),
    "a path without its ending": (["render", "--profile", "configs/profiles/eagle3"], 2, "try:   eagle3"),
    "a path for a task": (["launch", "eagle3-debug"], 1, "eagle3-debug"),
    "a flag of another spelling": (["launch", "--profil", "eagle3"], 1, "--profil"),
    "a task of another spelling": (["wait_health"], 1, "wait_health"),
    "a pid above all": (["stop", "--pid", "9" * 20, "--yes"], 2, "pid-unknown"),
    "no profile": (["launch"], 2, "no-profile"),
    "an unknown profile": (["render", "--profile", "eagle4"], 2, "eagle3"),
    "a port out of range": (["stop", "--port", "70000"], 2, "bad-number"),
    "a deadline that is no number": (["launch", "--profile", "eagle3", "--deadline", "soon"], 2, "bad-number"),
    "lines that are no number": (["logs", "--lines", "some"], 2, "bad-number"),
    "fewer runs to keep than none": (["runs", "--prune", "--keep", "-1"], 2, "bad-number"),
    "a grace that is no number": (["stop", "--grace", "never"], 2, "bad-number"),
    "a pid that is no number": (["wait-health", "--pid", "me"], 2, "bad-number"),
    "--adopt without --pid": (["wait-health", "--adopt", "--url", "http://127.0.0.1:1"], 2, "adopt-needs-pid"),
    "--set without --render": (["restart", "--set", "args.tp-size=1"], 2, "set-needs-render"),
    "no log": (["diagnose"], 2, "no-log"),
    "a log that is not there": (["diagnose", "--log", "/nonexistent/server.log"], 2, "log-unreadable"),
    "a log that is a folder": (["diagnose", "--log", "/tmp"], 2, "log-unreadable"),
    "a log to wait for that is not there": (["wait-health", "--log", "/nonexistent/a.log"], 2, "log-unreadable"),
    "a pid that is not there": (["stop", "--pid", "4194303", "--yes"], 2, "pid-unknown"),
    "an unknown finding": (["explain", "nonsense"], 2, "nonsense"),
    "a configs folder that is not there": (["profiles", "--configs", "/proc/no-such-folder"], 2, "configs-not-found"),
    "a URL that is none": (["wait-health", "--url", "ftp://x"], 2, "bad-url"),
}


@pytest.fixture(scope="module")
def answered(tmp_path_factory):
    """What each of them was answered, and the state folder afterwards."""
    state = tmp_path_factory.mktemp("wrong") / "state"
    done = fab.where(SGLFAB_STATE_DIR=str(state)).all(*(tuple(words) for words, _, _ in WRONG.values()))
    return dict(zip(WRONG, done, strict=True)), state


@pytest.mark.parametrize("case", WRONG)
def test_wrong_words_get_an_answer_and_no_traceback(answered, case):
    done, (_, code, named) = answered[0][case], WRONG[case]
    assert done.code == code, done
    assert named in done.said
    assert "Traceback" not in done.err
    if code == 2 and "--json" not in done.words:
        assert "\n  where: " in done.err
        assert "\n  try:   " in done.err


def test_wrong_words_run_nothing(answered):
    assert len(answered[0]) == len(WRONG)
    assert not (answered[1] / "runs").exists()


def test_an_error_is_one_json_object_with_json():
    done = fab("render", "--profile", "eagle4", "--json")
    shape = done.json
    assert done.code == 2
    assert shape["verdict"] is None
    assert shape["schema"] == 1
    assert set(shape["error"]) == {"code", "what", "where", "try"}


def test_list_is_as_fast_as_twice_the_import_of_fabric():
    """Interleaved, the best of three each: the ratio of one run on one machine."""
    import time

    def took(argv: list[str]) -> float:
        began = time.perf_counter()
        subprocess.run(argv, cwd=ROOT, check=True, capture_output=True, timeout=60)
        return time.perf_counter() - began

    pairs = [(took([sys.executable, "-c", "import fabric"]), took([str(FAB), "--list"])) for _ in range(3)]
    assert min(ours for _, ours in pairs) <= 2 * min(theirs for theirs, _ in pairs), pairs


def test_a_team_uses_the_clone_from_its_own_repository(tmp_path):
    (tmp_path / "team").mkdir()
    done = fab.where(cwd=tmp_path / "team")("-r", str(ROOT), "profiles", "--json")
    assert done.code == 0, done.err
    assert "eagle3" in {row["name"] for row in done.json["profiles"]}


def test_a_team_imports_the_collection_beside_its_own_tasks_package(tmp_path):
    (tmp_path / "tasks").mkdir()
    (tmp_path / "tasks" / "__init__.py").write_text("MINE = True\n")
    (tmp_path / "fabfile.py").write_text(
        "from fabric import task\nfrom invoke import Collection\n"
        "import tasks\nassert tasks.MINE\n"
        "from sglfab.embed import collection\n"
        "@task\ndef deploy(c):\n    'Deploy.'\n"
        f"ns = Collection(deploy)\nns.add_collection(collection({str(ROOT)!r}), name='sgl')\n"
    )
    team = fab.where(cwd=tmp_path, PYTHONPATH=str(ROOT))
    listed = team("--list")
    assert "sgl.wait-health" in listed.out, listed.err
    shown = team("sgl.profiles", "--json")
    assert shown.code == 0, shown.err


def test_a_team_folder_of_profiles_comes_first(tmp_path):
    (tmp_path / "profiles").mkdir()
    (tmp_path / "profiles" / "ours.yaml").write_text("extends: eagle3\nargs: {tp: 4}\n")
    done = fab.where(SGLFAB_CONFIGS=str(tmp_path))("render", "--profile", "ours", "--release", "0.5.12", "--json")
    assert done.code == 0, done.said
    argv = done.json["argv"]
    assert argv[argv.index("--tp-size") + 1] == "4"
