"""Which draft runs decides which file needs taps: its architecture, as its config.json on the host tells it."""

from __future__ import annotations

from collections.abc import Sequence

from sglfab.errors import InputError
from sglfab.flows.patch_install import load
from sglfab.model import Check, Json, Profile
from sglfab.patching.taps import DRAFT, PatchSet
from sglfab.project import Project
from sglfab.transports.host import Host

DRAFT_PATH = "speculative-draft-model-path"


def architectures(paths: Sequence[Json], draft_path: str | None) -> tuple[str, ...]:
    """`architectures` of the draft. paths: as the operation `check` tells them. Empty: not known here."""
    config = next((path["config"] for path in paths if path["path"] == draft_path), None) or {}
    return tuple(str(name) for name in config.get("architectures") or ())


def draft_of(host: Host, profile: Profile | None, named: str | None) -> tuple[str, ...]:
    """The architectures of the draft `named` (its folder), else of the profile's; empty where that tells none.

    Raises InputError draft-unknown where the named folder tells none.
    """
    path = named or (profile.args.get(DRAFT_PATH) if profile else None)
    if not path:
        return ()
    reply = host.call("check", {"paths": [str(path)], "cwd": profile.cwd if profile else None})
    found = architectures(reply["paths"], str(path))
    if named and not found:
        what = "no config.json with `architectures` there, so which file runs the draft is not known"
        raise InputError("draft-unknown", what, where=named, try_="--draft DIR, the folder of the draft's checkpoint")
    return found


def choose(patch_set: PatchSet, draft: Sequence[str]) -> PatchSet:
    """The set as that draft needs it. Raises InputError draft-has-no-tap where nothing of the set is left."""
    chosen = patch_set.for_draft(draft)
    if chosen.taps:
        return chosen
    other = f"a {', '.join(draft)} is none of them" if draft else "which one will run is not known"
    what = f"every tap of {patch_set.name} is for certain drafts, and {other}"
    raise InputError("draft-has-no-tap", what, where="--patches", try_="--draft DIR, the folder of the draft")


def draft_checks(
    project: Project, names: Sequence[str], draft_path: str | None, draft: Sequence[str]
) -> tuple[Check, ...]:
    """A warning where the draft's forwards would leave no trace, or may leave none."""
    if not names or not draft_path:
        return ()
    patch_set = load(project, names)
    said = _silent(patch_set, draft) if draft else left_out(patch_set)
    return (Check("draft-taps", "warning", said, "docs/patch-sets.md"),) if said else ()


def _silent(patch_set: PatchSet, draft: Sequence[str]) -> str:
    if patch_set.knows(draft) or not any(tap.role == DRAFT for tap in patch_set.taps):
        return ""
    return f"the draft is a {', '.join(draft)}: no tap of {patch_set.name} sits in the class that runs it"


def left_out(patch_set: PatchSet) -> str:
    """What is not tapped while the draft is not known; empty: nothing."""
    drafts = ", ".join(sorted({name for tap in patch_set.taps for name in tap.draft}))
    return f"which draft will run is not known: the taps for {drafts} are left out" if drafts else ""
