"""The patches of an installed SGLang."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from sglfab.errors import InputError, SglfabError
from sglfab.flows import patch as patch_flow
from sglfab.flows import patch_check, patch_hosts, wheels
from sglfab.flows.launch import site_of
from sglfab.flows.patch_draft import draft_of
from sglfab.flows.patch_plugin import preview_plugin
from sglfab.model import Profile

from ..answers import installs as answers
from ..desk import Answer, Desk, Seat, say_line

T = TypeVar("T")


def site(seat: Seat, named: str | None, profile: Profile | None) -> str | None:
    """The folder to patch: --sglang-path, else where the profile's PYTHONPATH leads; None: the interpreter's own."""
    pythonpath = profile.env.get("PYTHONPATH") if profile else None
    if named or not pythonpath:
        return named
    seen = seat.host.call("facts", {"pythonpath": pythonpath})
    return site_of(seen) if seen["sglang"] else None


def patch(
    seats: Sequence[Seat], names: list[str], sglang_path: str | None, profile: Profile | None, draft: str | None
) -> list[Answer | SglfabError]:
    """The answer of each seat: the same bytes on every host, or none patched."""
    desk = seats[0].desk
    places = [
        patch_hosts.Place(s.host, partial(site, s, sglang_path, profile), partial(draft_of, s.host, profile, draft))
        for s in seats
    ]
    if desk.dry:
        seen = patch_hosts.preview_all(desk.project, places, names)
        return [_told(answers.dry_patch, found, seat) for found, seat in zip(seen, seats, strict=True)]
    desk.doing = "patching"
    done = patch_hosts.patch_all(desk.project, places, names, operator=desk.operator)
    return [_told(answers.patched, found, seat) for found, seat in zip(done, seats, strict=True)]


def _told(tell: Callable[[T, str], Answer], found: T | SglfabError, seat: Seat) -> Answer | SglfabError:
    return found if isinstance(found, SglfabError) else tell(found, seat.host.label)


def as_plugin(
    seat: Seat, names: list[str], sglang_path: str | None, profile: Profile | None, draft: str | None
) -> Answer:
    """Whether the set fits as a plugin, and how to launch with it: there is nothing to write before."""
    path, drafts = site(seat, sglang_path, profile), draft_of(seat.host, profile, draft)
    seen = preview_plugin(seat.project, seat.host, names, sglang_path=path, draft=drafts)
    wanted = f"patches=[{','.join(names)}]" if len(names) > 1 else f"patches={names[0]}"
    sets = "" if profile and tuple(names) == profile.patches else f" --set {shlex.quote(wanted)}"
    launch = seat.line(f"launch --profile {profile.name if profile else 'NAME'}{sets} --via plugin")
    return answers.fits_as_plugin(seen, seat.host.label, launch)


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
