"""A copy of the kit's sglang package in an environment of its own, so that what edits it never edits the kit."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from sglfab.testing.cpu.layout import CpuKit
from sglfab.testing.environment import make_environment


@dataclass(frozen=True)
class Overlay:
    """An environment that has its own sglang and dist-info, and takes everything else from the kit."""

    root: Path
    site_packages: Path
    kit: CpuKit

    @property
    def python(self) -> Path:
        return self.root / "bin" / "python"

    @property
    def sglang(self) -> Path:
        return self.site_packages / "sglang"

    @property
    def dist_info(self) -> Path:
        return self.site_packages / self.kit.dist_info.name


def make_overlay(kit: CpuKit, folder: Path) -> Overlay:
    """About 0.5 s and 220 MB, byte-code included."""
    version = kit.site_packages.parent.name.removeprefix("python")
    site_packages = make_environment(folder, interpreter=kit.python, version=version)
    made = Overlay(folder, site_packages, kit)
    shutil.copytree(kit.sglang, made.sglang, symlinks=True)
    shutil.copytree(kit.dist_info, made.dist_info)
    # A .pth line comes after the environment's own folder: the copy of sglang wins.
    (site_packages / "kit.pth").write_text(f"{kit.site_packages}\n", encoding="utf-8")
    return made
