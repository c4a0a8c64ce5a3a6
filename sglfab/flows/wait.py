"""Wait for a server: follow the host's observations, fold them into a verdict, outlive lost connections."""

from __future__ import annotations

import secrets as random_source
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from sglfab.diagnosis import recording
from sglfab.diagnosis.judge import Judge
from sglfab.errors import UnreachableError
from sglfab.flows.clock import Clock
from sglfab.flows.events import Report, Said, Watched
from sglfab.model import Json, Observation, Verdict
from sglfab.transports.base import ChannelIdle, ChannelLost
from sglfab.transports.host import Host

IDLE_S = 20.0  # the watcher ticks every second: silence this long is a dead connection
RETRY_S = 2.0


class Interrupted(Exception):
    """Ctrl-C during a wait. The server is untouched; `verdict` is what was known."""

    def __init__(self, verdict: Verdict) -> None:
        super().__init__("interrupted")
        self.verdict = verdict


@dataclass
class _Follow:
    """One wait: where its clock and its log stand, so that a new connection goes on where the old one ended."""

    judge: Judge
    report: Report
    clock: Clock
    recorded: Callable[[str], None]
    name: str = field(default_factory=lambda: random_source.token_hex(4))  # of the wait, in the record
    began: float = field(init=False)
    shift_s: float = 0.0  # how long the wait had lasted when this connection began
    seen: list[int] = field(default_factory=list)  # observations of each connection
    now: float = 0.0
    offset: int | None = None
    record_id: str | None = None  # of a wait without a run, once the host has told it
    lost_s: float | None = None  # when the connection was lost, until something is heard again

    def __post_init__(self) -> None:
        self.began = self.clock.now_s()

    def connect(self, request: Mapping[str, Json]) -> dict[str, Json]:
        """The request of a new connection; the record goes on with it, on the clock that the judge knows."""
        self.shift_s = round(self.clock.now_s() - self.began, 3) if any(self.seen) else 0.0
        opening = recording.opening(self.name, self.judge.expect, shift_s=self.shift_s, seen=self.seen)
        self.seen.append(0)
        offset = self.offset if self.offset is not None else request.get("from_offset", 0)
        record = {"record": opening, "record_id": self.record_id} if request.get("record") else {"record": None}
        return {**request, "from_offset": offset, **record}

    def feed(self, event: Mapping[str, Json]) -> Verdict:
        kind, data = event["kind"], event["data"]
        self.lost_s = None
        self.seen[-1] += 1
        self.now = max(self.now, round(event["t"] + self.shift_s, 3))
        if kind == "start" and data.get("record"):
            self.record_id = data["record"]
            self.recorded(data["record"])
        elif kind == "log":
            self.offset = data["offset"] + len(data["data"].encode("utf-8", "surrogateescape"))
        elif kind == "log-reset":
            self.offset = 0
        self.judge.feed(Observation(self.now, kind, data))
        self.report(Watched(self.judge.view(self.now)))
        return self.judge.verdict(self.now)


def wait(
    host: Host,
    request: Mapping[str, Json],
    judge: Judge,
    *,
    reconnect_s: float,
    report: Report,
    clock: Clock,
    beside: Callable[[], Iterator[Json]] | None = None,
    recorded: Callable[[str], None] = lambda record_id: None,
) -> Verdict:
    """Follow the `watch` operation until the verdict is not `loading`.

    beside: the data of `http` observations of this side (`--url`), asked for at every event. They are judged when the
    host hands them back, so that the record has them in the order in which they were judged.
    recorded: is told the id under which the host records a wait that has no run.
    A lost connection is retried for reconnect_s, then the verdict is `unreachable`. Raises Interrupted on Ctrl-C.
    """
    follow = _Follow(judge, report, clock, recorded)
    try:
        while True:
            try:
                return _follow_once(host, request, follow, beside)
            except (ChannelLost, ChannelIdle) as why:
                report(
                    Said(f"connection to {host.label} lost ({why}); the server is untouched, reconnecting", "warning")
                )
                if not _reconnect(host, follow, reconnect_s):
                    gap = f"{host.label}: no connection for {reconnect_s:.0f} s; the server there is untouched"
                    known = judge.verdict(follow.now)
                    return replace(known, verdict="unreachable", gaps=(*known.gaps, gap))
    except KeyboardInterrupt:
        raise Interrupted(judge.verdict(follow.now)) from None


def _follow_once(
    host: Host, request: Mapping[str, Json], follow: _Follow, beside: Callable[[], Iterator[Json]] | None
) -> Verdict:
    with host.stream("watch", follow.connect(request), idle_s=IDLE_S) as stream:
        for event in stream:
            verdict = follow.feed(event)
            if verdict.verdict != "loading":
                return verdict
            if follow.judge.asks_for_stacks(follow.now):
                stream.ask("stacks")
            for seen in beside() if beside else ():
                stream.tell("http", seen)
    raise ChannelLost("the watcher on the host ended")


def _reconnect(host: Host, follow: _Follow, reconnect_s: float) -> bool:
    """Try, at least once, until reconnect_s after the loss; a host that ends every watcher is as good as lost."""
    again = follow.lost_s is not None
    if follow.lost_s is None:
        follow.lost_s = follow.clock.now_s()
    while True:
        if again:
            follow.clock.sleep(RETRY_S)
        if again and follow.clock.now_s() - follow.lost_s >= reconnect_s:
            return False
        again = True
        try:
            host.reconnect()
            return True
        except UnreachableError:
            continue
