"""Which draft runs decides which file has the taps: its architecture, as its config.json on the host tells it."""

from __future__ import annotations

from collections.abc import Sequence

from sglfab.flows.patch_install import load
from sglfab.model import Check, Json, Profile
from sglfab.project import Project
from sglfab.transports.host import Host

DRAFT_PATH = "speculative-draft-model-path"


def architectures(paths: Sequence[Json], draft_path: str | None) -> tuple[str, ...]:
    """`architectures` of the draft. paths: as the operation `check` tells them. Empty: not known here."""
    config = next((path["config"] for path in paths if path["path"] == draft_path), None) or {}
    return tuple(str(name) for name in config.get("architectures") or ())


def draft_of(host: Host, profile: Profile | None) -> tuple[str, ...]:
    """The architectures of the profile's draft; empty without one, or where only the model hub knows it."""
    path = profile.args.get(DRAFT_PATH) if profile else None
    if profile is None or not path:
        return ()
    found = host.call("check", {"paths": [str(path)], "cwd": profile.cwd})
    return architectures(found["paths"], str(path))


def draft_checks(project: Project, names: Sequence[str], draft: Sequence[str]) -> tuple[Check, ...]:
    """A warning where the sets have taps for drafts, and none for this one."""
    if not names or not draft:
        return ()
    patch_set = load(project, names)
    if patch_set.knows(draft) or not any(tap.draft for tap in patch_set.taps):
        return ()
    known = ", ".join(sorted({name for tap in patch_set.taps for name in tap.draft}))
    text = f"the draft is a {', '.join(draft)}: no tap of {patch_set.name} sits in the file that runs it ({known})"
    return (Check("draft-taps", "warning", text, "a set of your own: docs/patch-sets.md"),)
