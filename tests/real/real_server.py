"""What the tests of this folder ask a server, and how one answers without any patch."""

from __future__ import annotations

from dataclasses import dataclass

from sglfab.flows import patch

PROMPTS = tuple(
    f"{word} and {word[::-1]} " * n
    for n, word in enumerate(("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"), 1)
)


@dataclass(frozen=True)
class Unpatched:
    """What a server of the kit as it is answers to PROMPTS, and what `patch-status` says of it."""

    tokens: list[list[int]]
    status: patch.PatchStatus
