"""Is a model folder whole? Cheap: names, sizes and the headers of the safetensors files."""

from __future__ import annotations

import glob
import json
import os
import struct
from typing import Any, Dict, List, Optional, Set

from sglfab.hostside.state import read_json

_HEADER_MAX = 100 << 20  # the format's own limit
_CONFIG_MAX = 1 << 20


def describe_path(path: str, cwd: Optional[str]) -> Dict[str, Any]:
    """The `paths` entry of `check`: kind, config, size and what is missing or cut."""
    place = os.path.join(cwd or os.getcwd(), os.path.expanduser(path))
    kind = _kind(path, place)
    found: Dict[str, Any] = {
        "path": path,
        "kind": kind,
        "config": None,
        "size_bytes": None,
        "missing_shards": [],
        "cut_files": [],
    }
    if kind == "file":
        found.update(size_bytes=_size(place), cut_files=[path] if is_cut(place) else [])
    if kind == "dir":
        found.update(_describe_dir(place))
    return found


def _kind(path: str, place: str) -> str:
    if os.path.isdir(place):
        return "dir" if os.access(place, os.R_OK | os.X_OK) else "unreadable"
    if os.path.isfile(place):
        return "file" if os.access(place, os.R_OK) else "unreadable"
    if not path.startswith(("/", "~", "./", "../")):
        return "hub"
    return "unreadable" if _behind_a_closed_door(place) else "missing"


def _behind_a_closed_door(place: str) -> bool:
    try:
        os.stat(place)
    except PermissionError:
        return True
    except OSError:
        return False
    return False


def _describe_dir(place: str) -> Dict[str, Any]:
    files = [entry.path for entry in os.scandir(place) if entry.is_file()]
    weights = [path for path in sorted(files) if path.endswith(".safetensors")]
    return {
        "config": read_json(os.path.join(place, "config.json"), _CONFIG_MAX),
        "size_bytes": sum(map(_size, files)),
        "missing_shards": sorted(_wanted_shards(place) - {os.path.basename(path) for path in files}),
        "cut_files": [os.path.basename(path) for path in weights if is_cut(path)],
    }


def _size(path: str) -> int:
    try:
        return os.path.getsize(path)
    except OSError:
        return 0  # it went away just now


def _wanted_shards(place: str) -> Set[str]:
    """File names that an index refers to."""
    wanted: Set[str] = set()
    for index in glob.glob(os.path.join(glob.escape(place), "*.index.json")):
        value = read_json(index, 256 << 20)
        shards = value.get("weight_map") if isinstance(value, dict) else None
        if isinstance(shards, dict):
            wanted.update(str(name) for name in shards.values())
    return wanted


def is_cut(path: str) -> bool:
    """A .safetensors file that is shorter than its own header says, or has none. Other and unreadable files: False."""
    if not path.endswith(".safetensors"):
        return False
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            return size < _promised_size(file.read(8), file.read, size)
    except OSError:
        return False


def _promised_size(prefix: bytes, read: Any, size: int) -> int:
    """8 bytes of header length, the JSON header, then the tensors: `data_offsets` count from the end of the header."""
    beyond = size + 1
    if len(prefix) < 8:
        return beyond
    length: int = struct.unpack("<Q", prefix)[0]
    if length > min(_HEADER_MAX, size - 8):
        return beyond
    try:
        header = json.loads(read(length).decode("utf-8"))
        ends: List[int] = [v["data_offsets"][1] for k, v in header.items() if k != "__metadata__"]
    except (ValueError, TypeError, KeyError, IndexError, AttributeError):
        return beyond
    return 8 + length + max(ends, default=0)
