"""One file's tree → a canonical layer, before anything is merged: flags, variables and limits by one name each."""

from __future__ import annotations

import re
from dataclasses import replace

from sglfab.errors import InputError
from sglfab.model import STAGES, Origin
from sglfab.profiles.yamltree import Items, Leaf, Node, Table
from sglfab.sglang.flags import Ambiguous, FlagFacts

LISTS = ("extends", "hosts", "setup", "patches")
LIMITS = {
    "core": "c", "data": "d", "nice": "e", "fsize": "f", "sigpending": "i", "memlock": "l", "rss": "m", "nofile": "n",
    "msgqueue": "q", "rtprio": "r", "stack": "s", "cpu": "t", "nproc": "u", "as": "v", "locks": "x",
}  # fmt: skip


def canonical_layer(tree: Table, facts: FlagFacts) -> Table:
    """The layer with canonical names. Raises InputError where one thing is said twice or a short flag is ambiguous."""
    layer = replace(tree, entries={key: _value(key, node, facts) for key, node in tree.entries.items()})
    return _graph_intent(layer)


def _value(key: str, node: Node, facts: FlagFacts) -> Node:
    if key in LISTS and isinstance(node, Leaf) and node.value is not None:
        return Items((node,), node.origin)
    return _table(key, node, facts) if isinstance(node, Table) else node


def _table(key: str, table: Table, facts: FlagFacts) -> Table:
    match key:
        case "args":
            return flags(table, facts)
        case "env":
            return replace(table, entries={name: _as_text(value) for name, value in table.entries.items()})
        case "ulimits":
            return _limits(table)
        case "secrets":
            args = table.entries.get("args")
            return (
                table.with_entry("args", flags(args, facts), table.keys["args"]) if isinstance(args, Table) else table
            )
        case "wait":
            return _allowances(table)
    return table


def _secrets(table: Table, facts: FlagFacts) -> Table:
    args = table.entries.get("args")
    return table.with_entry("args", flags(args, facts), table.keys["args"]) if isinstance(args, Table) else table


# --- flags ------------------------------------------------------------------------------------------------------------


def flags(args: Table, facts: FlagFacts) -> Table:
    """Flags by their canonical names; a name that no release knows stays as it is, for the lint to judge."""
    out = Table({}, {}, args.origin)
    for spelling, node in args.entries.items():
        origin = args.keys[spelling]
        name, value = _flag(spelling, node, origin, facts)
        if name in out.entries:
            what = f"'{spelling}' is --{name}, which stands already at {out.keys[name]}"
            raise InputError("profile-duplicate-flag", what, where=str(origin), try_="keep one of them")
        out = out.with_entry(name, value, origin)
    return out


def _flag(spelling: str, node: Node, origin: Origin, facts: FlagFacts) -> tuple[str, Node]:
    found = facts.canonical(spelling)
    if isinstance(found, Ambiguous):
        listed = ", ".join(found.candidates[:5]) + (" …" if len(found.candidates) > 5 else "")
        what = f"'{spelling}' could be any of {listed}"
        raise InputError("profile-ambiguous-flag", what, where=str(origin), try_=_likeliest(spelling, found))
    if found is not None:
        return found, node
    plain = spelling.lstrip("-")
    negated = facts.canonical(plain[3:]) if re.match("no[-_]", plain) else None
    if isinstance(negated, str) and facts.spans[negated][-1].kind == "boolean" and isinstance(node, Leaf):
        return negated, replace(node, value={True: False, False: None}.get(node.value, node.value))
    return plain, node


def _likeliest(spelling: str, found: Ambiguous) -> str:
    """`pp` is most likely `pp-size`; else the shortest."""
    sized = [c for c in found.candidates if c == spelling + "-size"]
    return (sized or sorted(found.candidates, key=len))[0]


def _graph_intent(layer: Table) -> Table:
    """`disable-cuda-graph` in args is `cuda_graphs: false`; false or null takes a parent's intent back."""
    args = layer.entries.get("args")
    node = args.entries.get("disable-cuda-graph") if isinstance(args, Table) else None
    if not isinstance(args, Table) or node is None:
        return layer
    if not isinstance(node, Leaf) or not (node.value is None or isinstance(node.value, bool)):
        what = "'disable-cuda-graph' is a switch: true or false"
        raise InputError("flag-wrong-type", what, where=str(node.origin), try_="cuda_graphs: false")
    said = layer.entries.get("cuda_graphs")
    if isinstance(said, Leaf) and node.value and said.value is True:
        what = f"disable-cuda-graph contradicts cuda_graphs: true at {said.origin}"
        raise InputError("profile-contradiction", what, where=str(node.origin), try_="keep one of them")
    layer = layer.with_entry("args", args.without("disable-cuda-graph"), layer.keys["args"])
    if said is not None and not node.value:
        return layer
    note = "disable-cuda-graph" if node.value else ""
    intent = Leaf(False if node.value else None, node.text, replace(node.origin, note=note))
    return layer.with_entry("cuda_graphs", intent, args.keys["disable-cuda-graph"])


# --- the rest ---------------------------------------------------------------------------------------------------------


def _as_text(node: Node) -> Node:
    """A variable is text: a number as it was written."""
    return replace(node, value=node.text) if isinstance(node, Leaf) and node.value is not None else node


def _limits(table: Table) -> Table:
    """Limits by their names of limits.conf; the letters of ulimit are understood."""
    out = Table({}, {}, table.origin)
    letters = {letter: name for name, letter in LIMITS.items()}
    for key, node in table.entries.items():
        name = letters.get(key.lstrip("-"), key)
        if name not in LIMITS:
            what = f"'{key}' is not a limit of the shell"
            raise InputError("profile-unknown-limit", what, where=str(table.keys[key]), try_=", ".join(LIMITS))
        _check_limit(name, node)
        out = out.with_entry(name, _as_text(node), table.keys[key])
    return out


def _check_limit(name: str, node: Node) -> None:
    if isinstance(node, Leaf) and not (
        node.value is None or node.text in ("unlimited", "hard") or node.text.isdecimal()
    ):
        what = f"'ulimits.{name}' must be a number, unlimited or hard, not {node.text}"
        raise InputError("profile-wrong-type", what, where=str(node.origin), try_=f"{name}: unlimited")


def _allowances(wait: Table) -> Table:
    """Stages by their names: `serving_s` and `serving` are the same."""
    table = wait.entries.get("allowances")
    if not isinstance(table, Table):
        return wait
    out = Table({}, {}, table.origin)
    for key, node in table.entries.items():
        out = out.with_entry(_stage(key, table.keys[key]), node, table.keys[key])
    return wait.with_entry("allowances", out, wait.keys["allowances"])


def _stage(key: str, origin: Origin) -> str:
    name = key.removesuffix("_s").replace("_", "-")
    if name not in STAGES:
        what = f"'{key}' is not a stage"
        raise InputError("profile-unknown-stage", what, where=str(origin), try_=", ".join(f"{s}_s" for s in STAGES))
    return name
