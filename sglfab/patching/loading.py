"""configs/patches/NAME.yaml → PatchSet. Every mistake names file, line and the closest known word."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence

import yaml

from sglfab.errors import InputError
from sglfab.model import Json
from sglfab.patching.taps import ROLES, VERBS, PatchSet, Tap, TensorRule, ValueRule

_NAME = re.compile(r"[a-z0-9][a-z0-9-]*")
_MODULE = re.compile(r"(?:\w+/)+\w+\.py")
_OBJECT = re.compile(r"[A-Za-z_]\w*\.[A-Za-z_]\w*")
_PATH = re.compile(r"(?:args\.[A-Za-z_]\w*|return|self)(?:\.\w+)*")
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml is ten times as fast, where it is there
_SET_KEYS = {"description": str, "max_mb": int, "taps": list}
_TAP_KEYS = {
    "tap": str,
    "module": str,
    "object": str,
    "role": str,
    "encloses": bool,
    "inherited": bool,
    "required": bool,
    "mode": str,
    "when": list,
    "every": int,
    "max_records": int,
    "tensors": dict,
    "values": dict,
}


def load_patch_set(name: str, text: str, *, file: str) -> PatchSet:
    """The set that `text` (YAML) describes. `file` is how the operator knows it. Raises InputError patch-set-…."""
    root, lines = _yaml(text, file)
    _check_keys(root, _SET_KEYS, where=file, what="a patch set")
    taps = root.get("taps") or []
    if not taps:
        raise _wrong("has no taps", where=file)
    loaded = tuple(_tap(tap, where=f"{file}:{line}") for tap, line in zip(taps, lines, strict=True))
    _check_unique(loaded, lines, file)
    return PatchSet(name=name, description=root.get("description", ""), taps=loaded, max_mb=root.get("max_mb", 256))


def _yaml(text: str, file: str) -> tuple[Mapping[str, Json], tuple[int, ...]]:
    """The root mapping, and the line of each tap, from 1."""
    loader = _LOADER(text)
    try:
        node = loader.get_single_node()
        if not isinstance(node, yaml.MappingNode):
            raise _wrong("is not a mapping", where=file)
        _refuse_duplicates(node, file)
        return loader.construct_document(node), tuple(n.start_mark.line + 1 for n in _taps(node))
    except yaml.MarkedYAMLError as why:
        line = why.problem_mark.line + 1 if why.problem_mark else 0
        raise _wrong(f"is not YAML: {why.problem}", where=f"{file}:{line}") from None
    finally:
        loader.dispose()


def _taps(root: yaml.MappingNode) -> Sequence[yaml.Node]:
    found = next((value for key, value in root.value if key.value == "taps"), None)
    return found.value if isinstance(found, yaml.SequenceNode) else ()


def _refuse_duplicates(node: yaml.Node, file: str) -> None:
    """YAML lets the later of two like keys win without a word."""
    if isinstance(node, yaml.MappingNode):
        keys: set[str] = set()
        for key, value in node.value:
            if key.value in keys:
                raise _wrong(f"has {key.value!r} twice", where=f"{file}:{key.start_mark.line + 1}")
            keys.add(key.value)
            _refuse_duplicates(value, file)
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            _refuse_duplicates(item, file)


def _tap(raw: Json, *, where: str) -> Tap:
    if not isinstance(raw, Mapping):
        raise _wrong("has a tap that is not a mapping", where=where)
    _check_keys(raw, _TAP_KEYS, where=where, what="a tap")
    for key, shape in (("tap", _NAME), ("module", _MODULE), ("object", _OBJECT)):
        if not shape.fullmatch(raw.get(key) or ""):
            raise _wrong(f"needs `{key}:` like {_LIKE[key]}, not {raw.get(key)!r}", where=where)
    if raw.get("role") not in ROLES:
        raise _wrong(f"needs `role:` {', '.join(ROLES)}, not {raw.get('role')!r}", where=where)
    plain = {key: raw[key] for key in _PLAIN if key in raw}
    return Tap(
        **plain,
        mode=_path(raw["mode"], where) if "mode" in raw else "",
        when=tuple(str(mode).upper() for mode in raw.get("when", ())),
        tensors=tuple(_tensor(name, rule, where) for name, rule in raw.get("tensors", {}).items()),
        values=tuple(_value(name, rule, where) for name, rule in raw.get("values", {}).items()),
    )


_PLAIN = ("tap", "module", "object", "role", "encloses", "inherited", "required", "every", "max_records")
_LIKE = {"tap": "target-model", "module": "srt/models/deepseek_v2.py", "object": "DeepseekV2Model.forward"}


def _tensor(name: str, rule: Json, where: str) -> TensorRule:
    if isinstance(rule, Mapping):
        _check_keys(rule, {"path": str, "rows": int, "split": str}, where=where, what=f"the tensor {name}")
        split = _path(rule["split"], where) if "split" in rule else ""
        return TensorRule(name, _path(rule.get("path"), where), rows=rule.get("rows", 0), split=split)
    return TensorRule(name, _path(rule, where))


def _value(name: str, rule: Json, where: str) -> ValueRule:
    path, _, verb = (part.strip() for part in str(rule).partition("|"))
    if verb and verb not in VERBS:
        raise _wrong(f"knows no `| {verb}`", where=where, try_=", ".join(VERBS))
    return ValueRule(name, _path(path, where), verb)


def _path(path: Json, where: str) -> str:
    if not isinstance(path, str) or not _PATH.fullmatch(path):
        raise _wrong(
            f"has a path {path!r}", where=where, try_="args.NAME…, return… or self…, as in args.forward_batch.spec_info"
        )
    return path


def _check_keys(raw: Mapping[str, Json], known: Mapping[str, type], *, where: str, what: str) -> None:
    for key, value in raw.items():
        if key not in known:
            close = difflib.get_close_matches(str(key), known, n=1)
            raise _wrong(
                f"has {key!r}, which is no key of {what}", where=where, try_=close[0] if close else ", ".join(known)
            )
        # bool is an int in Python, but `every: true` is a mistake.
        if not isinstance(value, known[key]) or (isinstance(value, int) and known[key] is int and not _is_count(value)):
            raise _wrong(f"has {key}: {value!r}, which is no {known[key].__name__}", where=where)


def _is_count(value: int) -> bool:
    return not isinstance(value, bool) and value >= 0


def _check_unique(taps: Sequence[Tap], lines: Sequence[int], file: str) -> None:
    seen: dict[str, int] = {}
    for tap, line in zip(taps, lines, strict=True):
        if tap.tap in seen:
            raise _wrong(
                f"has two taps named {tap.tap}", where=f"{file}:{line}", try_=f"the first is in line {seen[tap.tap]}"
            )
        seen[tap.tap] = line


def _wrong(what: str, *, where: str, try_: str = "") -> InputError:
    return InputError(
        "patch-set-invalid", f"the patch set {what}", where=where, try_=try_ or "docs/runbooks/read-the-debug-trace.md"
    )
