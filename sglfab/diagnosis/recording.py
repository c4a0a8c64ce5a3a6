"""The record of waits, watch.jsonl: what its lines say, and which of them reached the waiting operator.

A wait is one `wait` line for each of its connections, with what it expected, and the observations of each. A lost
connection may leave lines that the operator never got; the `wait` line of the next connection says how many he had.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from sglfab.diagnosis.expectation import Expectation, expectation_from_json
from sglfab.model import Json, Observation

SCHEMA = 1
KIND = "wait"


def opening(wait: str, expect: Expectation, *, shift_s: float, seen: Sequence[int]) -> dict[str, Json]:
    """The data of a `wait` line.

    wait: its id. shift_s: how long it had lasted when this connection began. seen: of each connection before, how many
    observations reached the operator.
    """
    return {"schema": SCHEMA, "wait": wait, "shift_s": shift_s, "seen": list(seen), "expect": expect.to_json()}


@dataclass(frozen=True)
class Line:
    """One line of a record. number: from 1. watch: the connection that it belongs to."""

    number: int
    watch: str
    seen: Observation


@dataclass
class RecordedWait:
    """One wait. connections: id → its number, from 0; seen: of each but the last, what reached the operator."""

    expect: Expectation
    connections: dict[str, int] = field(default_factory=dict)
    seen: tuple[int, ...] = ()

    def observations(self, lines: Iterable[Line]) -> Iterator[Line]:
        """What the operator was told, in order."""
        count: Counter[str] = Counter()
        for line in lines:
            if line.seen.kind != KIND and line.watch in self.connections:
                count[line.watch] += 1
                if count[line.watch] <= self._reached(line.watch):
                    yield line

    def _reached(self, watch: str) -> float:
        number = self.connections[watch]
        return self.seen[number] if number < len(self.seen) else math.inf


@dataclass
class Contents:
    """What a record holds. waits: in the order in which they began. unreadable, foreign: numbers of lines."""

    waits: dict[str, RecordedWait] = field(default_factory=dict)
    unreadable: list[int] = field(default_factory=list)
    foreign: list[int] = field(default_factory=list)  # `wait` lines of another version
    lines: int = 0

    def take(self, number: int, text: bytes) -> None:
        self.lines = number
        try:
            line = parsed(number, text)
        except ValueError:
            self.unreadable.append(number)
            return
        if line.seen.kind == KIND:
            self._wait(line)

    def _wait(self, line: Line) -> None:
        data = line.seen.data
        try:
            if data["schema"] != SCHEMA:
                raise ValueError(data["schema"])
            wait = self.waits.setdefault(str(data["wait"]), RecordedWait(expectation_from_json(data["expect"])))
            wait.seen = tuple(int(count) for count in data["seen"])
            wait.connections[line.watch] = len(wait.seen)
        except (KeyError, TypeError, ValueError, AttributeError):
            self.foreign.append(line.number)


def contents(lines: Iterable[bytes]) -> Contents:
    """One pass over a record, without its observations. A file that does not begin as a record is not read on."""
    found = Contents()
    for number, text in enumerate(lines, start=1):
        found.take(number, text)
        if found.unreadable == [1]:
            break
    return found


def readable(lines: Iterable[bytes]) -> Iterator[Line]:
    """Every line that can be read; `contents` names the others."""
    for number, text in enumerate(lines, start=1):
        try:
            yield parsed(number, text)
        except ValueError:
            continue


def parsed(number: int, text: bytes) -> Line:
    """One line of a record. Raises ValueError for anything else."""
    try:
        shape = json.loads(text)
    except RecursionError:  # nested a thousand deep: nothing of ours
        raise ValueError("not an observation") from None
    if not isinstance(shape, Mapping):
        raise ValueError("not an object")
    t, kind, data, watch = (shape.get(name) for name in ("t", "kind", "data", "watch"))
    if isinstance(t, bool) or not isinstance(t, (int, float)) or not math.isfinite(t):
        raise ValueError("no time")
    if not (isinstance(kind, str) and isinstance(data, Mapping) and isinstance(watch, str)):
        raise ValueError("no observation")
    return Line(number, watch, Observation(float(t), kind, data))
