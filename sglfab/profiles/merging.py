"""Layers merged, the later over the earlier: mappings deeply, a list replaces, null deletes."""

from __future__ import annotations

from sglfab.model import Origin
from sglfab.profiles.yamltree import Leaf, Node, Table

EMPTY = Table({}, {}, Origin(""))


def merge(base: Table, over: Table, path: tuple[str, ...] = ()) -> Table:
    """`over` on `base`; each value keeps the origin of the layer that it came from."""
    out = base
    for key, node in over.entries.items():
        before = out.entries.get(key)
        if isinstance(node, Leaf) and node.value is None:
            out = out.without(key)
        elif isinstance(node, Table) and not _is_whole((*path, key)):
            below = before if isinstance(before, Table) else Table({}, {}, node.origin)
            out = out.with_entry(key, merge(below, node, (*path, key)), over.keys[key])
        else:
            out = out.with_entry(key, node, over.keys[key])
    return out


def _is_whole(path: tuple[str, ...]) -> bool:
    """A secret's source is one value: a child's `{file: …}` replaces a parent's `{env: …}`."""
    return len(path) == 3 and path[0] == "secrets"


def overlay(path: tuple[str, ...], node: Node, origin: Origin) -> Table:
    """A layer that says one thing: the node at a path."""
    for key in reversed(path):
        node = Table({key: node}, {key: origin}, origin)
    return node if isinstance(node, Table) else EMPTY
