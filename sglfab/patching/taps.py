"""Patch sets as records: which method to wrap, and what of its call to record."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from sglfab.errors import InputError
from sglfab.model import Json
from sglfab.sglang.releases import parse

TARGET, DRAFT, ENCLOSING = "target", "draft", "enclosing"
ROLES = (TARGET, DRAFT, ENCLOSING)
VERBS = ("len", "ends", "list", "shape", "argmax")
BEFORE, AFTER = "before", "after"
PLACES = (BEFORE, AFTER)


@dataclass(frozen=True)
class TensorRule:
    """Statistics of the tensor (or of each tensor of the list) at `path`.

    rows: one fingerprint a row, up to so many. split: path of a list: a packed tensor is cut into as many pieces.
    sample_rows: statistics of so many rows instead of all, 0: of all.
    """

    name: str
    path: str
    rows: int = 0
    split: str = ""
    sample_rows: int = 0

    def to_json(self) -> Json:
        shape: Json = {"name": self.name, "path": self.path}
        shape |= {"rows": self.rows} if self.rows else {}
        shape |= {"sample_rows": self.sample_rows} if self.sample_rows else {}
        return shape | ({"split": self.split} if self.split else {})


@dataclass(frozen=True)
class ValueRule:
    """A small value at `path`, as it is or through `verb` (one of VERBS); several of one name are alternatives."""

    name: str
    path: str
    verb: str = ""

    def to_json(self) -> Json:
        return {"name": self.name, "path": self.path, **({"as": self.verb} if self.verb else {})}


@dataclass(frozen=True)
class Insert:
    """A line of ours before or after (`place`) the one statement of the method that has the shape of `anchor`."""

    place: str
    anchor: str


@dataclass(frozen=True)
class Tap:
    """One wrapped method, or one line put into it. The fields are explained in docs/patch-sets.md."""

    tap: str
    module: str
    object: str
    role: str
    insert: Insert | None = None
    encloses: bool = False
    inherited: bool = False
    required: bool = False
    since: str = ""
    until: str = ""
    draft: tuple[str, ...] = ()
    mode: str = ""
    weights: str = ""
    graph_safe: bool = False
    when: tuple[str, ...] = ()
    every: int = 1
    max_records: int = 0  # 0: no limit but the size of the trace
    tensors: tuple[TensorRule, ...] = ()
    values: tuple[ValueRule, ...] = ()

    @property
    def rules(self) -> tuple[TensorRule | ValueRule, ...]:
        return (*self.tensors, *self.values)

    def to_json(self) -> Json:
        """What the probe needs, without what is at its default."""
        shape: Json = {"tap": self.tap}
        shape |= {"insert": True} if self.insert else {"object": self.object}
        shape |= {"role": self.role}
        shape |= {"encloses": True} if self.encloses else {}
        shape |= {"mode": self.mode} if self.mode else {}
        shape |= {"weights": self.weights} if self.weights else {}
        shape |= {"graph_safe": True} if self.graph_safe else {}
        shape |= {"when": list(self.when)} if self.when else {}
        shape |= {"every": self.every} if self.every > 1 else {}
        shape |= {"max_records": self.max_records} if self.max_records else {}
        shape |= {"tensors": [rule.to_json() for rule in self.tensors]} if self.tensors else {}
        shape |= {"values": [rule.to_json() for rule in self.values]} if self.values else {}
        return shape

    def belongs_to(self, release: str) -> bool:
        """Whether a release without it is refused. One that tells no number of its own may be any."""
        if not (self.since or self.until):
            return self.required
        try:
            number = parse(release)
        except InputError:
            return True
        if number.base_version == "0.0.0":  # what SGLang calls itself when it was built without its git history
            return True
        return not (self.since and number < parse(self.since)) and not (self.until and number >= parse(self.until))

    @property
    def span(self) -> str:
        """The releases that have it, in words; empty: it is not said."""
        return " ".join([f"from {self.since}"] * bool(self.since) + [f"before {self.until}"] * bool(self.until))


@dataclass(frozen=True)
class PatchSet:
    """Named taps, in order. `max_mb`: of trace per tp_rank."""

    name: str
    description: str
    taps: tuple[Tap, ...]
    max_mb: int = 256

    @property
    def modules(self) -> tuple[str, ...]:
        """The files that it touches, relative to sglang/, in order of appearance."""
        return tuple(dict.fromkeys(tap.module for tap in self.taps))

    def taps_of(self, module: str) -> tuple[Tap, ...]:
        return tuple(tap for tap in self.taps if tap.module == module)

    def knows(self, architectures: Sequence[str]) -> bool:
        """Whether a tap sits in the class that runs a draft of these `architectures` (of its config.json)."""
        return any(tap.object.partition(".")[0] in architectures for tap in self.taps)

    def for_draft(self, architectures: Sequence[str]) -> PatchSet:
        """The set without the taps that only other drafts ask for. Empty: the draft is not known."""
        return replace(self, taps=tuple(t for t in self.taps if not t.draft or set(t.draft) & set(architectures)))


def combine(sets: tuple[PatchSet, ...]) -> PatchSet:
    """Several sets as one, so that a file never carries two footers: names joined by `+`, taps in order.

    A forward that two sets enclose is counted once. Raises InputError patch-sets-clash for two taps of one name.
    """
    if len(sets) == 1:
        return sets[0]
    return PatchSet(
        name="+".join(s.name for s in sets),
        description="; ".join(s.description for s in sets),
        taps=tuple(_once([(s.name, tap) for s in sets for tap in s.taps])),
        max_mb=max(s.max_mb for s in sets),
    )


def _once(named: Sequence[tuple[str, Tap]]) -> Iterator[Tap]:
    owners: dict[str, str] = {}
    enclosed: set[tuple[str, str]] = set()
    for name, tap in named:
        if tap.tap in owners:
            what = f"the patch sets {owners[tap.tap]} and {name} both have a tap named {tap.tap}"
            raise InputError("patch-sets-clash", what, where="--patches", try_="rename it in one of them")
        owners[tap.tap] = name
        place = (tap.module, tap.object)
        yield replace(tap, encloses=tap.encloses and place not in enclosed)
        enclosed |= {place} if tap.encloses else set()
