"""All files or none: stage beside, byte-compile, sync, swap; the manifest first and last.

A kill between any two steps leaves every file either as it was or as it shall be, and a manifest whose `state` is
`applying` or `removing`: the next call sees both and completes or rolls back. Staged files that a kill left are cleared
by the next write.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
import warnings
from dataclasses import dataclass
from importlib.util import cache_from_source
from typing import Any, Dict, List, Optional

from sglfab.hostside.failure import HostError
from sglfab.hostside.install import inside
from sglfab.hostside.state import FULL_DISK, disk_full, read_json, sync_dir, write_json

Json = Dict[str, Any]
STAGED = ".sglfab-staged"  # no module name: neither Python nor pkgutil takes it for one
_UNCHECKED_PYC = b"\x01\x00\x00\x00"


@dataclass(frozen=True)
class Change:
    """One file: what it holds now and what it shall hold."""

    relative: str
    path: str
    before: bytes
    after: bytes

    @property
    def staged(self) -> str:
        folder, name = os.path.split(self.path)
        return os.path.join(folder, "." + name + STAGED)


class Swap:
    """One all-or-nothing replacement in the package below `root`."""

    def __init__(self, root: str, manifest_path: str) -> None:
        self._root, self._manifest_path = root, manifest_path

    def carry_out(self, files: List[Json], manifest: Optional[Json]) -> List[str]:
        """Write the files, then leave `manifest` (None: none). The relative paths that were written."""
        changes = [self._change(file) for file in files]
        for change in changes:
            _compile(change)
        former = read_json(self._manifest_path)
        try:
            self._note(manifest, former)
            self._replace(changes)
            self._sweep(former, manifest)
            self._finish(manifest)
        except OSError as error:
            self._restore(changes, former)
            raise _explained(error, self._root) from error
        return [change.relative for change in changes]

    def _change(self, file: Json) -> Change:
        path = inside(self._root, file["path"])
        try:
            with open(path, "rb") as opened:
                before = opened.read()
        except OSError as error:
            what = "cannot read it: %s" % error.strerror
            raise HostError("patch-unreadable", what, where=path, try_="ls -l " + path, exit_code=6) from error
        found = hashlib.sha256(before).hexdigest()
        if found != file["expect_sha256"]:
            what = "it changed while we looked: sha256 %s, expected %s" % (found[:12], file["expect_sha256"][:12])
            raise HostError("patch-drift", what, where=path, try_="fab patch-status", exit_code=6)
        return Change(file["path"], path, before, file["text"].encode("utf-8"))

    def _note(self, manifest: Optional[Json], former: Any) -> None:
        """The manifest of what begins: whatever happens from here on, the next call knows."""
        if manifest is not None:
            write_json(self._manifest_path, {**manifest, "state": "applying"})
        elif isinstance(former, dict):
            write_json(self._manifest_path, {**former, "state": "removing"})

    def _replace(self, changes: List[Change]) -> None:
        for change in changes:
            _stage(change)
        for change in changes:
            _forget_unchecked(change.path)
            os.replace(change.staged, change.path)
        for folder in sorted({os.path.dirname(change.path) for change in changes}):
            sync_dir(folder)

    def _sweep(self, *manifests: Any) -> None:
        """What a killed call had staged, of files that needed no change now."""
        for manifest in manifests:
            for file in manifest.get("files") or () if isinstance(manifest, dict) else ():
                _unlink(Change(file["path"], inside(self._root, file["path"]), b"", b"").staged)

    def _finish(self, manifest: Optional[Json]) -> None:
        if manifest is not None:
            write_json(
                self._manifest_path, {**manifest, "state": "applied", "applied_wall": self._swapped_wall(manifest)}
            )
        elif os.path.exists(self._manifest_path):
            os.unlink(self._manifest_path)
            sync_dir(os.path.dirname(self._manifest_path))

    def _swapped_wall(self, manifest: Json) -> Optional[float]:
        """When the last of the files was swapped in: a server that started earlier does not have it."""
        paths = [inside(self._root, file["path"]) for file in manifest["files"]]
        return max((os.stat(path).st_mtime for path in paths), default=None)

    def _restore(self, changes: List[Change], former: Any) -> None:
        """Back to how it was. What cannot be undone (the disk is full) stays named by the manifest."""
        try:
            for change in changes:
                _unlink(change.staged)
                if _holds(change.path, change.after) and change.after != change.before:
                    back = Change(change.relative, change.path, change.after, change.before)
                    _stage(back)
                    os.replace(back.staged, back.path)
            if isinstance(former, dict):
                write_json(self._manifest_path, former)
            else:
                _unlink(self._manifest_path)
        except OSError as error:
            sys.stderr.write("the rollback stopped: %s\n" % error)


def _compile(change: Change) -> None:
    """With the interpreter that runs us, which is the server's. Raises HostError patch-does-not-compile."""
    error = _syntax_error(change.after, change.path)
    if error is None:
        return
    if _syntax_error(change.before, change.path) is not None:
        version = "%d.%d" % sys.version_info[:2]
        what = "Python %s cannot compile even the file as it is now: %s" % (version, error)
        raise HostError(
            "patch-does-not-compile",
            what,
            where=change.path,
            try_="`python:` of the profile: the server's own interpreter",
            exit_code=6,
        )
    raise HostError("patch-does-not-compile", str(error), where=change.path, try_="report this", exit_code=6)


def _syntax_error(source: bytes, path: str) -> Optional[Exception]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            compile(source, path, "exec", dont_inherit=True)
        except (SyntaxError, ValueError) as error:
            return error
    return None


def _stage(change: Change) -> None:
    """The new content beside the file, synced, with the file's mode and, where we may, its owner."""
    _unlink(change.staged)  # a killed call's
    status = os.stat(change.path)
    fd = os.open(change.staged, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        _write_all(fd, change.after)
        if (status.st_uid, status.st_gid) != (os.fstat(fd).st_uid, os.fstat(fd).st_gid):
            _give_back(fd, status)
        os.fchmod(fd, status.st_mode & 0o7777)
        os.fsync(fd)
    finally:
        os.close(fd)


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def _give_back(fd: int, status: os.stat_result) -> None:
    with contextlib.suppress(PermissionError):  # only root may; the content is what counts
        os.fchown(fd, status.st_uid, status.st_gid)


def _forget_unchecked(path: str) -> None:
    """A .pyc of the `unchecked-hash` kind would go on being imported whatever the source says."""
    cached = cache_from_source(path)
    try:
        with open(cached, "rb") as file:
            unchecked = file.read(8)[4:] == _UNCHECKED_PYC
    except OSError:
        return
    if unchecked:
        os.unlink(cached)


def _holds(path: str, data: bytes) -> bool:
    with open(path, "rb") as file:
        return file.read() == data


def _unlink(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def _explained(error: OSError, root: str) -> HostError:
    where = str(error.filename or root)
    if error.errno in FULL_DISK:
        return disk_full(where)
    what = "nothing was changed: %s" % (error.strerror or error)
    return HostError("patch-write-failed", what, where=where, try_="ls -ld " + os.path.dirname(where), exit_code=6)
