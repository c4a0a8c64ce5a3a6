"""The taps as an SGLang plugin: what `--via plugin` gives the server. Nothing is written into the install."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sglfab.errors import PatchError
from sglfab.flows.patch_draft import choose
from sglfab.flows.patch_install import load, read
from sglfab.model import Json
from sglfab.patching.planning import Install
from sglfab.patching.plugin import MODULE, NoPlugin, Plugin, plan_plugin
from sglfab.project import Project
from sglfab.transports.host import Host


@dataclass(frozen=True)
class PluginPreview:
    """The plugin that a launch would bring along."""

    install: Install
    plugin: Plugin

    @property
    def absent(self) -> tuple[str, ...]:
        return self.plugin.absent

    @property
    def summary(self) -> str:
        lacking = f" (not in this release: {', '.join(self.absent)})" if self.absent else ""
        inserts = f" (only with --via file: {', '.join(self.plugin.inserts)})" if self.plugin.inserts else ""
        where = f"SGLang {self.install.release} in {self.install.root}"
        return f"{self.plugin.set_name}: as a plugin, no file is touched, {where}{lacking}{inserts}"

    def to_json(self) -> Json:
        where = {"root": self.install.root, "sglang_version": self.install.release}
        return {"verb": "fits-as-plugin", **where, **self.plugin.to_json()}


def preview_plugin(
    project: Project, host: Host, names: Sequence[str], *, sglang_path: str | None = None, draft: Sequence[str] = ()
) -> PluginPreview:
    """The plugin for a host's install; changes nothing. draft: as `patch.preview` takes it.

    Raises PatchError (6) patch-no-plugins, patch-footers-present, patch-conflict; InputError for a set that is wrong.
    """
    patch_set = load(project, names)
    install = read(project, host, patch_set.modules, sglang_path=sglang_path)
    source = project.read(project.root / "sglfab" / "patching" / "probe" / f"{MODULE}.py")
    plan = plan_plugin(install, choose(patch_set, draft), source)
    if isinstance(plan, NoPlugin):
        where = f"{install.root}/sglang/{plan.path} (SGLang {install.release})"
        raise PatchError(plan.code, plan.reason, where=where, try_=plan.try_)
    return PluginPreview(install, plan)
