"""A host that says what a script tells it to, and a clock that only moves when somebody sleeps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

Json = Any


class StillClock:
    def __init__(self) -> None:
        self.now = 100.0

    def now_s(self) -> float:
        return self.now

    def wall_s(self) -> float:
        return 1_800_000_000.0 + self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@dataclass
class ScriptedStream(Iterator[Json]):
    events: Iterator[Json]
    asked: list[int]
    told: int = 0
    now_s: float = 0.0

    def __next__(self) -> Json:
        event = next(self.events)
        self.told += 1
        self.now_s = event["t"]
        return event

    def ask(self, what: str) -> None:
        assert what == "stacks"
        self.asked.append(self.told)

    def tell(self, kind: str, data: Json) -> None:
        """As a host does: it is the next event, at the time of the one before."""
        back = {"t": self.now_s, "kind": kind, "data": data}
        self.events = chain([back], self.events)


@dataclass
class ScriptedHost:
    """watches: for each `watch` in turn the events, at the end of which an exception is raised if it is one.

    reconnects: what each reconnect does in turn: an exception, or None for success; the last one repeats.
    """

    watches: list[Sequence[Json]]
    reconnects: list[Exception | None] = field(default_factory=lambda: [None])
    asked: list[Mapping[str, Json]] = field(default_factory=list)
    stacks_asked: list[int] = field(default_factory=list)  # after how many events of a stream
    reconnected: int = 0
    label: str = "gpu1"

    @contextmanager
    def stream(self, op: str, request: Mapping[str, Json], *, idle_s: float) -> Iterator[ScriptedStream]:
        assert op == "watch"
        self.asked.append(request)
        yield ScriptedStream(self._events(self.watches.pop(0)), self.stacks_asked)

    def _events(self, script: Sequence[Json]) -> Iterator[Json]:
        for step in script:
            if isinstance(step, BaseException):
                raise step
            yield step

    def reconnect(self) -> None:
        self.reconnected += 1
        does = self.reconnects[min(self.reconnected, len(self.reconnects)) - 1]
        if does is not None:
            raise does
