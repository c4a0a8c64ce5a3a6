"""The life of a server."""

from __future__ import annotations

from .edge import open_desk, verb


@verb(
    iterable=["set"],
    optional=["set"],
    help={"no-wait": "return as soon as the server was started"},
)
def launch(
    c,
    profile=None,
    set=None,
    via=None,
    dry_run=False,
    no_wait=False,
    takeover=False,
    deadline=None,
    json=False,
    configs=None,
):
    """Start a profile's server, and wait until it serves or say why it does not."""
    from .acts import starts

    desk = open_desk(c, json=json, configs=configs, dry_run=dry_run)
    wanted = desk.load(profile, set, via=via)
    asked = starts.Asked(wait=not no_wait, takeover=takeover, deadline_s=desk.seconds(deadline))
    desk.each_host(lambda seat: starts.launch(seat, wanted, asked), wanted)


@verb(
    iterable=["set"],
    optional=["set"],
    help={
        "no-wait": "return as soon as the server was started",
        "render": "render the profile anew instead of repeating the recorded plan",
    },
)
def restart(
    c,
    run=None,
    profile=None,
    port=None,
    render=False,
    set=None,
    dry_run=False,
    no_wait=False,
    takeover=False,
    deadline=None,
    json=False,
    configs=None,
):
    """Stop a run and start it again with its recorded plan."""
    from .acts import starts

    desk = open_desk(c, json=json, configs=configs, dry_run=dry_run)
    again = starts.Again(desk.wanted(run, profile, port), render=render, sets=tuple(set or ()))
    asked = starts.Asked(wait=not no_wait, takeover=takeover, deadline_s=desk.seconds(deadline))
    desk.each_host(lambda seat: starts.restart(seat, again, asked), desk.known(profile))


@verb(help={"grace": "seconds between the first SIGTERM and the next step"})
def stop(
    c, run=None, profile=None, port=None, pid=None, yes=False, grace=None, dry_run=False, json=False, configs=None
):
    """Stop a run: drain, then the rest of its session, then confirm."""
    from .acts import life

    desk = open_desk(c, json=json, configs=configs, dry_run=dry_run)
    wanted = desk.wanted(run, profile, port)
    foreign = desk.number(pid, "--pid")
    grace_s = desk.seconds(grace, "--grace")
    desk.each_host(lambda seat: life.stop(seat, wanted, pid=foreign, yes=yes, grace_s=grace_s), desk.known(profile))


@verb()
def status(c, run=None, profile=None, port=None, json=False, configs=None):
    """Show what runs now, and whether it answers."""
    from .acts import life

    desk = open_desk(c, json=json, configs=configs)
    wanted = desk.wanted(run, profile, port)
    desk.each_host(lambda seat: life.status(seat, wanted), desk.known(profile))


@verb(
    help={
        "f": "follow until Ctrl-C",
        "trace": "the debug trace of the patches instead of the log",
        "lines": "how many last lines (default 40)",
    }
)
def logs(c, run=None, profile=None, port=None, f=False, trace=False, lines=None, configs=None):
    """Show the log of a run (or its debug trace), secrets hidden."""
    from .acts import life

    desk = open_desk(c, json=False, configs=configs)
    wanted = desk.wanted(run, profile, port)
    count = desk.number(lines, "--lines") or 40
    desk.each_host(lambda seat: life.logs(seat, wanted, follow=f, trace=trace, lines=count), desk.known(profile))


@verb(
    help={
        "prune": "remove old runs and recorded waits, never a live one",
        "keep": "how many to keep when pruning (default 20)",
    }
)
def runs(c, prune=False, keep=None, dry_run=False, json=False, configs=None):
    """List the recorded runs, or prune them."""
    from .acts import life

    desk = open_desk(c, json=json, configs=configs, dry_run=dry_run)
    kept = 20 if keep is None else desk.number(keep, "--keep", least=0) or 0
    desk.each_host(lambda seat: life.prune(seat, kept) if prune else life.runs(seat))
