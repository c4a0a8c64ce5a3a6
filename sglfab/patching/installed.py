"""An installed file, and the state that it is in: pristine, ours, drifted, foreign or missing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sglfab.model import Json
from sglfab.patching.footer import BrokenFooter, Footer, find
from sglfab.patching.manifest import Entry

PRISTINE, OURS, DRIFTED, FOREIGN, MISSING = "pristine", "ours", "drifted", "foreign", "missing"


@dataclass(frozen=True)
class InstalledFile:
    """What `patch-read` says of one file. text None: not there, or not UTF-8.

    record_sha256: as released, by `record`; None: a source install of which nobody can say it.
    """

    path: str
    text: str | None
    sha256: str | None
    record_sha256: str | None
    mtime: float = 0.0
    writable: bool = True
    read_only: bool = False  # the file system that it lies on
    mode: int = 0o644
    owner: str = ""
    link: str | None = None
    record: str = "the wheel's RECORD"


@dataclass(frozen=True)
class FileState:
    """kind: one of the five words above; detail: why, in one line; footer: where a whole one stands in the file."""

    kind: str
    detail: str = ""
    footer: Footer | None = None


def installed_from_json(shape: Mapping[str, Json], record: str | None) -> InstalledFile:
    """record: the word of `patch-read` for what the file is compared with."""
    return InstalledFile(
        path=shape["path"],
        text=shape["text"],
        sha256=shape["sha256"],
        record_sha256=shape["record_sha256"],
        mtime=shape.get("mtime") or 0.0,
        writable=bool(shape.get("writable")),
        read_only=bool(shape.get("read_only")),
        mode=shape.get("mode") or 0,
        owner=shape.get("owner") or "",
        link=shape.get("link"),
        record="HEAD of its git tree" if record == "git" else "the wheel's RECORD",
    )


def state_of(file: InstalledFile, entry: Entry | None) -> FileState:
    """The state of a file, by its bytes, the wheel's RECORD and what the manifest says of it."""
    if file.sha256 is None:
        return FileState(MISSING, "not in this release")
    if file.text is None:
        return FileState(FOREIGN, "not UTF-8")
    found = find(file.text)
    if found is None:
        return _without_footer(file, entry)
    if isinstance(found, BrokenFooter):
        return FileState(DRIFTED, found.reason)
    return _with_footer(file, entry, found)


def _without_footer(file: InstalledFile, entry: Entry | None) -> FileState:
    if file.record_sha256 is not None:
        if file.sha256 == file.record_sha256:
            return FileState(PRISTINE)
        return FileState(
            FOREIGN,
            f"edited by someone: sha256 {_short(file.sha256)}, {file.record} says {_short(file.record_sha256)}",
        )
    if entry is not None and file.sha256 != entry.original_sha256:
        detail = f"a source install, changed since it was patched (sha256 was {_short(entry.original_sha256)})"
        return FileState(PRISTINE, detail)  # nothing of ours is in it, and no RECORD forbids the change
    return FileState(PRISTINE, "a source install: no RECORD to compare with")


def _with_footer(file: InstalledFile, entry: Entry | None, footer: Footer) -> FileState:
    if not footer.intact:
        return FileState(DRIFTED, "edited above the footer since it was patched", footer)
    if file.record_sha256 is not None and footer.original_sha256 != file.record_sha256:
        detail = (
            f"a foreign edit was patched: {_short(footer.original_sha256)}, "
            f"{file.record} says {_short(file.record_sha256)}"
        )
        return FileState(DRIFTED, detail, footer)
    if entry is not None and file.sha256 != entry.patched_sha256:
        return FileState(DRIFTED, "the footer was edited since it was patched", footer)
    return FileState(OURS, "", footer)


def _short(sha256: str | None) -> str:
    return (sha256 or "?")[:12]
