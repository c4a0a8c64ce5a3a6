"""hostside runs on any Python from 3.8 on, and says so on an older one."""

from __future__ import annotations

import glob
import json
import shutil
import subprocess
import sys
from importlib import resources
from pathlib import Path

import pytest

from sglfab.errors import InputError
from sglfab.transports.bundle import bootstrap_argv, bundle
from sglfab.transports.host import Host
from sglfab.transports.local import LocalTransport

NEW = ("3.8", "3.9", "3.10", "3.11", "3.12", "3.13", "3.14")
OLD = ("2.7", "3.6", "3.7")


def interpreter(version: str) -> str:
    """A real interpreter of that version; the test is skipped where there is none."""
    found = glob.glob(str(Path(f"~/.pyenv/versions/{version}.*/bin/python").expanduser()))
    path = found[0] if found else shutil.which(f"python{version}")
    if not path or subprocess.run([path, "-c", ""], check=False, capture_output=True).returncode:
        pytest.skip(f"no Python {version} on this machine")
    return path


def vermin(target: str, *paths: Path) -> subprocess.CompletedProcess[str]:
    flags = ["--quiet", "--no-tips", "--violations", f"--target={target}"]
    return subprocess.run(
        [sys.executable, "-c", "import vermin; vermin.main()", *flags, *map(str, paths)],
        capture_output=True,
        text=True,
        check=False,
    )


def hostside() -> Path:
    return Path(str(resources.files("sglfab.hostside")))


@pytest.mark.parametrize("package", ["sglfab.hostside", "sglfab.patching.probe"])
def test_nothing_newer_than_3_8_is_used_in(package: str) -> None:
    folder = Path(str(resources.files(package)))
    checked = vermin("3.8-", folder)
    assert checked.returncode == 0, checked.stdout
    assert list(folder.glob("*.py"))


def test_vermin_would_see_what_is_newer(tmp_path: Path) -> None:
    (tmp_path / "new.py").write_text("import os\nos.waitstatus_to_exitcode(0)\n")
    assert vermin("3.8-", tmp_path).returncode != 0


@pytest.mark.parametrize("version", NEW)
def test_an_operation_runs_on(version: str, tmp_path: Path) -> None:
    host = Host(LocalTransport(), python=interpreter(version), state_dir=str(tmp_path))
    assert host.call("ping")["python"].startswith(version + ".")


@pytest.mark.parametrize("version", NEW)
def test_every_module_can_be_imported_on(version: str, tmp_path: Path) -> None:
    (tmp_path / "bundle.pyz").write_bytes(bundle().data)
    names = [f"sglfab.hostside.{file.stem}" for file in hostside().glob("*.py") if not file.stem.startswith("__")]
    code = "import sys, importlib; sys.path.insert(0, sys.argv[1]); [importlib.import_module(n) for n in sys.argv[2:]]"
    argv = [interpreter(version), "-c", code, str(tmp_path / "bundle.pyz"), *names]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("version", ["3.8", "3.13"])
def test_facts_are_found_on(version: str, tmp_path: Path) -> None:
    host = Host(LocalTransport(), python=interpreter(version), state_dir=str(tmp_path))
    assert host.call("facts")["python"]["version"].startswith(version + ".")


@pytest.mark.parametrize("version", OLD)
def test_too_old_is_said(version: str) -> None:
    with pytest.raises(InputError, match=f"Python {version} on the host is too old") as caught:
        Host(LocalTransport(), python=interpreter(version)).call("ping")
    assert caught.value.code == "python-too-old"
    assert "python:" in caught.value.try_


@pytest.mark.parametrize("version", OLD)
def test_too_old_is_said_before_anything_is_asked_for(version: str) -> None:
    argv = bootstrap_argv(interpreter(version), bundle().sha, None)
    said = subprocess.run(argv, capture_output=True, stdin=subprocess.DEVNULL, check=False)
    assert list(json.loads(said.stdout)) == ["error"]
    assert said.stderr == b""
