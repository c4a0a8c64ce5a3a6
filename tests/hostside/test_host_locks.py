"""One holder per port and per install, named to whoever comes second; a dead holder holds nothing."""

import json
import os
import stat

import pytest

WHO = {"operator": "ann", "laptop": "lap", "what": "launch of demo"}


def is_held(event):
    return "held" in event


def test_the_second_taker_learns_who_holds_it(host):
    with host.open("hold-locks", port=31000, install="/opt/x", **WHO) as first:
        first.until(is_held)
        _, error, _ = host.call("hold-locks", port=31000, install=None, operator="bob", laptop="b", what="stop")
    assert (error["code"], error["exit"]) == ("locked", 9)
    assert "ann (lap)" in error["what"]
    assert "launch of demo" in error["what"]
    assert str(first.process.pid) in error["where"]


FREE = [
    pytest.param({"port": 31001, "install": None}, id="another port"),
    pytest.param({"port": None, "install": "/opt/y"}, id="another install"),
    pytest.param({"port": None, "install": None}, id="nothing at all"),
]


@pytest.mark.parametrize("wanted", FREE)
def test_others_are_not_in_the_way(host, wanted):
    with host.open("hold-locks", port=31000, install="/opt/x", **WHO) as first:
        first.until(is_held)
        with host.open("hold-locks", **wanted, **WHO) as second:
            second.until(is_held)


def test_a_lock_ends_with_its_pipe(host):
    with host.open("hold-locks", port=31000, install=None, **WHO) as first:
        first.until(is_held)
        first.close()
        assert first.finish().reply == {"released": True}
    with host.open("hold-locks", port=31000, install=None, **WHO) as second:
        second.until(is_held)


def test_a_killed_holder_holds_nothing(host):
    with host.open("hold-locks", port=31000, install=None, **WHO) as first:
        first.until(is_held)
        first.process.kill()
        first.process.wait()
        assert host.ok("check", port=31000, paths=[])["locks"] == []
        with host.open("hold-locks", port=31000, install=None, **WHO) as second:
            second.until(is_held)


def test_a_failed_taker_keeps_none_of_its_locks(host):
    with host.open("hold-locks", port=31000, install=None, **WHO) as first:
        first.until(is_held)
        host.call("hold-locks", port=31000, install="/opt/x", **WHO)
        with host.open("hold-locks", port=None, install="/opt/x", **WHO) as other:
            other.until(is_held)


STALE = [
    pytest.param({"pid": 2**22 + 1, "start": 5}, id="a pid that is gone"),
    pytest.param({"pid": 1, "start": 5}, id="a pid that is somebody else now"),
    pytest.param({"pid": os.getpid(), "start": 0, "boot_id": "another boot"}, id="a boot that is over"),
    pytest.param(None, id="half a record"),
]


@pytest.mark.parametrize("record", STALE)
def test_what_a_dead_holder_left_is_no_lock(host, record):
    folder = host.tmp / "locks"
    folder.mkdir()
    text = json.dumps({**WHO, "since": 1.0, **record}) if record else '{"operator": "a'
    (folder / "port-31000.json").write_text(text)
    assert host.ok("check", port=31000, paths=[])["locks"] == []
    with host.open("hold-locks", port=31000, install=None, **WHO) as taker:
        taker.until(is_held)


def test_of_many_at_once_one_wins(host):
    takers = [
        host.open("hold-locks", port=31000, install="/opt/x", operator=f"op{n}", laptop="l", what="w") for n in range(8)
    ]
    try:
        firsts = [taker.next() for taker in takers]
    finally:
        for taker in takers:
            taker.close()
            taker.process.wait(20)
    winners = [m["event"] for m in firsts if "event" in m]
    losers = [m["error"]["code"] for m in firsts if "error" in m]
    assert len(winners) == 1
    assert losers == ["locked"] * 7


def test_every_user_of_the_host_can_lock(host):
    with host.open("hold-locks", port=31000, install=None, **WHO) as first:
        first.until(is_held)
        assert stat.S_IMODE(os.stat(host.tmp / "locks").st_mode) == 0o1777
        assert stat.S_IMODE(os.stat(host.tmp / "locks" / "port-31000.json").st_mode) == 0o666
        held = host.ok("check", port=31000, paths=[])["locks"]
    assert [(lock["name"], lock["operator"]) for lock in held] == [("port-31000", "ann")]


def test_a_link_in_place_of_a_lock_is_not_followed(host, tmp_path):
    folder = tmp_path / "locks"
    folder.mkdir()
    (tmp_path / "precious").write_text("keep me")
    (folder / "port-31000.json").symlink_to(tmp_path / "precious")
    assert host.call("hold-locks", port=31000, install=None, **WHO)[1]["code"] == "lock-unusable"
    assert (tmp_path / "precious").read_text() == "keep me"


def test_only_the_locks_in_question_are_told(host):
    with host.open("hold-locks", port=31000, install="/opt/x", **WHO) as first:
        first.until(is_held)
        assert host.ok("check", port=31001, paths=[])["locks"] == []
        assert len(host.ok("check", port=31001, install="/opt/x", paths=[])["locks"]) == 1
