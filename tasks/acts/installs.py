"""The patches of an installed SGLang."""

from __future__ import annotations

from sglfab.errors import InputError
from sglfab.flows import patch as patch_flow
from sglfab.flows import patch_check, wheels
from sglfab.flows.launch import site_of
from sglfab.flows.patch_draft import draft_of
from sglfab.model import Profile

from ..answers import installs as answers
from ..desk import Answer, Desk, Seat, say_line


def site(seat: Seat, named: str | None, profile: Profile | None) -> str | None:
    """The folder to patch: --sglang-path, else where the profile's PYTHONPATH leads; None: the interpreter's own."""
    pythonpath = profile.env.get("PYTHONPATH") if profile else None
    if named or not pythonpath:
        return named
    seen = seat.host.call("facts", {"pythonpath": pythonpath})
    return site_of(seen) if seen["sglang"] else None


def patch(seat: Seat, names: list[str], sglang_path: str | None, profile: Profile | None, draft: str | None) -> Answer:
    place = {"sglang_path": site(seat, sglang_path, profile), "draft": draft_of(seat.host, profile, draft)}
    if seat.desk.dry:
        seen = patch_flow.preview(seat.project, seat.host, names, **place)
        return answers.dry_patch(seen, seat.host.label)
    seat.desk.doing = "patching"
    done = patch_flow.patch_debug(seat.project, seat.host, names, operator=seat.desk.operator, **place)
    return answers.patched(done, seat.host.label)


def unpatch(seat: Seat, sglang_path: str | None) -> Answer:
    if seat.desk.dry:
        seen = patch_flow.preview_removal(seat.project, seat.host, sglang_path=sglang_path)
        return answers.dry_patch(seen, seat.host.label)
    seat.desk.doing = "unpatching"
    done = patch_flow.unpatch_debug(seat.project, seat.host, operator=seat.desk.operator, sglang_path=sglang_path)
    return answers.patched(done, seat.host.label)


def patch_status(seat: Seat, sglang_path: str | None) -> Answer:
    return answers.patch_status(patch_flow.status(seat.project, seat.host, sglang_path=sglang_path), seat.host.label)


def check_release(desk: Desk, names: list[str], release: str, sglang_path: str | None) -> Answer:
    if sglang_path:
        what = "a release or a folder: which one is to be checked?"
        raise InputError("release-or-folder", what, where="--release, --sglang-path", try_="leave one of them out")
    if not wheels.is_kept(release):
        say_line(f"fetching the wheel of SGLang {release} with pip, once", err=True)
    return answers.checked(patch_check.check_release(desk.project, names, release), None)


def check_install(seat: Seat, names: list[str], sglang_path: str | None) -> Answer:
    found = patch_check.check_install(seat.project, seat.host, names, sglang_path=sglang_path)
    return answers.checked(found, seat.host.label)
