"""The whole story of `make demo`, told over a real sshd."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sglfab.testing import sshd
from sglfab.testing.cpu.layout import CpuKit
from sglfab.testing.demo.setting import Setting
from sglfab.testing.demo.story import clean_up, tell
from sglfab.testing.fab import Fab
from sglfab.testing.fixtures import find_free_port


@pytest.mark.sglang
@pytest.mark.ssh
@pytest.mark.timeout(400)
def test_the_story_goes_as_told_on_a_host_behind_ssh(cpu_kit: CpuKit, tmp_path: Path, capfd) -> None:
    if (lacking := sshd.missing()) is not None:
        pytest.fail(lacking)
    with sshd.running(tmp_path / "sshd") as server:
        port = find_free_port()
        setting = Setting(
            folder=tmp_path,
            label="a real SGLang behind a real sshd",
            env={**os.environ, "SGLFAB_CPU": str(cpu_kit.root)},
            model=cpu_kit.target_model,
            site_packages=cpu_kit.site_packages,
            port=port,
            traced=True,
            launch_words=("--set", f"port={port}"),
            core=("-S", str(server.config), "-H", "box"),
            host_state=server.state_dir,
        )
        fab = Fab(env=setting.env, first=setting.core)
        try:
            tell(setting)
            _, first = fab("runs", "--json").json["runs"]
            stopped = fab("wait-health", "--run", first["id"], "--json")
        finally:
            clean_up(setting)
    assert first["exit"]["code"] == 0  # the launch that replaced it let it drain
    assert (stopped.code, stopped.json["primary"]["category"]) == (3, "operator.killed"), stopped
    assert "stopped" in stopped.json["primary"]["title"]
    told = capfd.readouterr()
    assert "-H box launch" in told.out
    assert "(exit 3, as expected)" in told.out
    assert "files.corrupt" in told.out
    assert "Traceback" not in told.err
