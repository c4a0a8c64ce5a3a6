"""Signature: what one kind of trouble looks like in a log, and what to do about it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

KINDS = ("exception", "log", "native", "plain", "kernel", "access", "runtime", "code", "bar")
DEFAULT_KINDS = ("exception", "log", "native", "plain")


@dataclass(frozen=True)
class Pattern:
    """A line that tells. needles: literal text, one of which every match holds (it is looked for first)."""

    needles: tuple[str, ...]
    regex: str | None = None  # None: the needle itself
    kinds: tuple[str, ...] = DEFAULT_KINDS

    @cached_property
    def compiled(self) -> re.Pattern[str]:
        return re.compile(self.regex if self.regex is not None else "|".join(map(re.escape, self.needles)))


@dataclass(frozen=True)
class Conditions:
    """What else must hold. Empty: anything. at_least: how many lines must match."""

    stages: tuple[str, ...] = ()
    draft: bool | None = None
    frames: str | None = None
    not_frames: str | None = None
    also: tuple[Pattern, ...] = ()  # other lines of the same run, each must be there
    unless: tuple[Pattern, ...] = ()  # none may be there
    at_least: int = 1
    ended: bool | None = None  # the run has ended (True) or not (False)


@dataclass(frozen=True)
class Advice:
    """One thing to do, as a template over captures, perhaps only for some stages, releases, or the draft."""

    say: str
    stages: tuple[str, ...] = ()
    draft: bool | None = None
    since: str | None = None
    before: str | None = None


@dataclass(frozen=True)
class Signature:
    """role: cause, or echo (counts when nothing else explains the end). stage: where it shows if frames do not tell.
    transient: a server that goes on afterwards has survived it.
    """

    id: str
    category: str
    title: str
    patterns: tuple[Pattern, ...]
    advice: tuple[Advice, ...]
    severity: str = "fatal"
    confidence: str = "high"
    role: str = "cause"
    stage: str | None = None
    when: Conditions = Conditions()
    yields_to: tuple[str, ...] = ()
    explanation: str = ""
    wrong_when: str = ""
    source: str = ""
    transient: bool = False
    retired: bool = False
    path: str = ""
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # samples and near misses


_OPTIONAL = re.compile(r"\[\[(.*?)\]\]")


class Captures(dict[str, str]):
    """Named groups for templates; what was not captured reads as an ellipsis."""

    def __missing__(self, key: str) -> str:
        return "…"


def fill(template: str, captures: Mapping[str, str]) -> str:
    """A template with its captures. `[[ … {name} … ]]` is left out when a name in it was not captured."""

    def part(found: re.Match[str]) -> str:
        names = re.findall(r"\{(\w+)\}", found[1])
        return found[1] if all(captures.get(name) for name in names) else ""

    return _OPTIONAL.sub(part, template).format_map(Captures(captures))


def shown(template: str) -> str:
    """A template as a page shows it: names in capitals, braces gone."""
    plain = _OPTIONAL.sub(r"\1", template).replace("{{", "\0").replace("}}", "\1")
    return re.sub(r"\{(\w+)\}", lambda m: m[1].upper(), plain).replace("\0", "{").replace("\1", "}")


def release_key(text: str) -> tuple[int, ...]:
    """0.5.12.post1 → (0, 5, 12, 1): comparable releases."""
    return tuple(int(n) for n in re.findall(r"\d+", text))
