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


Method = ast.FunctionDef | ast.AsyncFunctionDef


def locate(tree: ast.Module, name: str, *, inherited: bool = False) -> Site | Missing:
    """The method `name` (Class.method) of a parsed module, where it can be wrapped."""
    owner = _class(tree, name)
    if isinstance(owner, Missing):
        return owner
    if inherited and owner.bases and not _named(owner, name):
        return Site(owner.lineno, inherited=True)
    method = method_named(tree, name)
    return method if isinstance(method, Missing) else _plain(method, name)


def method_named(tree: ast.Module, name: str) -> Method | Missing:
    """The one definition of the method `name` (Class.method), of whatever kind it is."""
    owner = _class(tree, name)
    if isinstance(owner, Missing):
        return owner
    methods = _named(owner, name)
    if len(methods) != 1:
        reason = f"{name} is not there" if not methods else f"{name} is there {len(methods)} times"
        return Missing(reason, _nearest(tree, name))
    return methods[0]


def _class(tree: ast.Module, name: str) -> ast.ClassDef | Missing:
    wanted = name.partition(".")[0]
    classes = [c for c in _classes(tree.body) if c.name == wanted]
    if len(classes) != 1:
        times = "is not there" if not classes else f"is there {len(classes)} times"
        return Missing(f"class {wanted} {times}", _nearest(tree, name))
    return classes[0]


def _named(owner: ast.ClassDef, name: str) -> list[Method]:
    return [m for m in _methods(owner) if m.name == name.partition(".")[2]]


def _plain(method: Method, name: str) -> Site | Missing:
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


def _methods(owner: ast.ClassDef) -> Iterator[Method]:
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
