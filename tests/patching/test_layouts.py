"""Where an install may lie: real environments, links, conda's layout, one site-packages for two interpreters."""

import os
import shutil
import stat
import subprocess
import sys

import pytest
from patch_installs import OPERATOR, SET, Installed

from sglfab.errors import LockedError, PatchError
from sglfab.flows import patch
from sglfab.testing.environment import make_environment
from sglfab.transports.host import Host
from sglfab.transports.local import LocalTransport


@pytest.fixture
def at(tmp_path, monkeypatch):
    """A host whose operations run with the given interpreter; the same state folder for all."""
    monkeypatch.setenv("SGLFAB_LOCK_DIR", str(tmp_path / "locks"))
    return lambda python: Host(LocalTransport(), python=str(python), state_dir=str(tmp_path / "state"))


def environment(folder):
    """A virtual environment with an sglang in it."""
    installed = Installed(make_environment(folder))
    return folder / "bin" / "python", installed


def conda(folder):
    """An interpreter beside its library, no pyvenv.cfg: what conda makes."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    (folder / "bin").mkdir(parents=True)
    for name in os.listdir(os.path.dirname(os.__file__)):
        source = os.path.join(os.path.dirname(os.__file__), name)
        target = folder / "lib" / version / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if name not in ("site-packages", "dist-packages"):
            target.symlink_to(source)
    shutil.copy2(os.path.realpath(sys.executable), folder / "bin" / "python")
    installed = Installed(folder / "lib" / version / "site-packages")
    return folder / "bin" / "python", installed


def with_a_space(folder):
    return environment(folder / "my env (old)")


def behind_a_link(folder):
    _, installed = environment(folder / "real")
    (folder / "current").symlink_to(folder / "real")
    return folder / "current" / "bin" / "python", installed


def not_ascii(folder):
    return environment(folder / "Umgebung für José")


@pytest.mark.parametrize("make", [with_a_space, behind_a_link, not_ascii, conda], ids=lambda make: make.__name__)
def test_the_interpreters_own_sglang_is_found_patched_and_restored(tmp_path, project, at, make):
    python, installed = make(tmp_path / "envs")
    host = at(python)
    done = patch.patch_debug(project, host, [SET], operator=OPERATOR)
    assert done.root == os.path.realpath(installed.root)
    assert not installed.pristine
    assert patch.status(project, host).state == "ours"
    patch.unpatch_debug(project, host, operator=OPERATOR)
    assert installed.pristine


def test_a_linked_environment_is_the_same_install_by_either_name(tmp_path, project, at):
    linked, installed = behind_a_link(tmp_path / "envs")
    real = tmp_path / "envs" / "real" / "bin" / "python"
    patch.patch_debug(project, at(linked), [SET], operator=OPERATOR)
    assert patch.patch_debug(project, at(real), [SET], operator=OPERATOR).verb == "already-patched"
    assert len(list((tmp_path / "state" / "patches").iterdir())) == 1
    patch.unpatch_debug(project, at(real), operator=OPERATOR)
    assert installed.pristine


def test_two_interpreters_that_share_one_site_packages_share_manifest_and_lock(tmp_path, project, at):
    """A second environment whose site-packages is a link to the first one's."""
    one, installed = environment(tmp_path / "one")
    shared = make_environment(tmp_path / "two")
    shared.rmdir()
    shared.symlink_to(installed.root)
    two = tmp_path / "two" / "bin" / "python"
    patch.patch_debug(project, at(one), [SET], operator=OPERATOR)
    assert patch.status(project, at(two)).state == "ours"
    assert patch.patch_debug(project, at(two), [SET], operator=OPERATOR).verb == "already-patched"
    assert len(list((tmp_path / "state" / "patches").iterdir())) == 1
    lock = {"install": f"{installed.root}/sglang", "operator": "bob", "laptop": "x", "what": "launch of y"}
    with at(one).stream("hold-locks", lock) as held:
        next(held)
        with pytest.raises(LockedError, match="bob"):
            patch.unpatch_debug(project, at(two), operator=OPERATOR)
    patch.unpatch_debug(project, at(two), operator=OPERATOR)
    assert installed.pristine


def test_a_second_install_that_comes_later_on_the_path_stays_as_it_is(tmp_path, project, at):
    """--system-site-packages, a .pth line, a container's overlay: the first one wins, and only that is touched."""
    python, installed = environment(tmp_path / "upper")
    below = Installed(tmp_path / "lower")
    (installed.root / "lower.pth").write_text(f"{below.root}\n")
    patch.patch_debug(project, at(python), [SET], operator=OPERATOR)
    assert not installed.pristine
    assert below.pristine


def test_the_package_itself_may_be_a_link(tmp_path, project, at):
    """What some editable installs look like: the files are patched where they really lie."""
    python, installed = environment(tmp_path / "env")
    elsewhere = tmp_path / "src"
    elsewhere.mkdir()
    (installed.root / "sglang").rename(elsewhere / "sglang")
    (installed.root / "sglang").symlink_to(elsewhere / "sglang")
    patch.patch_debug(project, at(python), [SET], operator=OPERATOR)
    assert not installed.pristine
    assert patch.status(project, at(python), sglang_path=str(elsewhere)).state == "ours"
    patch.unpatch_debug(project, at(python), operator=OPERATOR)
    assert installed.pristine


@pytest.mark.skipif(os.getuid() != 0, reason="only root may mount")
def test_a_read_only_file_system_is_refused_before_anything_is_written(tmp_path, project, at):
    python, installed = environment(tmp_path / "env")
    installed.load_plugins()
    mount = ["mount", "--bind", "-o", "ro", str(installed.root), str(installed.root)]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("mounting is not allowed here")
    try:
        with pytest.raises(PatchError, match="mounted read-only") as raised:
            patch.patch_debug(project, at(python), [SET], operator=OPERATOR)
    finally:
        subprocess.run(["umount", str(installed.root)], check=True)
    assert "--via plugin" in raised.value.try_
    assert installed.pristine


def test_a_mode_that_forbids_writing_comes_back_with_the_bytes(tmp_path, project, at):
    """root may write it all the same; the file is 0444 before, patched, and after."""
    if os.getuid() != 0:
        pytest.skip("only root may write such a file")
    python, installed = environment(tmp_path / "env")
    for path in installed.originals:
        installed.path(path).chmod(0o444)
    patch.patch_debug(project, at(python), [SET], operator=OPERATOR)
    patch.unpatch_debug(project, at(python), operator=OPERATOR)
    assert installed.pristine
    assert {stat.S_IMODE(installed.path(path).stat().st_mode) for path in installed.originals} == {0o444}
