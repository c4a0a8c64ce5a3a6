"""The taps of a set as an SGLang plugin: what its folder holds, or why this install takes none. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace

from sglfab.model import Json
from sglfab.patching.installed import DRIFTED, OURS
from sglfab.patching.outcomes import Conflict, Fit, fit
from sglfab.patching.planning import Install
from sglfab.patching.taps import PatchSet

MODULE = "sglfab_plugin"
GROUP = "sglang.srt.plugins"
_INFO = "sglfab_plugin-1.dist-info"


@dataclass(frozen=True)
class Plugin:
    """files: relative path → text, of the folder. absent: taps that this release does not have.

    inserts: taps that are lines inside a method, which no plugin can put there.
    """

    set_name: str
    release: str
    files: Mapping[str, str]
    modules: tuple[str, ...]
    absent: tuple[str, ...]
    inserts: tuple[str, ...] = ()

    @property
    def sha(self) -> str:
        """Names the folder by its content."""
        return hashlib.sha256(json.dumps(self.files, sort_keys=True).encode()).hexdigest()

    def to_json(self) -> Json:
        """What a run's record keeps of it, in the place of a manifest."""
        head = {"via": "plugin", "set": self.set_name, "release": self.release, "plugin": self.sha}
        return {**head, "files": list(self.modules), "absent": list(self.absent), "inserts": list(self.inserts)}


@dataclass(frozen=True)
class NoPlugin:
    """Refused. code and path: of the error; try_: what helps."""

    code: str
    path: str
    reason: str
    try_: str


def plan_plugin(install: Install, patch_set: PatchSet, source: str) -> Plugin | NoPlugin:
    """The plugin of `patch_set` for an install. source: sglfab_plugin.py.

    A foreign edit is no conflict as long as what is to be wrapped is there: nothing is written.
    """
    if install.no_plugins:
        what = f"SGLang {install.release} {install.no_plugins}"
        return NoPlugin("patch-no-plugins", "", what, "--via file: a footer in the files works in every release")
    for path, state in install.states.items():
        if state.kind in (OURS, DRIFTED):
            what = f"{path} carries a footer: it would trace beside the plugin"
            return NoPlugin("patch-footers-present", path, what, "--via file, or fab unpatch-debug")
    wraps = replace(patch_set, taps=tuple(tap for tap in patch_set.taps if not tap.insert))
    if not wraps.taps:
        what = f"the taps of {patch_set.name} are lines inside methods, which no plugin can put there"
        return NoPlugin("patch-conflict", "", what, "--via file")
    fits = {path: fit(install.file(path).text, wraps.taps_of(path), release=install.release) for path in wraps.modules}
    for path, found in fits.items():
        if isinstance(found, Conflict):
            near = f"nearest: {', '.join(found.sites)}" if found.sites else "docs/runbooks/read-the-debug-trace.md"
            return NoPlugin("patch-conflict", path, f"{path}: {found.reason}", near)
    good = {path: found for path, found in fits.items() if isinstance(found, Fit)}
    if not any(found.present for found in good.values()):
        what = f"no tap of {patch_set.name} is in SGLang {install.release}"
        return NoPlugin("patch-conflict", "", what, "fab patch-check tells why")
    return _plugin(install, patch_set, good, source)


def _plugin(install: Install, patch_set: PatchSet, fits: Mapping[str, Fit], source: str) -> Plugin:
    modules = tuple(path for path, found in fits.items() if found.present)
    about = {"set": patch_set.name, "modules": list(modules), "max_mb": patch_set.max_mb}
    taps = {path: [tap.to_json() for tap in fits[path].present] for path in modules}
    return Plugin(
        set_name=patch_set.name,
        release=install.release,
        files={
            f"{MODULE}.py": source,
            f"{MODULE}.json": json.dumps({"about": about, "taps": taps}, indent=1) + "\n",
            f"{_INFO}/METADATA": "Metadata-Version: 2.1\nName: sglfab-plugin\nVersion: 1\n",
            f"{_INFO}/entry_points.txt": f"[{GROUP}]\nsglfab = {MODULE}:activate\n",
        },
        modules=modules,
        absent=tuple(tap for found in fits.values() for tap in found.absent),
        inserts=tuple(tap.tap for tap in patch_set.taps if tap.insert),
    )
