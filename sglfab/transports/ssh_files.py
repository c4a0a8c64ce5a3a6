"""The ssh config files that Fabric reads before any task runs, whatever the task is about."""

from __future__ import annotations

from pathlib import Path

from paramiko.config import SSHConfig
from paramiko.ssh_exception import ConfigParseError

from sglfab.errors import InputError

USER_FILE, SYSTEM_FILE = "~/.ssh/config", "/etc/ssh/ssh_config"


def refuse_unreadable(given: str | None) -> None:
    """Raise InputError ssh-config-unreadable where Fabric would end in a traceback. given: the file of `-S`.

    A file that is not there, or not ours to read, is no fault unless it was named: OpenSSH goes on without it, too.
    """
    for path in (given,) if given else (USER_FILE, SYSTEM_FILE):
        file = Path(path).expanduser()
        try:
            SSHConfig.from_path(str(file))
        except (ConfigParseError, UnicodeDecodeError) as why:
            raise _unreadable(path, str(why)) from None
        except OSError as why:
            if given:
                raise _unreadable(path, why.strerror or str(why)) from None


def _unreadable(path: str, why: str) -> InputError:
    what = f"the ssh config cannot be read: {why}"
    return InputError("ssh-config-unreadable", what, where=path, try_=f"ssh -F {path} -G localhost; or -S /dev/null")
