"""Where a Class.method stands in a source text, by AST: names and statement shapes, never line numbers."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterator
from dataclasses import dataclass

_NOT_PLAIN = {"property", "staticmethod", "classmethod", "cached_property"}


@dataclass(frozen=True)
class Site:
    """Found. line: from 1, of the method, or of the class where the method is inherited."""

    line: int
    inherited: bool = False


@dataclass(frozen=True)
class Missing:
    """Not there, or there in a shape that cannot be wrapped. nearest: `Class.method (line N)`, best first."""

    reason: str
    nearest: tuple[str, ...] = ()


def locate(tree: ast.Module, name: str, *, inherited: bool = False) -> Site | Missing:
    """The method `name` (Class.method) of a parsed module."""
    wanted_class, wanted_method = name.split(".")
    classes = [c for c in _classes(tree.body) if c.name == wanted_class]
    if len(classes) != 1:
        reason = (
            f"class {wanted_class} is not there"
            if not classes
            else f"class {wanted_class} is there {len(classes)} times"
        )
        return Missing(reason, _nearest(tree, name))
    methods = [m for m in _methods(classes[0]) if m.name == wanted_method]
    if not methods and inherited and classes[0].bases:
        return Site(classes[0].lineno, inherited=True)
    if len(methods) != 1:
        reason = f"{name} is not there" if not methods else f"{name} is there {len(methods)} times"
        return Missing(reason, _nearest(tree, name))
    return _plain(methods[0], name)


def _plain(method: ast.FunctionDef | ast.AsyncFunctionDef, name: str) -> Site | Missing:
    kinds = {
        d.attr if isinstance(d, ast.Attribute) else getattr(d, "id", "") for d in method.decorator_list
    } & _NOT_PLAIN
    if isinstance(method, ast.AsyncFunctionDef):
        kinds.add("coroutine")
    if kinds:
        return Missing(f"{name} is a {kinds.pop()}, line {method.lineno}")
    return Site(method.lineno)


def _classes(body: list[ast.stmt]) -> Iterator[ast.ClassDef]:
    """Classes of the module, those under `if` and `try` included, those inside functions and classes not."""
    for statement in _flat(body):
        if isinstance(statement, ast.ClassDef):
            yield statement


def _methods(owner: ast.ClassDef) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for statement in _flat(owner.body):
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            yield statement


def _flat(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    for statement in body:
        if isinstance(statement, ast.If | ast.Try | ast.With):
            for part in ("body", "handlers", "orelse", "finalbody"):
                for inner in getattr(statement, part, ()):
                    yield from _flat(inner.body if isinstance(inner, ast.ExceptHandler) else [inner])
        else:
            yield statement


def _nearest(tree: ast.Module, name: str) -> tuple[str, ...]:
    known = {f"{c.name}.{m.name}": m.lineno for c in _classes(tree.body) for m in _methods(c)}
    close = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    return tuple(f"{found} (line {known[found]})" for found in close)
