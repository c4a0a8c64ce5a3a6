"""The bytes of a log to diagnose, from this machine or from a host, or why there are none."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from sglfab.errors import InputError
from sglfab.transports.host import Host

CHUNK_BYTES = 1 << 20
COMPRESSED = {b"\x1f\x8b": "zcat", b"\x28\xb5\x2f\xfd": "zstdcat", b"\xfd7zXZ": "xzcat", b"BZh": "bzcat"}


def read(path: str, host: Host | None) -> Iterator[bytes]:
    """Pieces of the file; `-` is stdin, a host means that the path is there. Raises InputError log-unreadable,
    log-compressed: a compressed log would be read as noise and found healthy."""
    pieces = _from_here(path) if host is None else _from_host(host, path)
    for number, piece in enumerate(pieces):
        if number == 0:
            _refuse_compressed(piece, path)
        yield piece


def _from_host(host: Host, path: str) -> Iterator[bytes]:
    with host.stream("read", {"path": path, "offset": 0, "max_bytes": None}, idle_s=60.0) as stream:
        for event in stream:
            yield str(event["data"]).encode("utf-8", "surrogateescape")


def _from_here(path: str) -> Iterator[bytes]:
    try:
        with open(0 if path == "-" else _opened(Path(path).expanduser()), "rb", closefd=path != "-") as file:
            while chunk := file.read(CHUNK_BYTES):
                yield chunk
    except OSError as why:
        what = f"cannot read {path}: {why.strerror}"
        try_ = f"ls -t {path}" if isinstance(why, IsADirectoryError) else f"ls -l {path}"
        raise InputError("log-unreadable", what, where=path, try_=try_) from None


def _opened(path: Path) -> int:
    """A descriptor that blocks while a pipe's writer is silent (`<(zcat …)`), and not where it has none."""
    number = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    os.set_blocking(number, True)
    return number


def _refuse_compressed(piece: bytes, path: str) -> None:
    tool = next((tool for start, tool in COMPRESSED.items() if piece.startswith(start)), None)
    if tool:
        what, where = f"{path} is compressed", path
        raise InputError("log-compressed", what, where=where, try_=f"{tool} {path} | fab diagnose --log -")
