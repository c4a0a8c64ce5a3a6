"""The line that is not complete yet: counted from 1, ended by "\\n" only, bounded memory whatever comes."""

from __future__ import annotations

HALF = 64 * 1024  # of a longer line, its first and its last HALF bytes are kept
GAP = b" ... "


def bounded(line: bytes) -> bytes:
    """A line as it is kept: whole, or its two ends."""
    return line if len(line) <= 2 * HALF else line[:HALF] + GAP + line[-HALF:]


class Pending:
    """Collects the pieces of one line."""

    def __init__(self) -> None:
        self._head = bytearray()
        self._tail = bytearray()
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def hold(self, piece: bytes) -> None:
        self._size += len(piece)
        room = HALF - len(self._head)
        if room > 0:
            self._head += piece[:room]
            piece = piece[room:]
        if piece:
            self._tail += piece[-HALF:] if len(piece) > HALF else piece
            del self._tail[:-HALF]

    def peek(self) -> bytes:
        gap = GAP if self._size > 2 * HALF else b""
        return bytes(self._head) + gap + bytes(self._tail)

    def take(self) -> bytes:
        line = self.peek()
        self._head.clear()
        self._tail.clear()
        self._size = 0
        return line
