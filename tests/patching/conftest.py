"""Fixtures: a small install, this machine as a host, and the shipped patch set."""

import sys

import pytest
from patch_installs import ROOT, SET, HereHost, Installed

from sglfab.patching.loading import load_patch_set
from sglfab.project import Project
from sglfab.transports.host import Host
from sglfab.transports.local import LocalTransport


@pytest.fixture
def installed(tmp_path):
    return Installed(tmp_path / "site-packages")


@pytest.fixture
def project():
    return Project(ROOT)


@pytest.fixture
def host(tmp_path, monkeypatch):
    monkeypatch.setenv("SGLFAB_LOCK_DIR", str(tmp_path / "locks"))
    return Host(LocalTransport(), python=sys.executable, state_dir=str(tmp_path / "state"))


@pytest.fixture(scope="session")
def patch_set():
    file = ROOT / "configs" / "patches" / f"{SET}.yaml"
    return load_patch_set(SET, file.read_text(), file=str(file))


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.setenv("SGLFAB_LOCK_DIR", str(tmp_path / "locks"))
    return HereHost(tmp_path / "state")
