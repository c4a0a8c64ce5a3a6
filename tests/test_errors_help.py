"""Every error that our sources make says where, and what to try: an operator is never left with a complaint alone."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
KINDS = {"SglfabError", "InputError", "PatchError", "UnreachableError", "LockedError", "PreflightError"}
HOSTS = "HostError"  # of hostside: code, what, where, try_ by position or name
NAMES = ("code", "what", "where", "try_")


def errors(source: str) -> Iterator[tuple[int, dict[str, ast.expr]]]:
    """Line and arguments of every error that is made."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and _makes_error(node.func):
            by_place = dict(zip(NAMES, node.args, strict=False))
            yield node.lineno, by_place | {word.arg: word.value for word in node.keywords if word.arg}


def _makes_error(func: ast.expr) -> bool:
    name = func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "")
    return name in KINDS | {HOSTS, "HostsideBugError"}


def silent(source: str) -> list[str]:
    """`line: field` of what is left out, or is empty in one of its branches."""
    return [
        f"{line}: {name}"
        for line, given in errors(source)
        for name in ("where", "try_")
        if name not in given or any(isinstance(n, ast.Constant) and n.value == "" for n in ast.walk(given[name]))
    ]


def sources() -> list[Path]:
    return sorted(p for folder in ("sglfab", "tasks") for p in (ROOT / folder).rglob("*.py"))


def test_every_error_says_where_and_what_to_try():
    found = {str(path.relative_to(ROOT)): silent(path.read_text(encoding="utf-8")) for path in sources()}
    assert {path: lines for path, lines in found.items() if lines} == {}
    assert sum(len(list(errors(path.read_text(encoding="utf-8")))) for path in sources()) > 100


CASES = {
    "both": ('InputError("a", "b", where="c", try_="d")', []),
    "by place, as hostside does": ('HostError("a", "b", "c", "d", 2)', []),
    "computed": ('errors.InputError("a", "b", where=str(origin), try_=near or "remove it")', []),
    "no try": ('PatchError("a", "b", where="c")', ["1: try_"]),
    "no where": ('HostError("a", "b", try_="d")', ["1: where"]),
    "an empty branch": ('InputError("a", "b", where="c", try_=near[0] if near else "")', ["1: try_"]),
    "something else": ('ValueError("a")', []),
}


@pytest.mark.parametrize(("source", "missing"), CASES.values(), ids=CASES.keys())
def test_the_check_finds_what_is_missing(source, missing):
    assert silent(source) == missing
