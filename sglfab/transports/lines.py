"""Chunks in, whole lines out."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator


class LineBuffer:
    """Splits at b"\\n" only; a last line without one counts at the end. An empty chunk is the end of the stream."""

    def __init__(self) -> None:
        self._lines: deque[bytes] = deque()
        self._parts: list[bytes] = []
        self.ended = False

    def feed(self, chunk: bytes) -> None:
        if not chunk:
            self.ended = True
            self._finish()
            return
        first, *rest = chunk.split(b"\n")
        self._parts.append(first)
        for part in rest:
            self._lines.append(b"".join(self._parts))
            self._parts = [part]

    def _finish(self) -> None:
        last = b"".join(self._parts)
        self._parts = []
        if last:
            self._lines.append(last)

    def pop(self) -> bytes | None:
        """The next whole line, or None when more must be fed first."""
        return self._lines.popleft() if self._lines else None

    def read(self, more: Callable[[], bytes]) -> Iterator[bytes]:
        """Every line, also after an earlier reader left; `more` gives the next chunk."""
        while True:
            line = self.pop()
            if line is not None:
                yield line
            elif self.ended:
                return
            else:
                self.feed(more())
