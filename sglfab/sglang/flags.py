"""The launch flags of SGLang by release, read from configs/sglang/flags.json (written by tools/flags_extract.py)."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass

from sglfab.errors import InputError
from sglfab.model import Json
from sglfab.project import Project
from sglfab.sglang.releases import Basis, basis


@dataclass(frozen=True)
class Flag:
    """A flag as one span of releases declares it.

    kind: switch, boolean (`--x` and `--no-x`), value, list (several words after one flag) or append (the flag again
    for each). type: str, int, float, size (4096 or 4k) or json. nargs `?`: the value may be left out.
    use: what SGLang says to use instead. refused: SGLang stops when it sees the flag.
    """

    name: str
    since: str
    until: str
    kind: str
    type: str = "str"
    nargs: str | None = None
    aliases: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    deprecated: bool = False
    refused: bool = False
    use: str = ""
    spelled: str = ""  # the name in that release, where it differs from ours

    @property
    def option(self) -> str:
        return "--" + (self.spelled or self.name)


@dataclass(frozen=True)
class Ambiguous:
    """A shortened flag that could be any of `candidates`."""

    candidates: tuple[str, ...]


@dataclass(frozen=True)
class FlagList:
    """The flags that one release accepts. basis says which release they were read from."""

    basis: Basis
    flags: Mapping[str, Flag]

    def nearest(self, name: str) -> tuple[str, ...]:
        """At most three known flags that look like `name`, the likest first."""
        return nearest(name, {spelling: f.name for f in self.flags.values() for spelling in (f.name, *f.aliases)})


@dataclass(frozen=True)
class FlagFacts:
    """Every flag of every known release. releases: oldest first."""

    releases: tuple[str, ...]
    spans: Mapping[str, tuple[Flag, ...]]  # canonical name → spans, oldest first

    @property
    def newest(self) -> str:
        return self.releases[-1]

    def at(self, release: str) -> FlagList:
        """The flags of a release, or of the known one that speaks for it. Raises InputError for no release at all."""
        found = basis(release, self.releases)
        here = self.releases.index(found.release)
        flags = {name: flag for name, spans in self.spans.items() if (flag := self._covering(spans, here))}
        return FlagList(found, flags)

    def _covering(self, spans: tuple[Flag, ...], here: int) -> Flag | None:
        return next((s for s in spans if self.releases.index(s.since) <= here <= self.releases.index(s.until)), None)

    def canonical(self, spelling: str) -> str | Ambiguous | None:
        """The canonical name of a flag in any spelling that some release accepts: alias, abbreviation, underscores.

        Dashes in front are taken off. None: no release knows it. An abbreviation is judged by the newest release that
        knows a flag beginning so, as argparse would; underscores are SGLang's field names, which are never short.
        """
        wanted = spelling.lstrip("-")
        dashed = wanted.replace("_", "-")
        if dashed in self.spans:
            return dashed
        names = {alias: s.name for spans in self.spans.values() for s in spans for alias in s.aliases}
        return names.get(dashed) or self._abbreviated(wanted)

    def _abbreviated(self, wanted: str) -> str | Ambiguous | None:
        for release in reversed(self.releases):
            spellings = {n: f.name for f in self.at(release).flags.values() for n in (f.name, *f.aliases)}
            found = tuple(sorted({name for n, name in spellings.items() if wanted and n.startswith(wanted)}))
            if found:
                return found[0] if len(found) == 1 else Ambiguous(found)
        return None

    def known_in(self, name: str) -> str:
        """The releases that accept a flag, in words: `0.5.10–0.5.19`, or `""` where none does."""
        runs: list[tuple[str, str]] = []
        for span in self.spans.get(name, ()):
            here = self.releases.index(span.since)
            joins = bool(runs) and self.releases.index(runs[-1][1]) == here - 1
            runs = [*runs[:-1], (runs[-1][0], span.until)] if joins else [*runs, (span.since, span.until)]
        return ", ".join(a if a == b else f"{a}–{b}" for a, b in runs)

    def successor(self, name: str) -> str:
        """What SGLang told users of a flag to write instead, `""` where it said nothing."""
        return next((s.use for s in reversed(self.spans.get(name, ())) if s.use), "")


def read_flags(project: Project) -> FlagFacts:
    """The facts of the checkout. Raises InputError where the file is missing or broken."""
    facts = project.sglang_facts("flags")
    try:
        spans = {name: tuple(_flag(name, s) for s in spans) for name, spans in facts["flags"].items()}
        return FlagFacts(tuple(facts["releases"]), spans)
    except (KeyError, TypeError, AttributeError):
        raise InputError(
            "flags-unreadable",
            "configs/sglang/flags.json is not what tools/flags_extract.py writes",
            where="configs/sglang/flags.json",
            try_="python tools/flags_extract.py",
        ) from None


def _flag(name: str, span: Mapping[str, Json]) -> Flag:
    facts: dict[str, Json] = {k: tuple(v) if isinstance(v, list) else v for k, v in span.items()}
    return Flag(name=name, since=str(facts.pop("from")), until=str(facts.pop("to")), **facts)


def nearest(name: str, spellings: Mapping[str, str]) -> tuple[str, ...]:
    """At most three flags, the likest first. spellings: every accepted spelling → its flag."""
    wanted = name.replace("_", "-")
    scored = ((_likeness(wanted, spelling), flag) for spelling, flag in spellings.items())
    alike = sorted(((score, flag) for score, flag in scored if score >= ALIKE), reverse=True)
    return tuple(dict.fromkeys(flag for _, flag in alike))[:3]


ALIKE = 0.75


def _likeness(wanted: str, known: str) -> float:
    """0…1; what was cut off at the end counts little: `mem-fractoin` means `mem-fraction-static`."""
    if not wanted or abs(len(wanted) - len(known)) > max(len(wanted), 8):
        return 0.0
    matcher = difflib.SequenceMatcher(b=wanted, autojunk=False)
    best = 0.0
    for weight, text in ((1.0, known), (0.95, known[: len(wanted)])):
        matcher.set_seq1(text)
        if matcher.real_quick_ratio() >= ALIKE and matcher.quick_ratio() >= ALIKE:
            best = max(best, weight * matcher.ratio())
    return best
