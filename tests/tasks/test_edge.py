"""What the operator's shell sees of the tasks: help, wrong flags, team use. Real `fab` processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FAB = Path(sys.executable).with_name("fab")


def fab(*words: str, cwd: Path = ROOT, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(FAB), *words],
        cwd=cwd,
        env={**os.environ, **(env or {})},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        stdin=subprocess.DEVNULL,
    )


def test_list_shows_every_command_of_the_contract_with_a_help_line():
    listed = json.loads(fab("--list", "-F", "json").stdout)
    helps = {task["name"]: task["help"] for task in listed["tasks"]}
    expected = {
        "launch", "patch-debug", "unpatch-debug", "patch-status", "wait-health", "diagnose", "stop", "restart",
        "status", "logs", "runs", "preflight", "profiles", "render", "explain",
    }  # fmt: skip
    assert set(helps) == expected
    assert all(text and text.endswith(".") for text in helps.values())


def test_help_of_launch_names_its_flags():
    shown = fab("--help", "launch").stdout
    for flag in ("--profile", "--set", "--dry-run", "--no-wait", "--takeover", "--deadline", "--json", "--configs"):
        assert flag in shown


WRONG = {
    "an unknown flag is Invoke's own message and exit 1": (["launch", "--bogus"], 1, "--bogus"),
    "an unknown task is Invoke's own message and exit 1": (["lunch"], 1, "lunch"),
    "a bare --set": (["launch", "--profile", "eagle3", "--set"], 2, "bare-set"),
    "--set followed by a flag": (["launch", "--profile", "eagle3", "--set", "--json"], 2, "bare-set"),
    "--set without =": (["launch", "--profile", "eagle3", "--set", "tp"], 2, "bare-set"),
    "no profile": (["launch"], 2, "no-profile"),
    "an unknown profile": (["render", "--profile", "eagle4"], 2, "eagle3"),
    "a port out of range": (["stop", "--port", "70000"], 2, "bad-number"),
    "a deadline that is no number": (["launch", "--profile", "eagle3", "--deadline", "soon"], 2, "bad-number"),
    "no log": (["diagnose"], 2, "no-log"),
    "a log that is not there": (["diagnose", "--log", "/nonexistent/server.log"], 2, "log-unreadable"),
    "an unknown finding": (["explain", "nonsense"], 2, "nonsense"),
    "a configs folder that is not there": (["profiles", "--configs", "/nonexistent"], 2, "configs-not-found"),
    "a URL that is none": (["wait-health", "--url", "ftp://x"], 2, "bad-url"),
}


@pytest.mark.parametrize(("words", "code", "named"), WRONG.values(), ids=WRONG.keys())
def test_wrong_words_get_an_answer_and_no_traceback(words, code, named, tmp_path):
    done = fab(*words, env={"SGLFAB_STATE_DIR": str(tmp_path / "state")})
    assert done.returncode == code, done.stderr
    assert named in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "state" / "runs").exists()


def test_an_error_is_one_json_object_with_json():
    done = fab("render", "--profile", "eagle4", "--json")
    shape = json.loads(done.stdout)
    assert done.returncode == 2
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
    done = fab("-r", str(ROOT), "profiles", "--json", cwd=tmp_path / "team")
    assert done.returncode == 0, done.stderr
    assert "eagle3" in {row["name"] for row in json.loads(done.stdout)["profiles"]}


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
    listed = fab("--list", cwd=tmp_path, env={"PYTHONPATH": str(ROOT)})
    assert "sgl.wait-health" in listed.stdout, listed.stderr
    shown = fab("sgl.profiles", "--json", cwd=tmp_path, env={"PYTHONPATH": str(ROOT)})
    assert shown.returncode == 0, shown.stderr


def test_a_team_folder_of_profiles_comes_first(tmp_path):
    (tmp_path / "profiles").mkdir()
    (tmp_path / "profiles" / "ours.yaml").write_text("extends: eagle3\nargs: {tp: 4}\n")
    done = fab("render", "--profile", "ours", "--release", "0.5.12", "--json", env={"SGLFAB_CONFIGS": str(tmp_path)})
    assert done.returncode == 0, done.stdout + done.stderr
    argv = json.loads(done.stdout)["argv"]
    assert argv[argv.index("--tp-size") + 1] == "4"
