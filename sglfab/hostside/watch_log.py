"""The log by byte offset: what is new, in pieces, and a word when the file was truncated or replaced."""

from __future__ import annotations

import os
from typing import Any, BinaryIO, Callable, Dict, Optional

from sglfab.hostside.reading import PIECE, text_of

Put = Callable[[str, Dict[str, Any]], None]
_PIECES_PER_POLL = 16  # 4 MiB: a huge old log must not keep the loop from looking at processes
_PIECES_PER_DRAIN = 64
_MARK_BYTES = 64
_UTF8_TAIL = 3


class LogWatch:
    """Follows one path. Puts `log`, `log-reset` and, once, a `gap` while it cannot be read."""

    def __init__(self, path: str, offset: int, put: Put) -> None:
        self._path, self._put = path, put
        self._file: Optional[BinaryIO] = None
        self._offset, self._mark = offset, b""
        self._said_gap = False
        self.behind = False  # more is there than one poll takes

    def poll(self) -> None:
        self._pump(_PIECES_PER_POLL)

    def drain(self) -> None:
        """What is there now; bounded, because everything that was put waits in memory."""
        self._pump(_PIECES_PER_DRAIN)

    def _pump(self, pieces: int) -> None:
        if self._file is None and not self._open():
            return
        self.behind = False
        try:
            pieces -= self._read(pieces)
        except OSError as error:  # a dead mount, a bad disk
            self._gap(error)
            return
        self.behind = pieces == 0
        if pieces > 0 and self._replaced():
            self._reset("rotated")
            self._pump(pieces)

    def _open(self) -> bool:
        try:
            self._file = open(self._path, "rb", buffering=0)  # noqa: SIM115 - held over many polls
        except OSError as error:
            self._gap(error)
            return False
        return True

    def _gap(self, error: OSError) -> None:
        if not self._said_gap:
            self._put("gap", {"text": "log: %s: %s" % (self._path, error.strerror)})
        self._said_gap = True

    def _read(self, pieces: int) -> int:
        """Put at most that many pieces; returns how many."""
        assert self._file is not None
        size = os.fstat(self._file.fileno()).st_size
        if size == self._offset:
            return 0
        if size < self._offset or not self._same_before():
            self._put("log-reset", {"reason": "truncated"})
            self._offset, self._mark = 0, b""
        for done in range(pieces):
            if not self._piece():
                return done
        return pieces

    def _piece(self) -> bool:
        assert self._file is not None
        data = os.pread(self._file.fileno(), PIECE, self._offset)
        if not data:
            return False
        if len(data) == PIECE:
            data = data[: len(data) - _unfinished(data)]
        self._put("log", {"offset": self._offset, "data": text_of(data)})
        self._offset += len(data)
        self._mark = (self._mark + data[-_MARK_BYTES:])[-_MARK_BYTES:]
        return True

    def _same_before(self) -> bool:
        """A log that was truncated and has grown past our offset since is told by the bytes before it."""
        assert self._file is not None
        return os.pread(self._file.fileno(), len(self._mark), self._offset - len(self._mark)) == self._mark

    def _replaced(self) -> bool:
        """The path names another file than the one we read (to its end)."""
        assert self._file is not None
        try:
            now = os.stat(self._path)
        except OSError:
            return False
        return (now.st_dev, now.st_ino) != _identity(self._file)

    def _reset(self, reason: str) -> None:
        assert self._file is not None
        self._file.close()
        self._file, self._offset, self._mark = None, 0, b""
        self._put("log-reset", {"reason": reason})


def _identity(file: BinaryIO) -> "tuple[int, int]":
    stats = os.fstat(file.fileno())
    return stats.st_dev, stats.st_ino


def _unfinished(data: bytes) -> int:
    """How many bytes at the end begin a UTF-8 character that they do not finish (0…3)."""
    for back in range(1, _UTF8_TAIL + 1):
        byte = data[-back]
        if byte & 0xC0 == 0x80:
            continue
        length = 4 if byte >= 0xF0 else 3 if byte >= 0xE0 else 2 if byte >= 0xC0 else 1
        return back if length > back else 0
    return 0
