"""Statements by their shape: what an anchor means, and which statements of a method have it."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterator, Sequence

_ANYTHING = "_"
_OWN_SCOPE = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_OPEN_ENDED = (ast.If, ast.For, ast.AsyncFor, ast.While)
_NOT_COMPARED = ("ctx", "kind", "type_comment")


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


def statements(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """Every statement of a method, at any depth, without those of functions and classes defined in it."""
    for statement in body:
        yield statement
        if not isinstance(statement, _OWN_SCOPE):
            for block in _blocks(statement):
                yield from statements(block)


def _blocks(statement: ast.stmt) -> Iterator[Sequence[ast.stmt]]:
    for name in ("body", "orelse", "finalbody"):
        yield getattr(statement, name, ())
    for part in (*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
        yield part.body


def same_shape(shape: object, found: object) -> bool:
    """Whether what was found has the shape: nodes of ast, lists of them, or their plain values.

    `_` stands for any expression or target; `...` for all further arguments of a call, or for any body.
    """
    if isinstance(shape, ast.AST) and isinstance(found, ast.AST):
        return _same_node(shape, found)
    if isinstance(shape, list) and isinstance(found, list):
        return len(shape) == len(found) and all(map(same_shape, shape, found))
    return type(shape) is type(found) and shape == found


def _same_node(shape: ast.AST, found: ast.AST) -> bool:
    if isinstance(shape, ast.Name) and shape.id == _ANYTHING and isinstance(found, ast.expr):
        return True
    if type(shape) is not type(found):
        return False
    if isinstance(shape, ast.Call) and isinstance(found, ast.Call) and shape.args and _is_dots(shape.args[-1]):
        return _same_call(shape, found)
    compared = (n for n in shape._fields if n not in _NOT_COMPARED and not (n == "orelse" and _says_no_else(shape)))
    return all(_same_part(getattr(shape, name, None), getattr(found, name, None)) for name in compared)


def _same_part(shape: object, found: object) -> bool:
    return bool(found) if _is_any_body(shape) else same_shape(shape, found)


def _same_call(shape: ast.Call, found: ast.Call) -> bool:
    """A call whose last argument is `...`: what stands before it, and the named ones, must be there."""
    known = shape.args[:-1]
    named = {keyword.arg: keyword.value for keyword in found.keywords}
    return (
        same_shape(shape.func, found.func)
        and same_shape(known, found.args[: len(known)])
        and all(k.arg in named and same_shape(k.value, named[k.arg]) for k in shape.keywords)
    )


def _says_no_else(shape: ast.AST) -> bool:
    """An `if` or loop with any body says nothing of its `else` either."""
    return isinstance(shape, _OPEN_ENDED) and not shape.orelse and _is_any_body(shape.body)


def _is_any_body(value: object) -> bool:
    return isinstance(value, list) and len(value) == 1 and isinstance(value[0], ast.Expr) and _is_dots(value[0].value)


def _is_dots(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value is Ellipsis


def nearest(shape: ast.stmt, found: Sequence[ast.stmt], *, count: int = 3) -> tuple[str, ...]:
    """The statements most like the shape, with their lines."""
    wanted = _first_line(shape)
    ranked = sorted(found, key=lambda s: -difflib.SequenceMatcher(None, wanted, _first_line(s)).ratio())
    return tuple(f"{_first_line(s)} (line {s.lineno})" for s in ranked[:count])


def _first_line(statement: ast.stmt) -> str:
    return ast.unparse(statement).partition("\n")[0]
