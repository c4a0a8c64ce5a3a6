"""`insert:` taps: where a statement of a given shape stands in a method, and one line of ours put beside it.

Located by AST, edited by span, never unparsed. What is put in is one whole line; its span is kept in the footer, so
that taking it out needs no guess.
"""

from __future__ import annotations

import ast
import difflib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sglfab.patching.shapes import Missing, method_named
from sglfab.patching.taps import AFTER, Insert, Tap

LOCAL = "_sglfab_local"  # defined by the footer of the same file; the probe puts its function there
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n|\Z)")  # the lines that Python's parser counts
_ANYTHING = "_"
_LEAVES = (ast.Return, ast.Raise, ast.Continue, ast.Break)
_OWN_SCOPE = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
_CLOSE_ENOUGH = 3  # of nearest statements to name


@dataclass(frozen=True)
class Spot:
    """Where the line of a tap goes: before the character `offset` of the text. line: of the anchor, from 1."""

    tap: str
    offset: int
    text: str
    line: int


def statement_shape(source: str) -> ast.stmt:
    """The statement that an anchor describes. Raises ValueError with what is wrong with it."""
    try:
        body = ast.parse(source).body
    except SyntaxError:
        # `return x` outside of a function parses, `if x:` without a body does not.
        raise ValueError("is no statement of Python; the body of an `if` or `for` is `...`") from None
    if len(body) != 1:
        raise ValueError(f"is {len(body)} statements instead of one")
    if isinstance(body[0], _OWN_SCOPE):
        raise ValueError("is a definition; an anchor is a statement of the method itself")
    return body[0]


def cannot_follow(insert: Insert) -> bool:
    """Whether nothing runs after the anchor."""
    return insert.place == AFTER and isinstance(statement_shape(insert.anchor), _LEAVES)


def locate(tree: ast.Module, text: str, tap: Tap) -> Spot | Missing:
    """The one statement of the tap's method that has the anchor's shape. None of it, or several: Missing."""
    assert tap.insert is not None
    method = method_named(tree, tap.object)
    if isinstance(method, Missing):
        return method
    shape, candidates = statement_shape(tap.insert.anchor), list(_statements(method.body))
    found = [statement for statement in candidates if same_shape(shape, statement)]
    if len(found) != 1:
        times = "is not there" if not found else f"is there {len(found)} times"
        reason = f"the statement `{tap.insert.anchor}` {times} in {tap.object}"
        return Missing(reason, _nearest(shape, found or candidates))
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


def same_shape(shape: ast.AST | None, node: ast.AST | None) -> bool:
    """Whether a node has the shape: `_` matches any expression or target, `...` all further arguments, or any body."""
    if _is_name(shape, _ANYTHING) and isinstance(node, ast.expr):
        return True
    if type(shape) is not type(node):
        return False
    if isinstance(shape, ast.Call) and isinstance(node, ast.Call) and shape.args and _is_dots(shape.args[-1]):
        known = len(shape.args) - 1
        named = {k.arg: k.value for k in node.keywords}
        return (
            same_shape(shape.func, node.func)
            and len(node.args) >= known
            and all(map(same_shape, shape.args[:known], node.args))
            and all(k.arg in named and same_shape(k.value, named[k.arg]) for k in shape.keywords)
        )
    return shape is None or all(
        _same_field(getattr(shape, name, None), getattr(node, name, None), node) for name in _fields(shape)
    )


def _same_field(shape: object, value: object, owner: ast.AST | None) -> bool:
    if isinstance(shape, list) and isinstance(value, list):
        if isinstance(owner, ast.stmt) and _is_any_body(shape):
            return bool(value)
        return len(shape) == len(value) and all(map(same_shape, shape, value))
    if isinstance(shape, ast.AST):
        return isinstance(value, ast.AST) and same_shape(shape, value)
    return type(shape) is type(value) and shape == value


def _fields(shape: ast.AST) -> Iterator[str]:
    """What counts of a node. An `if` or loop whose body is `...` says nothing of its `else` either."""
    open_body = isinstance(shape, ast.If | ast.For | ast.While) and not shape.orelse and _is_any_body(shape.body)
    left_out = {"ctx", "kind", "type_comment", *(("orelse",) if open_body else ())}
    return (name for name in shape._fields if name not in left_out)


def _is_any_body(body: Sequence[object]) -> bool:
    return len(body) == 1 and isinstance(body[0], ast.Expr) and _is_dots(body[0].value)


def _is_dots(node: object) -> bool:
    return isinstance(node, ast.Constant) and node.value is Ellipsis


def _is_name(node: object, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _statements(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """Every statement of a method, at any depth, those of functions and classes defined in it not."""
    for statement in body:
        yield statement
        if isinstance(statement, _OWN_SCOPE):
            continue
        for inner in _blocks(statement):
            yield from _statements(inner)


def _blocks(statement: ast.stmt) -> Iterator[Sequence[ast.stmt]]:
    for name in ("body", "orelse", "finalbody"):
        yield getattr(statement, name, ())
    for part in (*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
        yield part.body


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
        if isinstance(node.test, ast.Compare) and _is_name(node.test.left, LOCAL):
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


def _nearest(shape: ast.stmt, statements: Sequence[ast.stmt]) -> tuple[str, ...]:
    """The statements most like the shape, with their lines."""
    wanted = _first_line(shape)
    ranked = sorted(statements, key=lambda s: -difflib.SequenceMatcher(None, wanted, _first_line(s)).ratio())
    return tuple(f"{_first_line(s)} (line {s.lineno})" for s in ranked[:_CLOSE_ENOUGH])


def _first_line(statement: ast.stmt) -> str:
    return ast.unparse(statement).partition("\n")[0]
