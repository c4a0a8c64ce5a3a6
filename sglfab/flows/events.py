"""What flows tell whoever watches them. report/ draws it; flows never know how."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sglfab.model import WatchView


@dataclass(frozen=True)
class Step:
    """A step of a flow. state: begin, done, skipped or failed."""

    name: str
    state: str
    text: str = ""


@dataclass(frozen=True)
class Said:
    """One line for the person. level: info or warning."""

    text: str
    level: str = "info"


@dataclass(frozen=True)
class Watched:
    """A new snapshot of the wait."""

    view: WatchView


Event = Step | Said | Watched
Report = Callable[[Event], None]


def silent(event: Event) -> None:
    """The report of a caller that wants none."""
