"""The kit's installer: when it is ready, what makes it anew, what it says where SGLang cannot be had."""

from __future__ import annotations

import base64
import fcntl
import hashlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from sglfab.testing.cpu import __main__ as command
from sglfab.testing.cpu import install as installer
from sglfab.testing.cpu import layout
from sglfab.testing.cpu.layout import CpuKit


def whole(root: Path) -> CpuKit:
    """A folder that looks like an installed kit, without the 2.7 GB."""
    kit = CpuKit(root)
    kit.python.parent.mkdir(parents=True)
    kit.python.write_text("")
    site = kit.venv / "lib" / "python3.11" / "site-packages"
    (site / "torch").mkdir(parents=True)
    for folder in (kit.sglang, kit.dist_info, kit.stubs / "sgl_kernel"):
        folder.mkdir(parents=True)
    for path in (kit.sglang / "launch_server.py", kit.dist_info / "RECORD"):
        path.write_text("")
    for folder in (kit.target_model, kit.draft_model):
        folder.mkdir(parents=True)
        (folder / "model.safetensors").write_bytes(b"")
    kit.venv_marker.write_text(layout.wanted()["pins"])
    installer.write_ready(kit)
    return kit


def without(path: Callable[[CpuKit], Path]) -> Callable[[CpuKit], None]:
    return lambda kit: path(kit).unlink()


def with_pins_of_another_version(kit: CpuKit) -> None:
    kit.ready_file.write_text(json.dumps({**json.loads(kit.ready_file.read_text()), "pins": "0" * 64}))


BROKEN = {
    "ready.json is missing": without(lambda kit: kit.ready_file),
    "ready.json is cut": lambda kit: kit.ready_file.write_text('{"schema": 1, "pi'),
    "the pins changed": with_pins_of_another_version,
    "the environment was left half made": without(lambda kit: kit.venv_marker),
    "the interpreter is gone": without(lambda kit: kit.python),
    "sglang is gone": without(lambda kit: kit.sglang / "launch_server.py"),
    "the draft's weights are gone": without(lambda kit: kit.draft_model / "model.safetensors"),
}


def test_whole_kit_is_ready(tmp_path: Path) -> None:
    assert layout.is_ready(whole(tmp_path))


@pytest.mark.parametrize("case", BROKEN)
def test_broken_kit_is_not_ready(tmp_path: Path, case: str) -> None:
    kit = whole(tmp_path)
    BROKEN[case](kit)
    assert not layout.is_ready(kit)


def test_install_leaves_a_ready_kit_alone(tmp_path: Path) -> None:
    kit = whole(tmp_path)
    before = kit.ready_file.stat().st_mtime_ns
    assert installer.install(kit) is False
    assert kit.ready_file.stat().st_mtime_ns == before


def test_second_install_waits_for_the_first_and_then_finds_it_done(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kit = whole(tmp_path)
    ready = kit.ready_file.read_text()
    kit.ready_file.unlink()
    done: list[bool] = []
    with (kit.root / "install.lock").open("w") as first:
        fcntl.flock(first, fcntl.LOCK_EX)
        second = threading.Thread(target=lambda: done.append(installer.install(kit)))
        second.start()
        second.join(0.3)
        assert second.is_alive()
        kit.ready_file.write_text(ready)
    second.join(10)
    assert done == [False]
    assert "another installation" in capsys.readouterr().out


def test_machine_without_wheels_is_exit_3_with_the_reason(tmp_path: Path) -> None:
    """pip is told that there is no index and nothing on disk: what a machine without wheels looks like."""
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "SGLFAB_CPU": str(tmp_path / "kit")}
    env |= {"PIP_CONFIG_FILE": os.devnull, "PIP_NO_INDEX": "1"}
    ask = [sys.executable, "-m", "sglfab.testing.cpu", "install"]
    done = subprocess.run(ask, env=env, capture_output=True, text=True, check=False, cwd=layout.HERE.parents[2])
    assert done.returncode == command.EXIT_UNAVAILABLE
    assert "SGLang cannot be installed here: sglang==0.5.23" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "kit" / "ready.json").exists()


def test_cuda_build_of_torch_is_announced_as_several_gb(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    installer.announce(CpuKit(tmp_path), "2.13.0+cpu")
    assert "610 MB" in (cpu := capsys.readouterr().out)
    assert "several GB" not in cpu
    installer.announce(CpuKit(tmp_path), "2.13.0")
    assert "several GB" in capsys.readouterr().out


def test_failing_step_names_its_log_and_shows_the_end(tmp_path: Path) -> None:
    log = tmp_path / "install.log"
    script = "import sys; print('no space left'); sys.exit(9)"
    with pytest.raises(installer.KitBrokenError) as failed:
        installer.step("a step", [sys.executable, "-c", script], log)
    first, *rest = str(failed.value).splitlines()
    assert first == f"a step: exit 9; all of it in {log}"
    assert rest[-1] == "no space left"


def test_pins_are_exact_and_unique() -> None:
    names = [pin.split("==")[0] for pin in layout.pins()]
    assert len(names) == len(set(names))
    assert all(pin.count("==") == 1 for pin in layout.pins())


def test_a_changed_file_and_a_renamed_file_change_the_hash(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_text("x")
    before = layout.content_hash([one])
    two.write_text("x")
    assert layout.content_hash([two]) != before
    one.write_text("y")
    assert layout.content_hash([one]) != before


def test_status_tells_ready_from_not_ready(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SGLFAB_CPU", str(tmp_path))
    assert command.main(["status"]) == command.EXIT_NOT_READY
    whole(tmp_path)
    assert command.main(["status"]) == 0


def test_stubs_are_copied_anew_without_byte_code(tmp_path: Path) -> None:
    kit = CpuKit(tmp_path)
    (kit.stubs / "old").mkdir(parents=True)
    installer.copy_stubs(kit)
    files = {str(f.relative_to(kit.stubs)) for f in kit.stubs.rglob("*") if f.is_file()}
    assert files == {"sitecustomize.py", "sgl_kernel/__init__.py", "sgl_kernel/mamba.py"}


def edited(kit: CpuKit, file: str) -> None:
    (kit.sglang / file).write_text("edited")


def test_edited_files_are_told_by_the_record(tmp_path: Path) -> None:
    kit = whole(tmp_path)
    rows = []
    for name in layout.PATCHED_FILES:
        path = kit.sglang / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
        digest = hashlib.sha256(name.encode()).digest()
        rows.append(f"sglang/{name},{record_form(digest)},{len(name)}")
    (kit.dist_info / "RECORD").write_text("\n".join(rows) + "\n")
    assert layout.edited_files(kit) == ()
    edited(kit, layout.PATCHED_FILES[1])
    assert layout.edited_files(kit) == (layout.PATCHED_FILES[1],)


def record_form(digest: bytes) -> str:
    return "sha256=" + base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
