"""The `fab …` lines of a Markdown text, and Fabric's own parser to hold against them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from fabric.main import make_program
from invoke.collection import Collection
from invoke.exceptions import Exit

FENCE = re.compile(r"^\s*(```|~~~)")
INDENTED = re.compile(r"^(?: {4}|\t)")
# A prompt or none, any VAR=value words, then fab.
COMMAND = re.compile(r"^\s*(?:\$ )?(?:[A-Z_][A-Z0-9_]*=\S* )*fab (?P<words>.*)$")
SPAN = re.compile(r"`(?:[A-Z_][A-Z0-9_]*=\S* )*fab (?P<words>[^`]+)`")
SHELL_ENDS = frozenset({"|", "||", "&&", ";", ">", ">>", "2>", "2>&1", "<", "#"})
ELLIPSIS = "…"


@dataclass(frozen=True)
class FabLine:
    """One command line as it stands in a document; line counts from 1. typed: in a code block, to be typed as it is."""

    line: int
    words: tuple[str, ...]
    typed: bool

    @property
    def text(self) -> str:
        return "fab " + shlex.join(self.words)


def fab_lines(markdown: str) -> Iterator[FabLine]:
    """Every `fab …` line of the code blocks (fenced or indented by four) and of the code spans in the text.

    A line that ends with a backslash goes on in the next. What follows a pipe, a redirection or a # is the shell's.
    """
    fenced = False
    lines = markdown.splitlines()
    for number, line in enumerate(lines, start=1):
        if FENCE.match(line):
            fenced = not fenced
        elif (fenced or INDENTED.match(line)) and (match := COMMAND.match(_whole(lines, number - 1))):
            yield from _line(number, match["words"], typed=True)
        elif not fenced:
            for span in SPAN.finditer(line):
                yield from _line(number, span["words"], typed=False)


def _whole(lines: list[str], index: int) -> str:
    text = lines[index]
    while text.endswith("\\") and index + 1 < len(lines):
        index += 1
        text = text[:-1] + " " + lines[index].strip()
    return text


def _line(number: int, words: str, *, typed: bool) -> Iterator[FabLine]:
    kept: list[str] = []
    for word in _split(words):
        if word in SHELL_ENDS:
            break
        kept.append(word.rstrip(";"))
    if kept and ELLIPSIS not in kept:  # `fab … launch`: a way of speaking, not a line to type
        yield FabLine(number, tuple(kept), typed)


def _split(words: str) -> list[str]:
    try:
        return shlex.split(words)
    except ValueError:  # a quote that the shell would go on with
        return words.split()


def parse(words: tuple[str, ...], collection: Collection) -> tuple[str, ...]:
    """The names of the tasks that Fabric would run. Raises Invoke's ParseError for what it does not know."""
    program: Any = make_program()
    program.create_config()
    try:
        program.parse_core(["fab", *words])
        # Only now: a program with a namespace of its own does not know -r and -c, which find a fabfile.
        program.namespace = collection
        program.parse_collection()
        program.parse_tasks()
    except Exit:  # --version, and its like: parsed and answered
        return ()
    return tuple(context.name for context in program.tasks)
