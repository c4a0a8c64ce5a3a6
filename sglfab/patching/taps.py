"""Patch sets as records: which method to wrap, and what of its call to record."""

from __future__ import annotations

from dataclasses import dataclass

from sglfab.model import Json

TARGET, DRAFT, ENCLOSING = "target", "draft", "enclosing"
ROLES = (TARGET, DRAFT, ENCLOSING)
VERBS = ("len", "ends", "list", "shape", "argmax")


@dataclass(frozen=True)
class TensorRule:
    """Statistics of the tensor (or of each tensor of the list) at `path`.

    rows: one fingerprint a row, up to so many. split: path of a list: a packed tensor is cut into as many pieces.
    """

    name: str
    path: str
    rows: int = 0
    split: str = ""

    def to_json(self) -> Json:
        shape: Json = {"name": self.name, "path": self.path}
        shape |= {"rows": self.rows} if self.rows else {}
        return shape | ({"split": self.split} if self.split else {})


@dataclass(frozen=True)
class ValueRule:
    """A small value at `path`, as it is or through `verb` (one of VERBS)."""

    name: str
    path: str
    verb: str = ""

    def to_json(self) -> Json:
        return {"name": self.name, "path": self.path, **({"as": self.verb} if self.verb else {})}


@dataclass(frozen=True)
class Tap:
    """One wrapped method. The fields are explained in configs/patches/eagle3-hidden-states.yaml."""

    tap: str
    module: str
    object: str
    role: str
    encloses: bool = False
    inherited: bool = False
    required: bool = False
    mode: str = ""
    when: tuple[str, ...] = ()
    every: int = 1
    max_records: int = 0  # 0: no limit but the size of the trace
    tensors: tuple[TensorRule, ...] = ()
    values: tuple[ValueRule, ...] = ()

    def to_json(self) -> Json:
        """What the probe needs, without what is at its default."""
        shape: Json = {"tap": self.tap, "object": self.object, "role": self.role}
        shape |= {"encloses": True} if self.encloses else {}
        shape |= {"mode": self.mode} if self.mode else {}
        shape |= {"when": list(self.when)} if self.when else {}
        shape |= {"every": self.every} if self.every > 1 else {}
        shape |= {"max_records": self.max_records} if self.max_records else {}
        shape |= {"tensors": [rule.to_json() for rule in self.tensors]} if self.tensors else {}
        shape |= {"values": [rule.to_json() for rule in self.values]} if self.values else {}
        return shape


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


def combine(sets: tuple[PatchSet, ...]) -> PatchSet:
    """Several sets as one, so that a file never carries two footers: names joined by `+`, taps in order."""
    if len(sets) == 1:
        return sets[0]
    return PatchSet(
        name="+".join(s.name for s in sets),
        description="; ".join(s.description for s in sets),
        taps=tuple(tap for s in sets for tap in s.taps),
        max_mb=max(s.max_mb for s in sets),
    )
