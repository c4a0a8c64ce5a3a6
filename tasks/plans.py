"""Profiles and what becomes of them."""

from __future__ import annotations

from .edge import open_desk, verb


@verb()
def profiles(c, json=False, configs=None):
    """List the profiles, yours first."""
    from sglfab import profiles as core

    from .answers import plans as answers

    desk = open_desk(c, json=json, configs=configs)
    desk.say(answers.profiles(core.summaries(desk.project)))


@verb(iterable=["set"], optional=["set"])
def render(c, profile=None, set=None, release=None, json=False, configs=None):
    """Show the exact command of a profile, and where every value came from."""
    from .acts import plans

    desk = open_desk(c, json=json, configs=configs)
    wanted = desk.load(profile, set)
    desk.each_host(lambda seat: plans.render(seat, wanted, release), wanted)


@verb(iterable=["set"], optional=["set"])
def preflight(c, profile=None, set=None, takeover=False, json=False, configs=None):
    """Check everything that could fail a launch later; nothing is stopped."""
    from .acts import plans

    desk = open_desk(c, json=json, configs=configs)
    wanted = desk.load(profile, set)
    desk.each_host(lambda seat: plans.preflight(seat, wanted, takeover=takeover), wanted)
