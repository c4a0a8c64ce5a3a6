"""hosts.yaml: what is read, whose entry wins, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from sglfab.errors import InputError
from sglfab.profiles.hosts import HostEntry, load_hosts
from sglfab.project import Project

GOOD = {
    "a bare name": ("gpu1:", HostEntry("gpu1")),
    "an address": ("gpu1: {address: 10.0.0.1}", HostEntry("gpu1", address="10.0.0.1")),
    "a user alone": ("gpu1: {user: ml}", HostEntry("gpu1", address="ml@gpu1")),
    "a user and a port": ("gpu1: {user: ml, port: 2222}", HostEntry("gpu1", address="ml@gpu1:2222")),
    "an environment": ("gpu1: {python: /opt/venv}", HostEntry("gpu1", python="/opt/venv/bin/python")),
    "folders and notes": (
        "gpu1: {state_dir: /local/s, logs: /var/log/s, notes: shared}",
        HostEntry("gpu1", state_dir="/local/s", logs="/var/log/s", notes="shared"),
    ),
}


def write(project: Project, text: str) -> Project:
    (project.extra[0] / "hosts.yaml").write_text(text)
    return project


@pytest.mark.parametrize(("text", "entry"), GOOD.values(), ids=GOOD.keys())
def test_an_entry(team, text: str, entry: HostEntry) -> None:
    assert load_hosts(write(team({}), text)) == {"gpu1": entry}


@pytest.mark.parametrize("text", [None, "", "# none yet\n"], ids=["no file", "empty", "only comments"])
def test_no_hosts(team, text: str | None) -> None:
    project = team({})
    assert load_hosts(project if text is None else write(project, text)) == {}


BAD = {
    "an unknown key": ("gpu1:\n  pyhton: x", "profile-unknown-key", "hosts.yaml:2", "python"),
    "a port of text": ("gpu1:\n  port: ssh", "profile-wrong-type", "hosts.yaml:2", ""),
    "a list": ("- gpu1", "profile-not-a-mapping", "hosts.yaml:1", ""),
    "a host of one word": ("gpu1: 10.0.0.1", "hosts-wrong-type", "hosts.yaml:1", "example"),
    "the same host twice": ("gpu1:\ngpu1:", "yaml-duplicate-key", "hosts.yaml:2", ""),
}


@pytest.mark.parametrize(("text", "code", "where", "try_"), BAD.values(), ids=BAD.keys())
def test_refused(team, text: str, code: str, where: str, try_: str) -> None:
    with pytest.raises(InputError) as caught:
        load_hosts(write(team({}), text))
    assert (caught.value.code, caught.value.where) == (code, where)
    assert try_ in caught.value.try_


def test_the_teams_entry_wins_over_ours(tmp_path: Path) -> None:
    for folder, text in (("team", "a: {user: me}"), ("clone/configs", "a: {user: you}\nb: {user: you}")):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "hosts.yaml").write_text(text)
    found = load_hosts(Project(tmp_path / "clone", (tmp_path / "team",), environ={}))
    assert {name: entry.address for name, entry in found.items()} == {"a": "me@a", "b": "you@b"}


def test_the_example_is_a_hosts_file(team) -> None:
    project = team({})
    found = load_hosts(write(project, (project.root / "configs" / "hosts.example.yaml").read_text()))
    assert found["gpu1"].address == "ml@gpu1.cluster.example:22"
    assert found["gpu2"].python == "~/venvs/sglang/bin/python"
