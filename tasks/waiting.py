"""Verdicts: waiting for a server, reading a log, explaining a finding."""

from __future__ import annotations

from .edge import open_desk, verb


@verb(
    help={
        "url": "a server that we did not start, asked from this machine",
        "log": "its log file on the host",
        "adopt": "make the server named by --pid a run of ours",
    }
)
def wait_health(
    c,
    run=None,
    profile=None,
    port=None,
    url=None,
    log=None,
    pid=None,
    adopt=False,
    yes=False,
    deadline=None,
    dry_run=False,
    json=False,
    configs=None,
):
    """Wait until a server serves, reading its log and watching its processes meanwhile."""
    from .acts import verdicts

    desk = open_desk(c, json=json, configs=configs, dry_run=dry_run)
    cap = desk.seconds(deadline)
    foreign = desk.foreign(url=url, log=log, pid=pid, port=port)
    if foreign:
        desk.each_host(lambda seat: verdicts.wait_foreign(seat, foreign, adopt=adopt, yes=yes, deadline_s=cap))
    else:
        wanted = desk.wanted(run, profile, port)
        desk.each_host(lambda seat: verdicts.wait_run(seat, wanted, deadline_s=cap), desk.known(profile))


@verb(
    help={
        "log": "a SGLang log file; - for stdin; with -H it is on the host",
        "replay": "a recorded wait instead: the id of a run or of a wait, or a watch.jsonl (with -H: on the host)",
        "at": "with --replay: what was known so many seconds into the wait",
    }
)
def diagnose(c, log=None, replay=None, at=None, json=False, configs=None):
    """Read a server log, or a recorded wait, and name the first cause."""
    from .acts import verdicts

    verdicts.diagnose(open_desk(c, json=json, configs=configs), log=log, replay=replay, at=at)


@verb(positional=["code"], help={"code": "the id of a finding, as a verdict prints it"})
def explain(c, code, json=False, configs=None):
    """Show the catalogue page of a finding."""
    from .acts import verdicts

    verdicts.explain(open_desk(c, json=json, configs=configs), code)
