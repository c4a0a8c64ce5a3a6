"""A wait outlives its connection: it goes on where the log ended, and gives up only after reconnect_s."""

from __future__ import annotations

from pathlib import Path

import pytest
from scripted_host import ScriptedHost, StillClock

from sglfab.diagnosis import catalogue
from sglfab.diagnosis.judge import Judge
from sglfab.errors import InputError, UnreachableError
from sglfab.flows.events import Said
from sglfab.flows.wait import Interrupted, wait
from sglfab.project import Project
from sglfab.transports.base import ChannelIdle, ChannelLost

KNOWN = catalogue.load(Project(Path(__file__).resolve().parents[2]))
LOST = ChannelLost("broken pipe")
REFUSED = UnreachableError("connection-refused", "nobody there")


def event(t, kind, **data):
    return {"t": t, "kind": kind, "data": data}


START = event(
    0.0, "start", wall=1.0, run="r", started_wall=1.0, main=7, port=1, tp_size=1, patches=[], profile="p", log="l"
)
LOG = event(0.1, "log", offset=0, data="Größe\n")
READY = (
    event(0.2, "http", what="health", state="200", status=200, ms=1, detail="", ours=True),
    event(0.3, "http", what="generate", state="200", status=200, ms=1, detail="", ours=True, body={}),
)


def waited(host, *, reconnect_s=30.0, said=None):
    told = said if said is not None else []
    return wait(host, {"from_offset": 0}, Judge(KNOWN), reconnect_s=reconnect_s, report=told.append, clock=StillClock())


@pytest.mark.parametrize(
    "loss", [LOST, ChannelIdle("20 s of silence"), None], ids=["broken", "silent", "watcher ended"]
)
def test_a_lost_connection_is_taken_up_where_the_log_ended(loss):
    host = ScriptedHost([[START, LOG, *([loss] if loss else [])], [START, *READY]])
    said = []
    assert waited(host, said=said).verdict == "ready"
    assert [request["from_offset"] for request in host.asked] == [0, len("Größe\n".encode())]
    warned = [event for event in said if isinstance(event, Said)]
    assert len(warned) == 1
    assert "the server is untouched" in warned[0].text


def test_a_truncated_log_is_read_from_its_start_again():
    host = ScriptedHost([[START, LOG, event(0.2, "log-reset", reason="truncated"), LOST], [START, *READY]])
    waited(host)
    assert host.asked[1]["from_offset"] == 0


def test_it_tries_until_the_host_is_back():
    host = ScriptedHost([[START, LOST], [START, *READY]], reconnects=[REFUSED, REFUSED, REFUSED, None])
    assert waited(host).verdict == "ready"
    assert host.reconnected == 4


def test_after_reconnect_s_the_host_is_unreachable_and_what_was_known_is_kept():
    host = ScriptedHost([[START, LOG, LOST]], reconnects=[REFUSED])
    verdict = waited(host, reconnect_s=9.0)
    assert verdict.verdict == "unreachable"
    assert any("untouched" in gap for gap in verdict.gaps)
    assert 4 <= host.reconnected <= 6  # one at once, then one every two seconds


def test_a_host_that_answers_but_ends_every_watcher_is_unreachable_too():
    host = ScriptedHost([[] for _ in range(50)])
    assert waited(host, reconnect_s=9.0).verdict == "unreachable"
    assert len(host.watches) > 40


def test_ctrl_c_keeps_what_was_known():
    host = ScriptedHost([[START, LOG, KeyboardInterrupt()]])
    with pytest.raises(Interrupted) as stopped:
        waited(host)
    assert stopped.value.verdict.verdict == "loading"
    assert host.reconnected == 0


def test_an_error_of_the_host_is_no_lost_connection():
    host = ScriptedHost([[START, InputError("log-unreadable", "no")]])
    with pytest.raises(InputError):
        waited(host)
    assert host.reconnected == 0


MAIN = {"pid": 7, "start": 1, "role": "main", "title": "python", "state": "S", "cpu_s": 1.0, "read_kb": 0}
ALIVE = event(0.2, "processes", alive=[MAIN], gone=[])


def test_the_host_is_asked_for_stacks_once_while_nothing_moves_whatever_the_connection_does():
    quiet = [event(t, "tick") for t in (200.0, 301.0, 302.0)]
    host = ScriptedHost([[START, LOG, ALIVE, *quiet, LOST], [START, ALIVE, event(1.0, "tick"), *READY]])
    waited(host)
    assert host.stacks_asked == [5]


def test_a_new_connection_goes_on_with_the_record_that_the_host_named():
    named = {**START, "data": {**START["data"], "record": "20260101-000000-abcd"}}
    host = ScriptedHost([[LOST], [named, LOST], [named, *READY]])
    told = []
    judge = Judge(KNOWN)
    wait(host, {"record": True}, judge, reconnect_s=30.0, report=print, clock=StillClock(), recorded=told.append)
    assert [request["record_id"] for request in host.asked] == [None, None, "20260101-000000-abcd"]
    assert set(told) == {"20260101-000000-abcd"}


def test_what_is_seen_from_here_is_judged_when_the_host_hands_it_back():
    host = ScriptedHost([[START, LOG, LOST], [START]])
    looks = iter([[], [], [READY[0]["data"]], [READY[1]["data"]]])
    verdict = wait(
        host,
        {"record": True},
        Judge(KNOWN),
        reconnect_s=30.0,
        report=print,
        clock=StillClock(),
        beside=lambda: iter(next(looks)),
    )
    assert verdict.verdict == "ready"
    assert host.asked[1]["record"]["seen"] == [2]
    assert next(looks, None) is None
