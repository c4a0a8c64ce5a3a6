"""Loading: a team's own folder, mistakes with file and line, and speed."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import yaml

from sglfab.diagnosis import catalogue, offline
from sglfab.errors import InputError
from sglfab.project import Project

ROOT = Path(__file__).resolve().parents[2]
GOOD = """\
id: files.team_mount
category: files.missing_path
title: "The team's share is not mounted[[: {path}]]"
patterns:
  - needle: "share is gone"
    regex: 'share is gone: (?P<path>\\S+)'
explanation: The nightly mount failed.
advice:
  - "mount[[ {path}]] again"
wrong_when: "it is mounted elsewhere"
source: our own wrapper
samples: ["a", "b"]
near_misses: ["c"]
"""


def load_with(folder: Path, text: str, name: str = "files.team_mount") -> catalogue.Catalogue:
    path = folder / "signatures" / name.split(".", maxsplit=1)[0] / f"{name}.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return catalogue.load(Project(ROOT, extra=(folder,)))


def test_a_teams_signature_is_found_and_used(tmp_path: Path) -> None:
    found = load_with(tmp_path, GOOD)
    frames = b'Traceback (most recent call last):\n  File "/w.py", line 1, in f\n    g()\n'
    log = frames + b"OSError: share is gone: /mnt/models\n"
    primary = offline.diagnose(found, [log], path="x").primary
    assert primary is not None
    assert primary.id == "files.team_mount"
    assert primary.advice == ("mount /mnt/models again",)


def test_a_team_may_replace_one_of_ours(tmp_path: Path) -> None:
    text = GOOD.replace("files.team_mount", "files.no_space")
    assert load_with(tmp_path, text, "files.no_space")["files.no_space"].source == "our own wrapper"


MISTAKES = {
    "an unknown key": (GOOD.replace("wrong_when", "wrong_wen"), 10, "wrong_when"),
    "an id that is not the file's name": (
        GOOD.replace("id: files.team_mount", "id: files.other"),
        1,
        "files.team_mount",
    ),
    "a wrong severity": (GOOD + "severity: fatall\n", 14, "fatal"),
    "a stage that does not exist": (GOOD + "when:\n  stage: [loading-weights]\n", 15, "load-weights"),
    "a kind of line that does not exist": (
        GOOD.replace("    regex", "    in: [exceptions]\n    regex"),
        6,
        "exception",
    ),
    "no advice": (GOOD.replace('advice:\n  - "mount[[ {path}]] again"\n', ""), 1, "advice: …"),
    "no YAML": (GOOD + "a: [\n", 15, "fix the file"),
}


@pytest.mark.parametrize(("text", "line", "hint"), MISTAKES.values(), ids=MISTAKES.keys())
def test_a_mistake_is_shown_with_its_line(tmp_path: Path, text: str, line: int, hint: str) -> None:
    path = tmp_path / "signatures" / "files" / "files.team_mount.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as raised:
        catalogue.load(Project(ROOT, extra=(tmp_path,)))
    assert raised.value.code == "signature-invalid"
    assert raised.value.where.endswith(f"files.team_mount.yaml:{line}"), raised.value.where
    assert hint in raised.value.try_


def test_yielding_to_nobody_is_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(InputError) as raised:
        load_with(tmp_path, GOOD.replace("samples", "yields_to: [files.no_spaces]\nsamples", 1))
    assert raised.value.code == "signature-unknown-link"
    assert raised.value.try_ == "files.no_space"


def test_loading_takes_little_more_than_its_yaml() -> None:
    texts = [path.read_text(encoding="utf-8") for path in Project(ROOT).listing("signatures", "*/*.yaml")]
    ours, bare = [], []
    for _ in range(5):
        began = time.process_time()
        catalogue.load(Project(ROOT))
        between = time.process_time()
        for text in texts:
            yaml.load(text, Loader=yaml.CSafeLoader)
        ours.append(between - began)
        bare.append(time.process_time() - between)
    assert min(ours) < 3 * min(bare), (ours, bare)
