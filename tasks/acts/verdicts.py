"""Waiting for a server, reading a log, explaining a finding."""

from __future__ import annotations

import os
import sys
from dataclasses import replace

from sglfab.diagnosis import catalogue
from sglfab.diagnosis.catalogue import Catalogue
from sglfab.errors import InputError
from sglfab.flows import history, judging, replaying
from sglfab.flows import runs as run_flow
from sglfab.flows.events import Said
from sglfab.flows.foreign import Foreign, completed
from sglfab.flows.runs import Wanted
from sglfab.flows.wait import Interrupted
from sglfab.model import Verdict, WaitSettings
from sglfab.report.secret_forms import written_forms
from sglfab.transports.host import Host
from sglfab.transports.local import LocalTransport

from .. import commandline
from ..answers import verdicts as answers
from ..desk import Answer, Desk, Seat
from .life import ask, hide_secrets_of


def wait_run(seat: Seat, wanted: Wanted, *, deadline_s: float | None) -> Answer:
    runs = run_flow.all_runs(seat.host)
    run = run_flow.pick(runs, wanted, where=seat.host.label, dead_ok=True)
    if seat.desk.dry:
        return answers.dry_wait(run["id"], seat.host.label)
    hide_secrets_of(seat, run)
    key = judging.api_key(run, os.environ, seat.report)
    seat.desk.hide((key,) if key else ())
    try:
        verdict = judging.wait_for_run(
            seat.host,
            run,
            catalogue.load(seat.project),
            api_key=key,
            hide=_hidden(seat.desk),
            deadline_s=deadline_s,
            former=history.former(run, runs),
            report=seat.report,
            clock=seat.desk.clock,
        )
    except Interrupted as stopped:
        return answers.interrupted(seat, stopped.verdict, f"wait-health --run {run['id']}")
    answer = answers.verdict(seat, verdict, log=run.get("log"), changed=history.changed(run, runs))
    return replace(answer, after=lambda: history.keep(seat.host, run["id"], verdict, seat.report))


def wait_foreign(seat: Seat, foreign: Foreign, *, adopt: bool, yes: bool, deadline_s: float | None) -> Answer:
    if adopt and foreign.pid is None:
        what = "--adopt takes the server that --pid names"
        raise InputError("adopt-needs-pid", what, where="--adopt", try_="--pid PID")
    if foreign.url and seat.host.label != commandline.LOCAL:
        seat.report(Said(f"--url is asked from this machine, not from {seat.host.label}", "warning"))
    verb = "adopt" if adopt else "judge"
    if foreign.pid is not None:
        seen = seat.host.call("inspect-pid", {"pid": foreign.pid})
        if not seat.desk.dry:
            cmdline = seat.desk.redactor.text(seen["cmdline"])
            ask(f"{verb} pid {foreign.pid} of {seen['user']}", cmdline, yes=yes)
        foreign = completed(foreign, seen)
    if seat.desk.dry:
        return answers.dry_wait(f"{'(and adopt) ' if adopt else ''}{foreign}", seat.host.label)
    if adopt:
        return _adopt(seat, foreign, deadline_s)
    return _judge(seat, foreign, WaitSettings(deadline_s=deadline_s), confirmed=" --yes" if yes else "")


def _hidden(desk: Desk) -> list[str]:
    """What stays out of a record."""
    return sorted(form for value in desk.hidden for form in written_forms(value))


def _judge(seat: Seat, foreign: Foreign, settings: WaitSettings, *, confirmed: str) -> Answer:
    key = os.environ.get(judging.FOREIGN_KEY)
    seat.desk.hide((key,) if key else ())
    watched = replace(seat, host=_here(seat.host)) if foreign.by_url_alone else seat
    records: list[str] = []

    def noted(verdict: Verdict) -> Verdict:
        lines = (f"recorded: {watched.line(f'diagnose --replay {record}')}" for record in records[-1:])
        return replace(verdict, notes=(*verdict.notes, *lines))

    try:
        verdict = judging.wait_for_foreign(
            watched.host,
            foreign,
            catalogue.load(seat.project),
            settings=settings,
            api_key=key,
            hide=_hidden(seat.desk),
            report=seat.report,
            clock=seat.desk.clock,
            recorded=records.append,
        )
    except Interrupted as stopped:
        return answers.interrupted(seat, noted(stopped.verdict), f"wait-health {foreign}{confirmed}")
    return answers.verdict(seat, noted(verdict), log=foreign.log)


def _here(host: Host) -> Host:
    """This machine, reached with the Python that runs us: a URL alone was never in need of another."""
    state_dir = host.state_dir if host.label == commandline.LOCAL else None
    return Host(LocalTransport(), python=sys.executable, state_dir=state_dir)


def _adopt(seat: Seat, foreign: Foreign, deadline_s: float | None) -> Answer:
    who = seat.desk.operator
    request = {"pid": foreign.pid, "profile": "adopted", "operator": who.name, "laptop": who.laptop, "log": foreign.log}
    run = seat.host.call("adopt", request)["run"]
    return wait_run(seat, Wanted(run=run["id"]), deadline_s=deadline_s)


def diagnose(desk: Desk, *, log: str | None, replay: str | None, at: str | None) -> None:
    if bool(log) == bool(replay):
        what = "--log and --replay are two ways: say one" if log else "which log, or which recorded wait?"
        try_ = "fab diagnose --log FILE, or fab diagnose --replay RUN"
        raise InputError("two-sources" if log else "no-log", what, where="--log", try_=try_)
    if at is not None and not replay:
        raise InputError("at-needs-replay", "--at is a moment of a recorded wait", where="--at", try_="--replay RUN")
    known = catalogue.load(desk.project)
    if replay:
        _replay(desk, known, replay, desk.seconds(at, "--at", zero=True))
    elif commandline.cli_hosts(desk.c):
        desk.each_host(lambda seat: answers.verdict(seat, judging.diagnose_file(known, log, seat.host), log=log))
    else:
        desk.say(answers.offline_verdict(desk, judging.diagnose_file(known, log, None), log=log))


def _replay(desk: Desk, known: Catalogue, word: str, at_s: float | None) -> None:
    record = None if commandline.cli_hosts(desk.c) else replaying.local_record(word)
    if record:
        desk.say(answers.offline_verdict(desk, replaying.judged_again(known, record, at_s=at_s), log=None))
    else:
        desk.each_host(lambda seat: _replay_on(seat, known, word, at_s))


def _replay_on(seat: Seat, known: Catalogue, word: str, at_s: float | None) -> Answer:
    alone = replaying.record_without_run(seat.host, word)
    if alone:
        return answers.verdict(seat, replaying.judged_again(known, alone, at_s=at_s), log=None)
    runs = run_flow.all_runs(seat.host)
    record = replaying.record_of(seat.host, runs, word)
    verdict = replaying.judged_again(known, record, at_s=at_s)
    return answers.verdict(seat, verdict, log=record.run.get("log"), changed=history.changed(record.run, runs))


def explain(desk: Desk, code: str | None) -> None:
    if not code:
        raise InputError("no-code", "which finding?", where="--code", try_="fab explain memory.kv_pool")
    desk.say(answers.page(code, catalogue.page(catalogue.load(desk.project), code)))
