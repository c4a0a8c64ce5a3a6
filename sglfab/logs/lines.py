"""Bytes → lines: counted from 1, ended by "\\n" only, any chunk split, bounded memory."""

from __future__ import annotations

from collections.abc import Iterator

HALF = 64 * 1024  # of a longer line, its first and its last HALF bytes are kept
GAP = b" ... "


class LineSplitter:
    """Feed chunks, get (number, bytes) of each complete line; `pending` is the line that has not ended yet."""

    def __init__(self) -> None:
        self.number = 1
        self._head = bytearray()
        self._tail = bytearray()

    def feed(self, chunk: bytes) -> Iterator[tuple[int, bytes]]:
        start = 0
        while (end := chunk.find(b"\n", start)) >= 0:
            self._hold(chunk[start:end])
            yield self.number, self._take()
            self.number += 1
            start = end + 1
        self._hold(chunk[start:])

    @property
    def pending(self) -> bytes:
        gap = GAP if len(self._tail) >= HALF else b""
        return bytes(self._head) + gap + bytes(self._tail)

    def _hold(self, piece: bytes) -> None:
        room = HALF - len(self._head)
        if room > 0:
            self._head += piece[:room]
            piece = piece[room:]
        if piece:
            self._tail += piece
            del self._tail[:-HALF]

    def _take(self) -> bytes:
        line = self.pending
        self._head.clear()
        self._tail.clear()
        return line
