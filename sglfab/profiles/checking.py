"""One profile file against the schema, with our own words and file:line for what is wrong."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ValidationError

from sglfab.errors import InputError
from sglfab.profiles import schema
from sglfab.profiles.yamltree import Leaf, Node, Table, at, kind, plain

# What a place must hold, by its path; `*` is any name. Looked up from the longest path down.
MUST_BE: Mapping[tuple[str, ...], str] = {
    ("description",): "text",
    ("extends",): "the name of a profile, or a list of them",
    ("args",): "a mapping of launch options to values",
    ("env",): "a mapping of variables to text",
    ("env", "*"): "text or a number (put true and false in quotes)",
    ("hosts",): "a host, or a list of them",
    ("python",): "a path on the host",
    ("cwd",): "a path on the host",
    ("setup",): "a shell line, or a list of them",
    ("ulimits",): "a mapping of limits to values",
    ("ulimits", "*"): "a number, unlimited or hard",
    ("port",): "a whole number from 1 to 65535",
    ("cuda_graphs",): "true or false",
    ("wait",): "a mapping",
    ("wait", "*"): "seconds above 0",
    ("wait", "allowances"): "a mapping of stages to seconds",
    ("wait", "allowances", "*"): "seconds above 0",
    ("patches",): "the name of a patch set, or a list of them",
    ("patch_via",): "file or plugin",
    ("secrets",): "a mapping with env: and args:",
    ("secrets", "*"): "a mapping of names to where the secret is fetched",
    ("secrets", "*", "*"): "one of {env: VARIABLE}, {file: PATH}, {command: LINE}",
    ("secrets", "*", "*", "*"): "text",
    ("stop",): "a mapping",
    ("stop", "*"): "seconds above 0",
}


def check(
    tree: Table,
    model: type[BaseModel] = schema.ProfileFile,
    must_be: Mapping[tuple[str, ...], str] = MUST_BE,
    inside: str = "a profile",
    see: str = "see configs/profile.schema.json",
) -> None:
    """Raise InputError for the first thing (by line) that the model refuses, and say how many more there are.

    must_be: what each place must hold, in words. inside: what the whole is called. see: what shows a right one.
    """
    try:
        model.model_validate(plain(tree))
    except ValidationError as why:
        found = {_place(tree, e["loc"]): e["type"] for e in reversed(why.errors(include_url=False))}
        deepest = {path: type_ for path, type_ in found.items() if not _has_deeper(path, found)}
        judge = _Judge(tree, model, must_be, inside, see)
        errors = sorted((judge.error(path, type_) for path, type_ in deepest.items()), key=lambda pair: pair[0])
        raise _with_count(errors[0][1], len(errors) - 1) from None


def _with_count(error: InputError, more: int) -> InputError:
    if not more:
        return error
    return InputError(error.code, f"{error.what} (and {more} more)", where=error.where, try_=error.try_)


def _place(tree: Table, loc: Sequence[int | str]) -> tuple[str | int, ...]:
    """The part of pydantic's location that is in the file: it mixes in the names of union members and `[key]`."""
    path: tuple[str | int, ...] = ()
    for step in loc:
        if at(tree, (*path, step)) is not None:
            path = (*path, step)
    return path


def _has_deeper(path: tuple[str | int, ...], found: Mapping[tuple[str | int, ...], str]) -> bool:
    """Each member of a union reports for itself: `must be text` at the list, and what is wrong with its first item."""
    return any(len(other) > len(path) and other[: len(path)] == path for other in found)


@dataclass(frozen=True)
class _Judge:
    """Pydantic's finding at a place → our error."""

    tree: Table
    model: type[BaseModel]
    must_be: Mapping[tuple[str, ...], str]
    inside: str
    see: str

    def error(self, path: tuple[str | int, ...], type_: str) -> tuple[tuple[int, str], InputError]:
        node = at(self.tree, path) or self.tree
        error = self._unknown(path, node) if type_ == "extra_forbidden" else self._wrong(path, node)
        return (node.origin.line, str(path)), error

    def _unknown(self, path: tuple[str | int, ...], node: Node) -> InputError:
        *parents, name = path
        known = _fields(self.model, parents)
        near = difflib.get_close_matches(str(name), known, n=1, cutoff=0.6)
        what = f"'{name}' is not a key of {dotted(parents) or self.inside}"
        try_ = near[0] if near else "one of " + ", ".join(known)
        return InputError("profile-unknown-key", what, where=str(node.origin), try_=try_)

    def _wrong(self, path: tuple[str | int, ...], node: Node) -> InputError:
        where = str(node.origin)
        if path[0] == "env" and len(path) > 1 and not re.match(schema.ENV_NAME, str(path[1])):
            what = f"'{path[1]}' cannot be the name of an environment variable"
            return InputError("profile-bad-name", what, where=where, try_="letters, digits and _")
        if isinstance(path[-1], int):
            what = f"an item of '{dotted(path[:-1])}' must be text, not {kind(node)}"
            return InputError("profile-wrong-type", what, where=where, try_="put it in quotes")
        what = f"'{dotted(path)}' must be {self._wanted(path)}, not {kind(node)}"
        return InputError("profile-wrong-type", what, where=where, try_=_as_switch(node) or self.see)

    def _wanted(self, path: tuple[str | int, ...]) -> str:
        """The words for a place: of its exact path, else of the pattern that fits it."""
        exact = self.must_be.get(tuple(str(step) for step in path))
        patterns = (words for pattern, words in self.must_be.items() if _fits(pattern, path))
        return exact or next(patterns, "something else")


def _fits(pattern: tuple[str, ...], path: tuple[str | int, ...]) -> bool:
    return len(pattern) == len(path) and all(p in ("*", str(s)) for p, s in zip(pattern, path, strict=True))


def _fields(model: type[BaseModel], path: Sequence[str | int]) -> tuple[str, ...]:
    """The keys that the model at a path takes."""
    for step in path:
        field = model.model_fields.get(str(step))
        if field is not None:
            model = _model_in(field.annotation) or model
    return tuple(model.model_fields)


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """The model inside Optional[Model] or dict[str, Optional[Model]]."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    inner = (_model_in(a) for a in getattr(annotation, "__args__", ()))
    return next((m for m in inner if m is not None), None)


def _as_switch(node: Node) -> str:
    """YAML 1.1 called `off` a boolean; people still write it."""
    meant = {"on": "true", "yes": "true", "off": "false", "no": "false"}
    return meant.get(node.text.lower(), "") if isinstance(node, Leaf) else ""


def dotted(path: Sequence[str | int]) -> str:
    return ".".join(str(step) for step in path)
