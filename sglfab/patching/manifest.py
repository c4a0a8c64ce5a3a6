"""The manifest of a patched install: what was applied to which file, from which hash to which."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from sglfab.errors import PatchError
from sglfab.model import Json

SCHEMA = 1
APPLYING, APPLIED, REMOVING = (
    "applying",
    "applied",
    "removing",
)  # the first and the last two are what a killed call leaves


@dataclass(frozen=True)
class Entry:
    path: str  # relative to sglang/
    original_sha256: str
    patched_sha256: str


@dataclass(frozen=True)
class Manifest:
    """applied_wall: unix time of the host; None before it was written. absent: taps that this release does not have."""

    state: str
    set_name: str
    release: str
    entries: tuple[Entry, ...]
    absent: tuple[str, ...] = ()
    operator: str = ""
    applied_wall: float | None = None

    def entry(self, path: str) -> Entry | None:
        return next((e for e in self.entries if e.path == path), None)

    @property
    def unfinished(self) -> bool:
        return self.state != APPLIED

    def with_entries(self, entries: tuple[Entry, ...]) -> Manifest:
        return replace(self, entries=entries)

    def to_json(self) -> Json:
        return {
            "schema": SCHEMA,
            "state": self.state,
            "set": self.set_name,
            "release": self.release,
            "absent": list(self.absent),
            "operator": self.operator,
            "applied_wall": self.applied_wall,
            "files": [
                {"path": e.path, "original_sha256": e.original_sha256, "patched_sha256": e.patched_sha256}
                for e in self.entries
            ],
        }


def manifest_from_json(shape: Mapping[str, Json] | None) -> Manifest | None:
    """The manifest that the host has, None for none. Raises PatchError patch-manifest-unreadable."""
    if shape is None:
        return None
    try:
        return Manifest(
            state=shape["state"],
            set_name=shape["set"],
            release=shape["release"],
            entries=tuple(Entry(f["path"], f["original_sha256"], f["patched_sha256"]) for f in shape["files"]),
            absent=tuple(shape.get("absent", ())),
            operator=shape.get("operator", ""),
            applied_wall=shape.get("applied_wall"),
        )
    except (KeyError, TypeError, AttributeError):
        raise PatchError(
            "patch-manifest-unreadable",
            "the manifest of the patch is of another version of sglfab, or damaged",
            where="patches/ in the state folder of the host",
            try_="unpatch with that version, or reinstall SGLang and remove the manifest",
        ) from None
