"""One tap of a patch set: YAML mapping → Tap. Every mistake names the line and the closest known word."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping

from sglfab.errors import InputError
from sglfab.model import Json
from sglfab.patching.inserts import cannot_follow
from sglfab.patching.statements import statement_shape
from sglfab.patching.taps import PLACES, ROLES, VERBS, Insert, Tap, TensorRule, ValueRule
from sglfab.sglang.releases import parse

_NAME = re.compile(r"[a-z0-9][a-z0-9-]*")
_MODULE = re.compile(r"(?:\w+/)+\w+\.py")
_OBJECT = re.compile(r"[A-Za-z_]\w*\.[A-Za-z_]\w*")
_PATH = re.compile(r"(?:(?:args|locals)\.[A-Za-z_]\w*|return|self)(?:\.\w+)*")
KEYS = {
    "tap": str,
    "module": str,
    "object": str,
    "role": str,
    "insert": dict,
    "encloses": bool,
    "inherited": bool,
    "required": bool,
    "since": str,
    "until": str,
    "draft": list,
    "mode": str,
    "weights": str,
    "graph_safe": bool,
    "when": list,
    "every": int,
    "max_records": int,
    "tensors": dict,
    "values": dict,
}
_PLAIN = ("tap", "module", "object", "role", "encloses", "inherited", "required", "graph_safe", "every", "max_records")
_OF_A_CALL = ("encloses", "inherited", "mode", "weights", "graph_safe")  # what a line inside a method cannot do
_LIKE = {"tap": "target-model", "module": "srt/models/deepseek_v2.py", "object": "DeepseekV2Model.forward"}
_TENSOR_KEYS = {"path": str, "rows": int, "split": str, "sample_rows": int}


def load_tap(raw: Json, *, where: str) -> Tap:
    """The tap that `raw` describes. where: FILE:LINE. Raises InputError patch-set-invalid."""
    if not isinstance(raw, Mapping):
        raise wrong("has a tap that is not a mapping", where=where)
    check_keys(raw, KEYS, where=where, what="a tap")
    for key, shape in (("tap", _NAME), ("module", _MODULE), ("object", _OBJECT)):
        if not shape.fullmatch(raw.get(key) or ""):
            raise wrong(f"needs `{key}:` like {_LIKE[key]}, not {raw.get(key)!r}", where=where)
    if raw.get("role") not in ROLES:
        raise wrong(f"needs `role:` {', '.join(ROLES)}, not {raw.get('role')!r}", where=where)
    tap = Tap(
        **{key: raw[key] for key in _PLAIN if key in raw},
        insert=_insert(raw["insert"], where) if "insert" in raw else None,
        since=_release(raw, "since", where),
        until=_release(raw, "until", where),
        draft=tuple(str(name) for name in raw.get("draft", ())),
        mode=_path(raw["mode"], where) if "mode" in raw else "",
        weights=_path(raw["weights"], where) if "weights" in raw else "",
        when=tuple(str(mode).upper() for mode in raw.get("when", ())),
        tensors=tuple(_tensor(name, rule, where) for name, rule in raw.get("tensors", {}).items()),
        values=tuple(value for name, rule in raw.get("values", {}).items() for value in _values(name, rule, where)),
    )
    _check_roots(tap, raw, where)
    return tap


def _insert(raw: Mapping[str, Json], where: str) -> Insert:
    check_keys(raw, dict.fromkeys(PLACES, str), where=where, what="an insert")
    if len(raw) != 1:
        raise wrong("needs one of `before:` and `after:` in `insert:`", where=where)
    ((place, anchor),) = raw.items()
    insert = Insert(place, anchor)
    try:
        statement_shape(anchor)
    except ValueError as why:
        raise wrong(f"has an anchor {anchor!r} that {why}", where=where) from None
    if cannot_follow(insert):
        raise wrong(f"inserts after {anchor!r}, where nothing runs any more", where=where, try_="before")
    return insert


def _check_roots(tap: Tap, raw: Mapping[str, Json], where: str) -> None:
    """A line inside a method sees its locals; a wrapper around it sees the call."""
    if tap.insert and (wanted := next((key for key in _OF_A_CALL if raw.get(key)), None)):
        raise wrong(f"has {wanted!r} in the insert {tap.tap}; only a wrapped method has it", where=where)
    for path in (*(rule.path for rule in tap.rules), *(rule.split for rule in tap.tensors if rule.split)):
        if path.startswith("locals.") is not bool(tap.insert):
            root = "locals.NAME… in an insert" if tap.insert else "args.NAME…, return… or self… where no insert is"
            raise wrong(f"has a path {path!r}", where=where, try_=root)
    if tap.weights and not tap.weights.startswith("args."):
        raise wrong(f"has weights: {tap.weights!r}", where=where, try_="args.NAME, the argument with the weights")


def _release(raw: Mapping[str, Json], key: str, where: str) -> str:
    text = raw.get(key, "")
    try:
        return str(parse(text)) if text else ""
    except InputError as error:
        raise wrong(f"has {key}: {text!r}, which is no release of SGLang", where=where, try_=error.try_) from None


def _tensor(name: str, rule: Json, where: str) -> TensorRule:
    if not isinstance(rule, Mapping):
        return TensorRule(name, _path(rule, where))
    check_keys(rule, _TENSOR_KEYS, where=where, what=f"the tensor {name}")
    split = _path(rule["split"], where) if "split" in rule else ""
    counts = {key: rule.get(key, 0) for key in ("rows", "sample_rows")}
    return TensorRule(name, _path(rule.get("path"), where), split=split, **counts)


def _values(name: str, rule: Json, where: str) -> tuple[ValueRule, ...]:
    """One rule, or one for each name that the releases had for the same thing."""
    return tuple(_value(name, one, where) for one in (rule if isinstance(rule, list) else [rule]))


def _value(name: str, rule: Json, where: str) -> ValueRule:
    path, _, verb = (part.strip() for part in str(rule).partition("|"))
    if verb and verb not in VERBS:
        raise wrong(f"knows no `| {verb}`", where=where, try_=", ".join(VERBS))
    return ValueRule(name, _path(path, where), verb)


def _path(path: Json, where: str) -> str:
    if not isinstance(path, str) or not _PATH.fullmatch(path):
        tried = "args.NAME…, return…, self… or, in an insert, locals.NAME…, as in args.forward_batch.spec_info"
        raise wrong(f"has a path {path!r}", where=where, try_=tried)
    return path


def check_keys(raw: Mapping[str, Json], known: Mapping[str, type], *, where: str, what: str) -> None:
    for key, value in raw.items():
        if key not in known:
            close = difflib.get_close_matches(str(key), known, n=1)
            tried = close[0] if close else ", ".join(known)
            raise wrong(f"has {key!r}, which is no key of {what}", where=where, try_=tried)
        # bool is an int in Python, but `every: true` is a mistake.
        if not isinstance(value, known[key]) or (isinstance(value, int) and known[key] is int and not _is_count(value)):
            raise wrong(f"has {key}: {value!r}, which is no {known[key].__name__}", where=where)


def _is_count(value: int) -> bool:
    return not isinstance(value, bool) and value >= 0


def wrong(what: str, *, where: str, try_: str = "") -> InputError:
    return InputError("patch-set-invalid", f"the patch set {what}", where=where, try_=try_ or "docs/patch-sets.md")
