"""`${env:NAME}` and `${env:NAME:-default}` in the text of a profile, from the operator's environment.

Nothing else is expanded: `$HOME`, `$()` and `${NAME}` arrive at the server as written; `$${env:` stands for `${env:`.
A text that begins with an expansion which gives `~/…` becomes an absolute path of the operator's machine.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from sglfab.errors import InputError
from sglfab.model import Origin
from sglfab.profiles.secret_words import env_is_secret
from sglfab.profiles.yamltree import Items, Leaf, Node, Table

REFERENCE = re.compile(r"(?P<escaped>\$)?\$\{env:(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^}]*))?\}")


def expand(node: Node, environ: Mapping[str, str]) -> Node:
    """The tree with its references replaced, each noted in the origin. Raises InputError for an unset variable."""
    match node:
        case Table(entries=entries):
            return replace(node, entries={key: expand(child, environ) for key, child in entries.items()})
        case Items(items=items):
            return replace(node, items=tuple(expand(child, environ) for child in items))
    return _leaf(node, environ)


def _leaf(leaf: Leaf, environ: Mapping[str, str]) -> Leaf:
    if not isinstance(leaf.value, str) or "${env:" not in leaf.value:
        return leaf
    text = REFERENCE.sub(lambda match: _value(match, leaf.origin, environ), leaf.value)
    used = [m for m in REFERENCE.finditer(leaf.value) if not m["escaped"]]
    if leaf.value.startswith("${env:") and re.match(r"~(?:/|$)", text):
        text = environ.get("HOME", "~") + text[1:]
    note = ", ".join(dict.fromkeys(_note(m["name"], environ) for m in used)) or leaf.origin.note
    return Leaf(text, text, replace(leaf.origin, note=note))


def _note(name: str, environ: Mapping[str, str]) -> str:
    return f"${name} of this machine" if environ.get(name) else f"default of ${name}"


def _value(match: re.Match[str], origin: Origin, environ: Mapping[str, str]) -> str:
    name = match["name"]
    if match["escaped"]:
        return match[0][1:]
    if env_is_secret(name):
        raise InputError(
            "profile-literal-secret",
            f"${{env:{name}}} would write a secret into launch.sh and run.json",
            where=str(origin),
            try_=f"secrets: with {{env: {name}}}",
        )
    value = environ.get(name) or match["default"]
    if value is None:
        what = f"${{env:{name}}} is not set on this machine"
        raise InputError(
            "profile-env-unset", what, where=str(origin), try_=f"export {name}=… or ${{env:{name}:-default}}"
        )
    return value
