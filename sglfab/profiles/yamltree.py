"""YAML text → a tree in which every value knows its line.

Plain scalars are read as YAML 1.2 reads them: only `true` and `false` are booleans (`on`, `yes`, `NO` are text), a
number with a leading zero is text. What a number looked like is kept, so that `1.10` or `0755` arrives as written.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import yaml

from sglfab.errors import InputError
from sglfab.model import Json, Origin

EXAMPLES = "see configs/profiles for examples"
MAX_VALUES = 100_000  # far above any profile; anchors that multiply themselves stop here


@dataclass(frozen=True)
class Leaf:
    """A scalar. text: as it was written."""

    value: Json
    text: str
    origin: Origin


@dataclass(frozen=True)
class Items:
    """A list."""

    items: tuple[Node, ...]
    origin: Origin


@dataclass(frozen=True)
class Table:
    """A mapping. keys: where each key stands."""

    entries: Mapping[str, Node]
    keys: Mapping[str, Origin]
    origin: Origin

    def with_entry(self, key: str, node: Node, origin: Origin) -> Table:
        return replace(self, entries={**self.entries, key: node}, keys={**self.keys, key: origin})

    def without(self, *names: str) -> Table:
        keep = {k: v for k, v in self.entries.items() if k not in names}
        return replace(self, entries=keep, keys={k: v for k, v in self.keys.items() if k in keep})


Node = Leaf | Items | Table


class _Loader(yaml.SafeLoader):
    """SafeLoader with the plain scalars of YAML 1.2."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012 - the base class's own field


for _tag, _pattern, _first in (
    ("bool", r"^(?:true|True|TRUE|false|False|FALSE)$", "tTfF"),
    ("null", r"^(?:~|null|Null|NULL|)$", ["~", "n", "N", ""]),
    ("int", r"^[-+]?(?:0|[1-9][0-9]*)$", "-+0123456789"),
    ("float", r"^[-+]?(?:0|[1-9][0-9]*)?(?:\.[0-9]+|(?:\.[0-9]*)?[eE][-+]?[0-9]+|\.)$", "-+.0123456789"),
    ("merge", r"^(?:<<)$", "<"),
):
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(_pattern), list(_first))


def parse(text: str, name: str) -> Table:
    """The tree of a file that must hold one mapping; `name` is how errors call it. Raises InputError with the line."""
    node = _compose(text, name, lambda mark: Origin(name, mark.line + 1))
    if node is None:
        raise InputError("profile-empty", f"{name} is empty", where=name, try_=EXAMPLES)
    if not isinstance(node, Table):
        what = f"{name} must be a mapping of keys to values, not {kind(node)}"
        raise InputError("profile-not-a-mapping", what, where=f"{name}:1", try_=EXAMPLES)
    return node


def parse_value(text: str, origin: Origin) -> Node:
    """A value of `--set`: YAML, with one origin for everything in it. Empty text is null."""
    return _compose(text, origin.file, lambda mark: origin) or Leaf(None, "", origin)


def _compose(text: str, name: str, origin_at: Callable[[yaml.Mark], Origin]) -> Node | None:
    try:
        root = yaml.compose(text, Loader=_Loader)
        return None if root is None else _Builder(origin_at).node(root, origin_at(root.start_mark))
    except yaml.MarkedYAMLError as why:
        raise _syntax_error(why, name, origin_at) from None
    except yaml.YAMLError as why:  # a character that YAML forbids
        what = str(why).splitlines()[0]
        raise InputError("yaml-syntax", what, where=name, try_="write it as an escape in double quotes") from None
    except RecursionError:
        what = "nested too deeply"
        raise InputError("yaml-syntax", what, where=name, try_="JSON text in quotes holds what is that deep") from None


def _syntax_error(why: yaml.MarkedYAMLError, name: str, origin_at: Callable[[yaml.Mark], Origin]) -> InputError:
    mark = why.problem_mark or why.context_mark
    problem = why.problem or why.context or "not YAML"
    what, try_ = problem, "check the quotes, brackets and indentation of the line, and of the one above"
    if "'\\t'" in problem:
        what, try_ = "a tab where YAML allows only spaces", "indent with spaces"
    elif "expected a single document" in (why.context or ""):
        what, try_ = "a second document begins here", "one file holds one document: remove the `---`"
    elif "mapping values are not allowed" in problem:
        try_ = "put the text in quotes, or check the indentation"
    return InputError("yaml-syntax", f"not YAML: {what}", where=str(origin_at(mark)) if mark else name, try_=try_)


def _no_tag(tag: str, origin: Origin) -> InputError:
    return InputError("yaml-tag", f"the tag {tag} has no meaning here", where=str(origin), try_="remove it")


class _Builder:
    """From PyYAML's nodes to ours, with what YAML lets pass and a profile must not hold."""

    def __init__(self, origin_at: Callable[[yaml.Mark], Origin]) -> None:
        self.origin_at = origin_at
        self.open: set[int] = set()  # nodes being read: an anchor that holds itself would never end
        self.seen = 0

    def node(self, node: yaml.Node, origin: Origin) -> Node:
        """origin: where the key stands; of a list item, where the item stands."""
        self.seen += 1
        if id(node) in self.open or self.seen > MAX_VALUES:
            what = "an anchor that contains itself"
            raise InputError("yaml-recursive", what, where=str(origin), try_="write out what `*` stands for")
        self.open.add(id(node))
        try:
            return self._node(node, origin)
        finally:
            self.open.discard(id(node))

    def _node(self, node: yaml.Node, origin: Origin) -> Node:
        if isinstance(node, yaml.CollectionNode) and node.tag.rpartition(":")[2] not in ("map", "seq"):
            raise _no_tag(node.tag, origin)
        if isinstance(node, yaml.MappingNode):
            return self._table(node, origin)
        if isinstance(node, yaml.SequenceNode):
            return Items(tuple(self.node(n, self.origin_at(n.start_mark)) for n in node.value), origin)
        return Leaf(self._scalar(node, origin), node.value, origin)

    def _scalar(self, node: yaml.Node, origin: Origin) -> Json:
        convert: dict[str, Callable[[str], Json]] = {
            "bool": lambda text: text.lower() == "true",
            "null": lambda text: None,
            "int": int,
            "float": float,
            "str": str,
        }
        tag = node.tag.rpartition(":")[2]
        if tag not in convert:
            raise _no_tag(node.tag, origin)
        try:
            return convert[tag](node.value)
        except ValueError:
            what = f"'{node.value}' is no {tag}"
            raise InputError("yaml-tag", what, where=str(origin), try_=f"remove the !!{tag}") from None

    def _table(self, node: yaml.MappingNode, origin: Origin) -> Table:
        entries: dict[str, Node] = {}
        keys: dict[str, Origin] = {}
        for key_node, value_node in node.value:
            at = self.origin_at(key_node.start_mark)
            key = self._key(key_node, at)
            if key in entries:
                what = f"'{key}' is given twice (first at {keys[key]})"
                raise InputError("yaml-duplicate-key", what, where=str(at), try_="keep one of them")
            entries[key], keys[key] = self.node(value_node, at), at
        return Table(entries, keys, origin)

    def _key(self, node: yaml.Node, at: Origin) -> str:
        if isinstance(node, yaml.ScalarNode) and node.tag.endswith(":merge"):
            raise InputError("yaml-merge-key", "`<<` is not supported", where=str(at), try_="extends: NAME")
        if not isinstance(node, yaml.ScalarNode) or not isinstance(self._scalar(node, at), str):
            shown = f"'{node.value}'" if isinstance(node, yaml.ScalarNode) else "a list or mapping"
            raise InputError("yaml-key", f"a key must be text, not {shown}", where=str(at), try_="put it in quotes")
        return str(node.value)


def plain(node: Node) -> Json:
    """The tree without its lines."""
    match node:
        case Table(entries=entries):
            return {key: plain(child) for key, child in entries.items()}
        case Items(items=items):
            return [plain(child) for child in items]
    return node.value


def kind(node: Node) -> str:
    """What a value is, in words."""
    match node:
        case Table():
            return "a mapping"
        case Items():
            return "a list"
    match node.value:
        case None:
            return "null"
        case bool():
            return f"the switch {str(node.value).lower()}"
        case int() | float():
            return f"the number {node.text}"
    return "text"


def leaves(node: Node, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Leaf | Items]]:
    """Every value with its path, lists as one value."""
    if not isinstance(node, Table):
        yield path, node
        return
    for key, child in node.entries.items():
        yield from leaves(child, (*path, key))


def at(node: Node, path: tuple[str | int, ...]) -> Node | None:
    """The node at a path of keys and list positions."""
    for step in path:
        if isinstance(node, Table) and isinstance(step, str) and step in node.entries:
            node = node.entries[step]
        elif isinstance(node, Items) and isinstance(step, int) and step < len(node.items):
            node = node.items[step]
        else:
            return None
    return node
