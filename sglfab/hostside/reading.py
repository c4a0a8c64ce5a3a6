"""`read` and `tail`: files of the host, by byte offset, as text that keeps every byte (surrogateescape)."""

from __future__ import annotations

import contextlib
import errno
import glob
import os
import re
import stat
import threading
from typing import Any, BinaryIO, Callable, Dict, Iterator, List, Optional, Tuple

from sglfab.hostside.failure import HostError
from sglfab.hostside.runs import load_run, log_of
from sglfab.hostside.state import state_dir

Json = Dict[str, Any]
Emit = Callable[[Json], None]
PIECE = 256 << 10
_POLL_S = 0.2
_TRACE_FILE = re.compile(r"rank(\d+)(?:\.\d+)?(?:\.part\d+)?\.jsonl")
_KINDS = {stat.S_IFDIR: "it is a folder", stat.S_IFIFO: "it is a pipe", stat.S_IFSOCK: "it is a socket"}


def read(request: Json, emit: Emit, stdin_closed: threading.Event) -> Json:
    """The bytes of a file from `offset`, at most `max_bytes`. Raises HostError log-unreadable."""
    with open_file(os.path.expanduser(request["path"])) as file:
        size = os.fstat(file.fileno()).st_size
        file.seek(_start_of(size, int(request.get("offset") or 0)))
        left = request.get("max_bytes")
        with readable(request["path"]):
            for data in _pieces(file, None if left is None else int(left)):
                emit({"data": text_of(data)})
    return {"size": size}


def _start_of(size: int, offset: int) -> int:
    """A negative offset counts from the end."""
    return max(0, size + offset) if offset < 0 else offset


def _pieces(file: BinaryIO, left: Optional[int]) -> Iterator[bytes]:
    while left is None or left > 0:
        data = file.read(PIECE if left is None else min(PIECE, left))
        if not data:
            return
        left = None if left is None else left - len(data)
        yield data


def text_of(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def open_file(path: str) -> BinaryIO:
    """A plain file: what is read by offset, again and again, is no pipe, and opening one could last forever."""
    with readable(path):
        kind = stat.S_IFMT(os.stat(path).st_mode)
        if kind != stat.S_IFREG:
            raise OSError(errno.EINVAL, _KINDS.get(kind, "it is a device"), path)
        return open(path, "rb")


@contextlib.contextmanager
def readable(path: str) -> Iterator[None]:
    """An OSError within becomes HostError log-unreadable: a file can fail while it is read, too (a dead mount)."""
    try:
        yield
    except OSError as error:
        what = "the file cannot be read: %s" % (error.strerror or error)
        raise HostError("log-unreadable", what, where=path, try_="ls -l %s" % path) from error


def tail(request: Json, emit: Emit, stdin_closed: threading.Event) -> Json:
    """The last `lines` lines, then with `follow` whatever is added until stdin ends. Of a trace: each newest part."""
    given, follow = request.get("lines"), bool(request.get("follow"))
    lines = 10 if given is None else int(given)
    sources = _sources(request)
    followed: Dict[str, Followed] = {}
    newest = {first_part(path): path for _, path in sources()}
    for rank, path in sources():
        followed[path] = Followed(path, rank, lines if path in newest.values() else 0)
        followed[path].pump(emit)
    while follow and not stdin_closed.wait(_POLL_S):
        for rank, path in sources():
            followed.setdefault(path, Followed(path, rank, lines)).pump(emit)
    return {}


def _sources(request: Json) -> Callable[[], List[Tuple[Optional[str], str]]]:
    """What to read, asked for again at each turn: a rank's trace file appears when that rank first writes."""
    if request.get("path"):
        path = str(request["path"])
        open_file(path).close()
        return lambda: [(None, path)]
    run = load_run(state_dir(request), request["run_id"])
    if request.get("which") == "trace":
        return lambda: trace_files(run["dir"])
    log = log_of(run)
    open_file(log).close()
    return lambda: [(None, log)]


def trace_files(run_dir: str) -> List[Tuple[Optional[str], str]]:
    """(rank as text, path) of every trace file, by rank, each process's parts in order.

    A second process of a rank writes rank<N>.<pid>.jsonl; a long trace goes on in rank<N>.part0002.jsonl and so on.
    """
    found = []
    for path in glob.glob(os.path.join(glob.escape(run_dir), "trace", "rank*.jsonl")):
        match = _TRACE_FILE.fullmatch(os.path.basename(path))
        if match:
            found.append((int(match.group(1)), path))
    return [(str(rank), path) for rank, path in sorted(found)]


def first_part(path: str) -> str:
    """The file with which the trace of the same process begins."""
    return re.sub(r"\.part\d+(?=\.jsonl$)", "", path)


class Followed:
    """One file being tailed; a replaced or truncated file is read again from its start."""

    def __init__(self, path: str, rank: Optional[str], lines: int) -> None:
        self._path, self._rank, self._lines = path, rank, lines
        self._offset: Optional[int] = None
        self._inode = 0

    def pump(self, emit: Emit) -> None:
        try:
            file = open(self._path, "rb")  # noqa: SIM115 - closed by the `with` below; only the opening may fail
        except OSError:
            return  # rotated away for a moment
        with file:
            stats = os.fstat(file.fileno())
            if self._offset is None:
                self._offset = last_lines(file, stats.st_size, self._lines)
            elif stats.st_ino != self._inode or stats.st_size < self._offset:
                self._offset = 0
            self._inode = stats.st_ino
            file.seek(self._offset)
            with readable(self._path):
                for data in _pieces(file, None):
                    self._offset += len(data)
                    emit(self._event(data))

    def _event(self, data: bytes) -> Json:
        text = text_of(data)
        return {"data": text} if self._rank is None else {"rank": self._rank, "data": text}


def last_lines(file: BinaryIO, size: int, lines: int) -> int:
    """The offset at which the last `lines` lines begin; a last line without its newline counts."""
    if lines <= 0:
        return size
    position, found = size, 0
    while position > 0:
        step = min(PIECE, position)
        file.seek(position - step)
        block = file.read(step)
        end = len(block) - 1 if position == size and block.endswith(b"\n") else len(block)
        position -= step
        at = block.rfind(b"\n", 0, end)
        while at >= 0:
            found += 1
            if found == lines:
                return position + at + 1
            at = block.rfind(b"\n", 0, at)
    return 0
