"""The installed SGLang and our patches in it."""

from __future__ import annotations

from .edge import open_desk, verb

_PATCHES = {
    "patches": "the patch set (default eagle3-hidden-states)",
    "profile": "take the python and hosts of this profile",
}


@verb(
    help={**_PATCHES, "draft": "the draft's folder: its config.json says which file runs it (default: the profile's)"}
)
def patch_debug(
    c,
    patches="eagle3-hidden-states",
    profile=None,
    draft=None,
    sglang_path=None,
    via="file",
    dry_run=False,
    json=False,
    configs=None,
):
    """Put debug taps into the installed SGLang; inert until a launch uses them. Several hosts: all or none."""
    from .acts import installs

    desk = open_desk(c, json=json, configs=configs, dry_run=dry_run)
    wanted = desk.load(profile) if profile else None
    names = patches.split(",")
    if desk.way(via) == "plugin":
        desk.each_host(lambda seat: installs.as_plugin(seat, names, sglang_path, wanted, draft), wanted)
    else:
        desk.all_hosts(lambda seats: installs.patch(seats, names, sglang_path, wanted, draft), wanted)


@verb(help=_PATCHES)
def unpatch_debug(c, profile=None, sglang_path=None, dry_run=False, json=False, configs=None):
    """Take the debug taps out again, byte for byte."""
    from .acts import installs

    desk = open_desk(c, json=json, configs=configs, dry_run=dry_run)
    wanted = desk.load(profile) if profile else None
    desk.each_host(lambda seat: installs.unpatch(seat, installs.site(seat, sglang_path, wanted)), wanted)


@verb(help=_PATCHES)
def patch_status(c, profile=None, sglang_path=None, json=False, configs=None):
    """Tell pristine, ours or foreign, and whether the running server has the taps."""
    from .acts import installs

    desk = open_desk(c, json=json, configs=configs)
    wanted = desk.load(profile) if profile else None
    desk.each_host(lambda seat: installs.patch_status(seat, installs.site(seat, sglang_path, wanted)), wanted)


@verb(
    help={
        "patches": "the patch set (default eagle3-hidden-states), ours or your own",
        "release": "check against this release; its wheel is fetched by pip, once (default: the installed SGLang)",
        "sglang-path": "check against this folder: it holds sglang/, an install or an unpacked wheel",
    }
)
def patch_check(c, patches="eagle3-hidden-states", release=None, sglang_path=None, json=False, configs=None):
    """Check a patch set against a release: which taps fit, which it does not have, which are refused."""
    from .acts import installs

    desk = open_desk(c, json=json, configs=configs)
    names = patches.split(",")
    if release:
        desk.say(installs.check_release(desk, names, release, sglang_path))
    else:
        desk.each_host(lambda seat: installs.check_install(seat, names, sglang_path))
