"""A bare virtual environment, as `python -m venv --without-pip` makes it, in milliseconds."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def make_environment(folder: Path, *, interpreter: Path | None = None, version: str | None = None) -> Path:
    """Make it and return its site-packages. interpreter: default this one; version: its "3.11", default this one's."""
    real = Path(os.path.realpath(interpreter or sys.executable))
    version = version or f"{sys.version_info.major}.{sys.version_info.minor}"
    site_packages = folder / "lib" / f"python{version}" / "site-packages"
    site_packages.mkdir(parents=True)
    (folder / "bin").mkdir()
    for name in ("python", "python3"):
        (folder / "bin" / name).symlink_to(real)
    config = f"home = {real.parent}\ninclude-system-site-packages = false\nversion = {version}\n"
    (folder / "pyvenv.cfg").write_text(config, encoding="utf-8")
    return site_packages
