"""The labelled logs: every case of the development set, and the logs of a real server, as the scorer judges them."""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from sglfab.diagnosis import catalogue, offline
from sglfab.diagnosis.logfold import LogFold
from sglfab.project import Project

ROOT = Path(__file__).resolve().parents[2]
CASES = ROOT / "tests" / "cases"
MINIMUM = {"verdict": 0.97, "cause": 0.95, "category": 0.93, "stage": 0.90}


@lru_cache(maxsize=1)
def signatures() -> catalogue.Catalogue:
    return catalogue.load(Project(ROOT))


@lru_cache(maxsize=256)
def result(folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    expected = yaml.safe_load((folder / "expect.yaml").read_text(encoding="utf-8"))
    log = (folder / "server.log").read_bytes()
    verdict = offline.diagnose(signatures(), [log], path=str(folder), sglang_version=expected["sglang_version"])
    return expected, verdict.to_json()


def folders(name: str) -> list[Path]:
    return sorted(p.parent for p in (CASES / name).glob("*/expect.yaml"))


def fields(folder: Path) -> dict[str, bool]:
    expected, got = result(folder)
    primary = got["primary"] or {}
    lines = [e["line"] for e in primary.get("evidence", []) if e["line"] is not None]
    right = {
        "verdict": got["verdict"] == expected["verdict"],
        "stage": got["stage"] in [expected["stage"], *(expected.get("stage_alt") or [])],
        "category": (primary.get("category") or "none")
        in [expected["category"], *(expected.get("category_alt") or [])],
    }
    if expected["cause_lines"]:
        right["cause"] = bool(lines) and lines[0] in expected["cause_lines"]
    return right


@pytest.mark.parametrize("folder", folders("dev") + folders("real"), ids=lambda p: p.name)
def test_a_labelled_log_is_read_right(folder: Path) -> None:
    wrong = [name for name, right in fields(folder).items() if not right]
    assert not wrong, result(folder)


def healthy() -> list[Path]:
    ready = [f for f in folders("dev") + folders("real") if "verdict: ready" in (f / "expect.yaml").read_text()]
    assert len(ready) > 10
    return ready


@pytest.mark.parametrize("folder", healthy(), ids=lambda p: p.name)
def test_no_line_of_a_healthy_start_reads_like_an_error(folder: Path) -> None:
    """Such a line would be shown as the cause of a crash that nobody knows."""
    fold, complaints = LogFold(signatures()), set()
    for line in (folder / "server.log").read_bytes().splitlines(keepends=True):
        fold.feed(line)
        complaints |= {record.text for record in fold.run.errors if not fold.run.ready}
    assert not complaints


def test_a_rank_that_leaves_without_a_word_is_told_by_the_launchers_and_not_by_a_complaint_of_the_start() -> None:
    """SystemExit while a scheduler imports its model: the exit code is all that anybody prints."""
    log = (CASES / "real" / "final_tp2_eagle3" / "server.log").read_bytes()
    start = log[: log.index(b"Load weight begin")].rpartition(b"\n")[0]
    said = "RuntimeError: Rank 0 scheduler died during initialization (exit code: 1)."
    end = f"""
[2026-11-30 10:23:26] kill_process_tree called: parent_pid=26542, include_parent=False, pid=26542
Traceback (most recent call last):
  File "/x/sglang/srt/entrypoints/engine.py", line 2027, in _wait_for_scheduler_ready
    data = scheduler_pipe_readers[i].recv()
EOFError

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "<frozen runpy>", line 198, in _run_module_as_main
  File "/x/sglang/srt/entrypoints/engine.py", line 2029, in _wait_for_scheduler_ready
    raise _scheduler_died_error(i, scheduler_procs[i])
{said}
"""
    verdict = offline.diagnose(signatures(), [start + end.encode()], path="server.log")
    assert verdict.primary is not None
    assert (verdict.verdict, verdict.primary.category) == ("crashed", "unknown")
    assert verdict.primary.evidence[0].text == said


@pytest.mark.parametrize("folder", folders("dev") + folders("real"), ids=lambda p: p.name)
def test_no_consequence_is_taken_for_the_cause(folder: Path) -> None:
    expected, got = result(folder)
    first = next((e["line"] for e in (got["primary"] or {}).get("evidence", []) if e["line"] is not None), None)
    assert first not in expected["noise_lines"]


@pytest.mark.parametrize(
    "folder", [f for f in folders("dev") + folders("real") if result(f)[0]["category"] == "none"], ids=lambda p: p.name
)
def test_a_healthy_log_raises_no_alarm(folder: Path) -> None:
    _, got = result(folder)
    assert got["primary"] is None
    assert got["verdict"] in ("ready", "loading")


def test_the_thresholds_of_the_scorer_hold() -> None:
    right: Counter[str] = Counter()
    total: Counter[str] = Counter()
    for folder in folders("dev"):
        for name, good in fields(folder).items():
            total[name] += 1
            right[name] += good
    assert {n: right[n] / total[n] >= least for n, least in MINIMUM.items()} == dict.fromkeys(MINIMUM, True)


def test_evidence_is_the_line_of_the_file() -> None:
    for folder in folders("dev"):
        lines = (folder / "server.log").read_bytes().split(b"\n")
        for evidence in (result(folder)[1]["primary"] or {}).get("evidence", []):
            if evidence["source"] == "log":
                shown = evidence["text"].strip().encode()[:40]
                assert shown in lines[evidence["line"] - 1] or "\ufffd" in evidence["text"], folder


@pytest.mark.parametrize("folder", folders("real"), ids=lambda p: p.name)
def test_a_log_of_one_run_is_read_as_one(folder: Path) -> None:
    """Each of them was written by one start, also where the launcher ends its tree before its own traceback."""
    assert not [note for note in result(folder)[1]["notes"] if "runs in this file" in note]
