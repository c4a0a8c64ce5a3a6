"""The demo's story on the stand-in, and its pieces. On the real SGLang `make demo` tells it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from sglfab.testing.demo.__main__ import choose, empty
from sglfab.testing.demo.setting import BANNER, ROOT
from sglfab.testing.demo.story import Cutter, count_taps

CHAPTERS = ("=== 1. Launch", "=== 2. A few requests", "=== 3. No trace", "=== 4. Launch again", "=== 5. Stop")


def test_story_on_the_standin_goes_as_told_and_says_what_it_is(tmp_path: Path) -> None:
    ask = [sys.executable, "-m", "sglfab.testing.demo", "--standin", "--folder", str(tmp_path / "demo")]
    env = {**os.environ, "CI": ""}
    done = subprocess.run(ask, cwd=ROOT, env=env, capture_output=True, text=True, check=False, timeout=110)
    assert done.returncode == 0, done.stdout + done.stderr
    assert BANNER in done.stdout.splitlines()[1]
    places = [done.stdout.index(chapter) for chapter in CHAPTERS]
    assert places == sorted(places)
    assert "$ fab launch --profile cpu-demo-debug" in done.stdout
    assert "(exit 3, as expected)" in done.stdout
    assert "files.corrupt" in done.stdout
    assert "as in the wheel's RECORD" in done.stdout
    assert "Traceback" not in done.stderr


def test_ci_never_passes_on_the_standin(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert choose(tmp_path, standin=True, environ={"CI": "true"}) is None
    assert "must run on the real SGLang" in capsys.readouterr().err


def test_folder_that_no_demo_made_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(FileExistsError, match="no demo made it"):
        empty(tmp_path)
    assert (tmp_path / "thesis.txt").read_text() == "mine"


def test_folder_of_a_former_demo_is_made_anew(tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    empty(folder)
    (folder / "state").mkdir()
    empty(folder)
    assert not (folder / "state").exists()


def test_standin_is_taken_where_it_is_asked_for(tmp_path: Path) -> None:
    setting = choose(tmp_path, standin=True, environ={})
    assert setting is not None
    assert (setting.label, setting.traced) == (BANNER, False)
    assert setting.not_as_released() == ()


def test_cutter_leaves_the_file_alone_until_a_new_run_is_there(tmp_path: Path) -> None:
    (tmp_path / "runs" / "old").mkdir(parents=True)
    (tmp_path / "runs" / "old" / "launch.sh").write_text("")
    shard = tmp_path / "shard"
    shard.write_bytes(bytes(100))
    cutter = Cutter(tmp_path, shard)
    cutter.start()
    cutter.join(0.3)
    assert shard.stat().st_size == 100
    (tmp_path / "runs" / "new").mkdir()
    (tmp_path / "runs" / "new" / "launch.sh").write_text("")
    cutter.join(5)
    assert (shard.stat().st_size, cutter.done) == (50, True)


def test_stopped_cutter_cuts_nothing(tmp_path: Path) -> None:
    shard = tmp_path / "shard"
    shard.write_bytes(bytes(100))
    cutter = Cutter(tmp_path, shard)
    cutter.start()
    cutter.stop()
    assert (shard.stat().st_size, cutter.done) == (100, False)


def test_taps_are_counted_by_role_with_the_logits_processor_apart() -> None:
    records = [
        {"kind": "proof", "wrapped": 5},
        {"tap": "target-forward", "role": "target"},
        {"tap": "logits", "role": "target"},
        {"tap": "logits", "role": "draft"},
        {"tap": "draft-forward", "role": "draft"},
    ]
    lines = [json.dumps(record) for record in records]
    assert count_taps([*lines, '{"tap": "cut']) == {"target": 1, "draft": 1, "logits-processor": 2}
