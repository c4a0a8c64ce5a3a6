"""Check patch sets against a release, offline: against its wheel, or an install as it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sglfab.errors import ExitCode, InputError
from sglfab.flows.patch_install import load, read
from sglfab.flows.wheels import sources, wheel
from sglfab.model import Check, Json
from sglfab.patching.checking import ABSENT, FITS, REFUSED, TapCheck, check_set
from sglfab.project import Project
from sglfab.sglang.releases import parse
from sglfab.transports.host import Host

_STATES = {FITS: "ok", ABSENT: "warning", REFUSED: "blocker"}


@dataclass(frozen=True)
class Checked:
    """How the taps of a set meet a release. source: the wheel or the folder that was read."""

    patch_set: str
    release: str
    source: str
    taps: tuple[TapCheck, ...]

    @property
    def exit_code(self) -> ExitCode:
        return ExitCode.PATCH if any(tap.state == REFUSED for tap in self.taps) else ExitCode.OK

    @property
    def summary(self) -> str:
        return f"{self.patch_set} on SGLang {self.release} ({self.source}); nothing was changed"

    def checks(self) -> tuple[Check, ...]:
        return tuple(Check(tap.tap, _STATES[tap.state], _text(tap), ", ".join(tap.nearest)) for tap in self.taps)

    def to_json(self) -> Json:
        head = {"set": self.patch_set, "sglang_version": self.release, "source": self.source}
        return {**head, "taps": [tap.to_json() for tap in self.taps]}


def _text(tap: TapCheck) -> str:
    if tap.state == ABSENT:
        return f"not in this release: {tap.module}: {tap.where}"
    left_out = f"; leaves out {', '.join(tap.leaves_out)}: not in this release" if tap.leaves_out else ""
    asked = f" (for the draft {', '.join(tap.draft)} only)" if tap.draft else ""
    return f"{tap.module}: {tap.where}{left_out}{asked}"


def check_release(project: Project, names: Sequence[str], release: str) -> Checked:
    """The sets against the wheel of a release. Raises InputError, also where there is no wheel to be had."""
    patch_set, number = load(project, names), str(parse(release))
    path = wheel(number)
    found = sources(path, patch_set.modules)
    taps = check_set(found.texts, patch_set, release=number, modules=found.modules)
    return Checked(patch_set.name, number, path.name, taps)


def check_install(project: Project, host: Host, names: Sequence[str], *, sglang_path: str | None = None) -> Checked:
    """The sets against an install, or an unpacked wheel, without what we put into it. Raises InputError."""
    patch_set = load(project, names)
    try:
        install = read(project, host, patch_set.modules, sglang_path=sglang_path)
    except InputError as error:
        tried = (
            f"--release X to check against a wheel; {error.try_}" if error.code == "sglang-not-found" else error.try_
        )
        raise InputError(error.code, error.what, where=error.where, try_=tried) from None
    texts = {module: install.source(module) for module in patch_set.modules}
    return Checked(patch_set.name, install.release, install.root, check_set(texts, patch_set, release=install.release))
