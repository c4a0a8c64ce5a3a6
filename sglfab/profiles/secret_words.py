"""A secret written as a value would end up in `ps`, launch.sh and run.json: refuse it and say how to do it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from sglfab.errors import InputError
from sglfab.model import Origin
from sglfab.profiles.yamltree import Leaf, Table, leaves

WORDS = frozenset({"TOKEN", "KEY", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "APIKEY", "CREDENTIAL", "CREDENTIALS"})
# Whole flags: in SGLang's names `token` and `key` mostly speak of text and caches (speculative-token-map).
SECRET_FLAGS = re.compile(r"(?:^|-)(?:api-key|password|secret)$")
POINTERS = frozenset({"PATH", "FILE", "DIR", "NAME", "ID", "TYPE", "LEN", "SIZE", "COUNT"})
HARMLESS = re.compile(r"|0|1|true|false|yes|no|on|off|none|\d{1,6}", re.IGNORECASE)
URL_PASSWORD = re.compile(r"\w://[^/\s:@]+:[^/\s@]+@")


def env_is_secret(name: str) -> bool:
    """Whether a variable's name says that it holds a secret: whole words, so TOKENIZERS_PARALLELISM does not."""
    words = name.upper().split("_")
    return bool(WORDS & set(words)) and words[-1] not in POINTERS


def flag_is_secret(name: str) -> bool:
    return bool(SECRET_FLAGS.search(name))


def refuse_literals(layer: Table) -> None:
    """layer: a canonical layer of a profile. Raises InputError profile-literal-secret, never with the value."""
    for target, origin in _literals(layer):
        variable = target.partition(".")[2].upper().replace("-", "_")
        raise InputError(
            "profile-literal-secret",
            f"{target} is a secret, and a value written here would show in ps, launch.sh and run.json",
            where=str(origin),
            # Worded so that the redaction of our own output leaves it whole: `NAME: value` would be starred.
            try_=f"say under secrets: where {target} comes from, {{env: {variable}}}, {{file: …}} or {{command: …}}",
        )


def _literals(layer: Table) -> Iterator[tuple[str, Origin]]:
    for group, by_name in (("env", env_is_secret), ("args", flag_is_secret)):
        table = layer.entries.get(group)
        for path, leaf in leaves(table) if isinstance(table, Table) else ():
            if isinstance(leaf, Leaf) and path and _is_secret(by_name(path[0]), leaf):
                yield f"{group}.{path[0]}", leaf.origin


def _is_secret(named_so: bool, leaf: Leaf) -> bool:
    if leaf.value is None or isinstance(leaf.value, bool):
        return False
    return bool(named_so and not HARMLESS.fullmatch(leaf.text)) or bool(URL_PASSWORD.search(leaf.text))
