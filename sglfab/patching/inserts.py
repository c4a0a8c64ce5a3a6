"""`insert:` taps: where a statement of a given shape stands in a method, and one line of ours put beside it.

Located by AST, edited by span, never unparsed. What is put in is one whole line; its span is kept in the footer, so
that taking it out needs no guess.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass

from sglfab.patching.shapes import Missing, method_named
from sglfab.patching.statements import nearest, same_shape, statement_shape, statements
from sglfab.patching.taps import AFTER, Insert, Tap

LOCAL = "_sglfab_local"  # defined by the footer of the same file; the probe puts its function there
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n|\Z)")  # the lines that Python's parser counts
_LEAVES = (ast.Return, ast.Raise, ast.Continue, ast.Break)


@dataclass(frozen=True)
class Spot:
    """Where the line of a tap goes: before the character `offset` of the text. line: of the anchor, from 1."""

    tap: str
    offset: int
    text: str
    line: int


def cannot_follow(insert: Insert) -> bool:
    """Whether nothing runs after the anchor."""
    return insert.place == AFTER and isinstance(statement_shape(insert.anchor), _LEAVES)


def locate(tree: ast.Module, text: str, tap: Tap) -> Spot | Missing:
    """The one statement of the tap's method that has the anchor's shape. None of it, or several: Missing."""
    assert tap.insert is not None
    method = method_named(tree, tap.object)
    if isinstance(method, Missing):
        return method
    shape, candidates = statement_shape(tap.insert.anchor), list(statements(method.body))
    found = [statement for statement in candidates if same_shape(shape, statement)]
    if len(found) != 1:
        times = "is not there" if not found else f"is there {len(found)} times"
        reason = f"the statement `{tap.insert.anchor}` {times} in {tap.object}"
        return Missing(reason, nearest(shape, found or candidates))
    return _spot(text, found[0], tap)


def put_in(text: str, spots: Sequence[Spot]) -> tuple[str, tuple[tuple[int, int], ...]]:
    """The text with every spot's line, and the (offset, length) of each in the new text, in order.

    Raises ValueError where the result would not be the same program but for our lines: nothing may be written then.
    """
    ordered = sorted(spots, key=lambda spot: spot.offset)  # stable: at one place, in the order of the set
    spans: list[tuple[int, int]] = []
    edited, grown = text, 0
    for spot in ordered:
        at = spot.offset + grown
        edited = edited[:at] + spot.text + edited[at:]
        spans.append((at, len(spot.text)))
        grown += len(spot.text)
    if ordered and not _same_program(text, edited, len(ordered)):
        raise ValueError("the edited file would not be the same program")
    return edited, tuple(spans)


def take_out(text: str, spans: Sequence[tuple[int, int]]) -> str:
    """The text without the spans. Back to front: a cut never moves the spans still to be cut."""
    for offset, length in reversed(spans):
        text = text[:offset] + text[offset + length :]
    return text


def _spot(text: str, anchor: ast.stmt, tap: Tap) -> Spot | Missing:
    """The place of the tap's line: only where the anchor has its lines for itself."""
    assert tap.insert is not None
    lines = [match.group() for match in _LINE.finditer(text)]
    first, last = lines[anchor.lineno - 1], lines[(anchor.end_lineno or anchor.lineno) - 1]
    indent = _characters(first, anchor.col_offset)
    rest = last[len(_characters(last, anchor.end_col_offset or 0)) :].strip()
    if indent.strip() or (rest and not rest.startswith("#")) or first.strip().startswith("elif"):
        return Missing(f"the statement `{tap.insert.anchor}` shares its line with others, line {anchor.lineno}")
    after = tap.insert.place == AFTER
    offset = sum(map(len, lines[: (anchor.end_lineno or 0) if after else anchor.lineno - 1]))
    ours = f'{indent}if {LOCAL} is not None: {LOCAL}("{tap.tap}", locals())'
    ending = last[len(last.rstrip("\r\n")) :]  # only the very last line of a file can lack it
    return Spot(tap.tap, offset, "\n" + ours if after and not ending else ours + (ending or "\n"), anchor.lineno)


def _characters(line: str, column: int) -> str:
    """What stands before a column of ast, which counts bytes of UTF-8."""
    return line.encode("utf-8")[:column].decode("utf-8")


class _WithoutOurs(ast.NodeTransformer):
    count = 0

    def visit_If(self, node: ast.If) -> ast.AST | None:
        if isinstance(node.test, ast.Compare) and getattr(node.test.left, "id", "") == LOCAL:
            self.count += 1
            return None
        return self.generic_visit(node)


def _same_program(text: str, edited: str, count: int) -> bool:
    try:
        tree = ast.parse(edited)
    except SyntaxError:
        return False
    ours = _WithoutOurs()
    return ast.dump(ours.visit(tree)) == ast.dump(ast.parse(text)) and ours.count == count
