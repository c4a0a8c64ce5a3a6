"""Where the sglang package lies, its release by its own files, and its wheel's RECORD. Nothing is imported."""

from __future__ import annotations

import base64
import binascii
import csv
import importlib.machinery
import importlib.util
import os
import re
from typing import Dict, Iterator, List, Optional

from sglfab.hostside.failure import HostError

# In every release since 0.4.6; a distribution of any name whose RECORD lists it is the one that installed the package.
WITNESS = "sglang/srt/layers/logits_processor.py"
_VERSION = re.compile(r"""^__version__\s*(?::[^=]*)?=\s*(?:version\s*=\s*)?["']([^"']+)["']""", re.MULTILINE)


def find_root(given: Optional[str], pythonpath: str = "") -> str:
    """The real path of the folder that holds sglang/: the given one, or that of the sglang that this interpreter finds.

    pythonpath: what the server's environment will have as PYTHONPATH; it comes first, as it will there.
    Raises HostError sglang-not-found.
    """
    for folder in [_candidate(given)] if given else _importable(pythonpath):
        if os.path.isdir(os.path.join(folder, "sglang", "srt")):
            return os.path.realpath(folder)
    where = given or "the interpreter that ran: it has no sglang"
    raise HostError(
        "sglang-not-found",
        "no sglang/srt there",
        where=where,
        try_="--sglang-path DIR, the folder that holds sglang/, or `python:` of the profile",
    )


def inside(root: str, relative: str) -> str:
    """The path of a file of the package. Raises HostError for one that leads out of it."""
    if relative.startswith("/") or ".." in relative.split("/") or not relative.endswith(".py"):
        what, example = "no path of a module inside sglang/", "srt/models/deepseek_v2.py"
        raise HostError("patch-path-invalid", what, where=relative, try_=example, exit_code=6)
    return os.path.join(root, "sglang", relative)


def _candidate(given: str) -> str:
    folder = os.path.abspath(os.path.expanduser(given))
    named_itself = os.path.basename(folder) == "sglang" and not os.path.isdir(os.path.join(folder, "sglang"))
    return os.path.dirname(folder) if named_itself else folder


def _importable(pythonpath: str) -> List[str]:
    first = [entry for entry in pythonpath.split(os.pathsep) if entry]
    try:
        spec = importlib.machinery.PathFinder.find_spec("sglang", first) if first else None
        spec = spec or importlib.util.find_spec("sglang")  # a top-level name: found without running its __init__
    except (ImportError, ValueError):
        return []
    return [os.path.dirname(place) for place in (spec.submodule_search_locations or [] if spec else [])]


def version_of(root: str) -> Optional[str]:
    """The release as the package itself tells it, else as SGLang's own METADATA does. None: it says nothing.

    A fork numbers its distribution as it likes: lsglang 1.6.5 holds what calls itself 0.5.15.dev105.
    """
    for name in ("_version.py", "version.py"):
        found = _VERSION.search(_read(os.path.join(root, "sglang", name)))
        if found:
            return found.group(1)
    info = dist_info(root)
    named = re.match(r"sglang-[^-]+\.dist-info$", os.path.basename(info)) if info else None
    found = (
        re.search(r"^Version: (\S+)", _read(os.path.join(info, "METADATA")), re.MULTILINE) if info and named else None
    )
    return found.group(1) if found else None


def record_hashes(root: str) -> Optional[Dict[str, str]]:
    """sha256 (hex) of every file of the package by its path in RECORD; None for a source install."""
    info = dist_info(root)
    if info is None:
        return None
    rows = csv.reader(_read(os.path.join(info, "RECORD")).splitlines())
    return {row[0]: digest for row in rows if len(row) > 1 for digest in [_hex(row[1])] if digest}


def dist_info(root: str) -> Optional[str]:
    """The .dist-info whose RECORD lists the package's files: forks install the same package under other names."""
    for info in _dist_infos(root):
        if "\n%s," % WITNESS in "\n" + _read(os.path.join(info, "RECORD")):
            return info
    return None


def _dist_infos(root: str) -> Iterator[str]:
    names = [name for name in os.listdir(root) if name.endswith(".dist-info")]
    for name in sorted(names, key=lambda name: ("sglang" not in name.lower(), name)):
        yield os.path.join(root, name)


def _hex(field: str) -> Optional[str]:
    """`sha256=<urlsafe base64 without padding>` as hex."""
    kind, _, digest = field.partition("=")
    if kind != "sha256":
        return None
    try:
        return binascii.hexlify(base64.urlsafe_b64decode(digest + "=" * (-len(digest) % 4))).decode("ascii")
    except (binascii.Error, ValueError):
        return None


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""
