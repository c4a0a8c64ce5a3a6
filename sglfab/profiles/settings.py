"""`--set KEY=VALUE`: KEY is a path of dots, or a launch option; VALUE is YAML, and null deletes."""

from __future__ import annotations

import difflib

from sglfab.errors import InputError
from sglfab.model import Origin
from sglfab.profiles.merging import overlay
from sglfab.profiles.schema import KEYS
from sglfab.profiles.yamltree import Table, parse_value
from sglfab.sglang.flags import FlagFacts

USAGE = "--set tp-size=4, --set env.NCCL_DEBUG=INFO, --set patches=[], --set args.mem-fraction-static=null"


def layer_of(text: str, facts: FlagFacts) -> Table:
    """The layer of one --set. Raises InputError for a bare --set, a missing `=`, an unknown KEY or a VALUE not YAML."""
    key, equals, value = text.partition("=")
    key = key.strip()
    if not equals or not key:
        raise InputError("set-malformed", _malformed(text), where="--set", try_=USAGE)
    origin = Origin("--set", note=key)
    if not value.strip():
        what = f"--set {key}= has no value"
        raise InputError("set-malformed", what, where="--set", try_=f"--set {key}=null, or --set {key}='\"\"'")
    return overlay(_path(key, facts), parse_value(value, origin), origin)


def _malformed(text: str) -> str:
    return f"--set takes a key, = and a value, not '{text}'" if text.strip() else "--set takes a key, = and a value"


def _path(key: str, facts: FlagFacts) -> tuple[str, ...]:
    """`args.tp-size` and `tp-size` are the same; a path into nothing that we know is an error."""
    first, *rest = key.lstrip("-").split(".")
    if first == "extends":
        what = "extends cannot be set here"
        raise InputError("set-extends", what, where="--set", try_="a profile file that extends both")
    if first in KEYS:
        return (first, *rest)
    if facts.canonical(first) is None and (near := difflib.get_close_matches(first, KEYS, n=1, cutoff=0.7)):
        what = f"'{first}' is neither a key of a profile nor a launch option"
        raise InputError("set-unknown-key", what, where=f"--set {key}", try_=near[0])
    return ("args", first, *rest)
