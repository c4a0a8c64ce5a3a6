"""A command line that a person can read and a shell can run."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence


def command_lines(argv: Sequence[str]) -> tuple[str, ...]:
    """One flag with its values a line, quoted for a shell, joined by ` \\`; pasted as it is, it runs."""
    lines = [" ".join(map(shlex.quote, words)) for words in _by_flag(argv)]
    return tuple(
        ("" if number == 0 else "    ") + line + (" \\" if number < len(lines) - 1 else "")
        for number, line in enumerate(lines)
    )


def _by_flag(argv: Sequence[str]) -> Iterator[list[str]]:
    words: list[str] = []
    for word in argv:
        if word.startswith("--") and words:
            yield words
            words = []
        words.append(word)
    if words:
        yield words
