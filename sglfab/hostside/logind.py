"""Will systemd kill what we leave behind when the operator logs out?"""

from __future__ import annotations

import glob
import os
import shutil
import subprocess
from typing import List, Optional, Tuple

from sglfab.hostside.processes import user_name

_RUNNING = "/run/systemd/system"  # exists where systemd is the init of this machine
_LINGER = "/var/lib/systemd/linger"
_CONFIGS = ("/usr/lib/systemd", "/run/systemd", "/etc/systemd")  # later ones win


def kill_user_processes() -> Optional[bool]:
    """KillUserProcesses as it holds for this user; False without systemd; None where it can't be found out."""
    if not os.path.isdir(_RUNNING):
        return False
    if os.getuid() == 0 and "root" in (setting("KillExcludeUsers") or "root").split():
        return False
    value = (
        _ask_logind() or setting("KillUserProcesses") or "no"
    )  # systemd's own default since 230 is yes, every distribution sets no
    return value.lower() in ("yes", "true", "1", "on")


def linger() -> Optional[bool]:
    """Whether the user's own service manager outlives the last logout; None without systemd."""
    if not os.path.isdir(_RUNNING):
        return None
    return os.path.exists(os.path.join(_LINGER, user_name(os.getuid())))


def _ask_logind() -> Optional[str]:
    try:
        done = subprocess.run(
            ["loginctl", "show-user", "--property=KillUserProcesses", "--value"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=3,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.decode("ascii", "replace").strip() or None if done.returncode == 0 else None


def setting(name: str, folders: Tuple[str, ...] = _CONFIGS) -> Optional[str]:
    """The value in logind.conf and its drop-ins, the last one that counts; None where nobody sets it."""
    value = None
    for path in _config_files(folders):
        value = _value(path, name) or value
    return value


def _config_files(folders: Tuple[str, ...]) -> List[str]:
    mains = [os.path.join(folder, "logind.conf") for folder in folders]
    drop_ins = {
        os.path.basename(p): p for folder in folders for p in glob.glob(os.path.join(folder, "logind.conf.d", "*.conf"))
    }
    return [*mains, *(drop_ins[name] for name in sorted(drop_ins))]


def _value(path: str, name: str) -> Optional[str]:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            pairs = [line.split("=", 1) for line in file if "=" in line and not line.lstrip().startswith(("#", ";"))]
    except OSError:
        return None
    return next((value.strip() for key, value in reversed(pairs) if key.strip() == name), None)


def scope_prefix(run_id: str) -> Tuple[List[str], List[str]]:
    """(argv prefix that moves a program out of the login session, warnings); both empty where logout kills nothing."""
    if not kill_user_processes():
        return [], []
    warnings = []
    if not linger():
        warnings.append(
            "KillUserProcesses is on and lingering is off: the server ends some seconds after your last logout; "
            "run `loginctl enable-linger` once"
        )
    if not shutil.which("systemd-run"):
        return [], [*warnings, "systemd-run is missing: the server will be killed when you log out"]
    os.environ.setdefault("XDG_RUNTIME_DIR", "/run/user/%d" % os.getuid())
    return ["systemd-run", "--user", "--scope", "--quiet", "--collect", "--unit=sglfab-%s" % run_id], warnings
