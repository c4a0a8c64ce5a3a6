"""`patch-read` and `patch-write`: the files of an installed SGLang. The operator's side judges them."""

from __future__ import annotations

import hashlib
import os
import stat
import threading
import time
from typing import Any, Callable, Dict, List, Optional

from sglfab.hostside.failure import HostError
from sglfab.hostside.install import find_root, inside, record_hashes, version_of
from sglfab.hostside.locks import lock_folder, take
from sglfab.hostside.patch_git import head_hashes
from sglfab.hostside.patch_plugins import without_plugins
from sglfab.hostside.patch_servers import servers_of
from sglfab.hostside.patch_swap import Swap
from sglfab.hostside.processes import boot_id, look, user_name
from sglfab.hostside.state import private_dir, read_json, state_dir

Json = Dict[str, Any]
Emit = Callable[[Json], None]


def patch_read(request: Json, emit: Emit, stdin_closed: threading.Event) -> Json:
    """What is installed, what the wheel's RECORD says of it, the manifest, and the servers that run from it.

    files: paths relative to sglang/; those of the manifest are read as well. text is null where the file is not there
    or is not UTF-8. `link`: where the file is a symbolic link, its end. `owner`: who may write it.
    `read_only`: nobody may, its file system is mounted so.
    `no_plugins`: why its schedulers would load none.
    `record`: what record_sha256 is of: "RECORD" of a wheel, "git" (HEAD of a source install), null with `gap`: why.
    """
    root = find_root(request.get("sglang_path"))
    manifest = read_json(manifest_path(state_dir(request), root))
    paths = list(dict.fromkeys([*request["files"], *_named_by(manifest)]))
    wheel = record_hashes(root)
    head, gap = (None, "") if wheel is not None else head_hashes(root, paths)
    hashes = head if wheel is None else wheel
    return {
        "root": root,
        "version": version_of(root),
        "user": user_name(os.geteuid()),
        "editable": wheel is None,
        "record": "RECORD" if wheel is not None else "git" if head is not None else None,
        "gap": gap,
        "no_plugins": without_plugins(root),
        "files": [_file(root, path, hashes) for path in paths],
        "manifest": manifest,
        "servers": servers_of(root, state_dir(request)),
        "now_wall": time.time(),
    }


def patch_write(request: Json, emit: Emit, stdin_closed: threading.Event) -> Json:
    """Replace all files or none.

    Raises HostError (exit 6) patch-drift, patch-does-not-compile, patch-write-failed; locked (9) for another write now.
    """
    root = find_root(request["root"])
    path = manifest_path(state_dir(request), root)
    private_dir(os.path.dirname(path))
    lock = take(os.path.join(lock_folder(), "patch-%s.json" % _key(root)), _holder(request))
    try:
        return {"written": Swap(root, path).carry_out(request["files"], request.get("manifest"))}
    finally:
        os.ftruncate(lock, 0)
        os.close(lock)


def manifest_path(state: str, root: str) -> str:
    return os.path.join(state, "patches", _key(root) + ".json")


def _key(root: str) -> str:
    """By the real path: two interpreters that share one site-packages share manifest and lock."""
    return hashlib.sha256(
        os.path.realpath(os.path.join(root, "sglang")).encode("utf-8", "surrogateescape")
    ).hexdigest()[:32]


def _holder(request: Json) -> Json:
    me = look(os.getpid())
    who = {"operator": request.get("operator"), "laptop": request.get("laptop"), "what": "patch"}
    return {**who, "pid": os.getpid(), "start": me.start if me else 0, "boot_id": boot_id(), "since": time.time()}


def _named_by(manifest: Any) -> List[str]:
    files = manifest.get("files") if isinstance(manifest, dict) else None
    return [str(file["path"]) for file in files or () if isinstance(file, dict) and "path" in file]


def _file(root: str, relative: str, hashes: Optional[Dict[str, str]]) -> Json:
    path = inside(root, relative)
    shape: Json = {
        "path": relative,
        "text": None,
        "sha256": None,
        "record_sha256": (hashes or {}).get("sglang/" + relative),
    }
    try:
        with open(path, "rb") as file:
            data = file.read()
    except FileNotFoundError:
        return shape
    except OSError as error:
        what = "cannot read it: %s" % error.strerror
        raise HostError("patch-unreadable", what, where=path, try_="ls -l " + path, exit_code=6) from error
    status = os.stat(path)
    shape.update(
        text=_text(data),
        sha256=hashlib.sha256(data).hexdigest(),
        mtime=status.st_mtime,
        mode=stat.S_IMODE(status.st_mode),
        writable=os.access(path, os.W_OK) and os.access(os.path.dirname(path), os.W_OK | os.X_OK),
        read_only=bool(os.statvfs(path).f_flag & os.ST_RDONLY),
        owner=user_name(status.st_uid),
        link=os.path.realpath(path) if os.path.islink(path) else None,
    )
    return shape


def _text(data: bytes) -> Optional[str]:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return None
