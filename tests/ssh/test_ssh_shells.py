"""The login shell of the operator on the host may be any."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from sglfab.errors import InputError
from sglfab.testing.sshd import Sshd
from sglfab.transports.host import Host

pytestmark = pytest.mark.ssh
SHELLS = ["bash", "dash", "fish", "tcsh", "zsh", "ksh", "busybox sh"]


@pytest.fixture(params=SHELLS)
def shell_sshd(request: pytest.FixtureRequest, own_sshd: Callable[..., Sshd], tmp_path: Path) -> Sshd:
    """An sshd that runs every command as `shell -c command`, as it does for a user with that login shell and home."""
    program, *words = request.param.split()
    path = shutil.which(program)
    if not path:
        pytest.skip(f"{program} is not installed")
    shell = " ".join([path, *words])
    return own_sshd(f'ForceCommand HOME={tmp_path}/home exec {shell} -c "$SSH_ORIGINAL_COMMAND"')


def test_a_call_passes(shell_sshd: Sshd, reach: Callable[..., Host], tmp_path: Path) -> None:
    state = tmp_path / 'it\'s my $HOME "state" \\ {a,b} !x *'
    host = reach(shell_sshd, python=sys.executable, state_dir=str(state))
    assert host.call("ping", {"echo": "$(id) it's"})["echo"] == "$(id) it's"
    assert (state / "bin").is_dir()


def test_the_folder_of_a_venv_is_as_good_as_its_interpreter(shell_sshd: Sshd, reach: Callable[..., Host]) -> None:
    assert reach(shell_sshd, python=sys.prefix).call("ping", {"echo": 1})["echo"] == 1


def test_a_missing_interpreter_is_told(shell_sshd: Sshd, reach: Callable[..., Host]) -> None:
    with pytest.raises(InputError, match="there is no /nonexistent/python3 on box") as caught:
        reach(shell_sshd, python="/nonexistent/python3").call("ping")
    assert (caught.value.code, caught.value.exit_code) == ("no-python", 2)


def test_a_leading_tilde_is_the_home_there(shell_sshd: Sshd, reach: Callable[..., Host], tmp_path: Path) -> None:
    python = tmp_path / "home/my venv's/bin/python3"
    python.parent.mkdir(parents=True)
    python.symlink_to(sys.executable)
    assert reach(shell_sshd, python="~/my venv's/bin/python3").call("ping", {"echo": 1})["echo"] == 1
