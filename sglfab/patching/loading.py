"""configs/patches/NAME.yaml → PatchSet. Every mistake names file, line and the closest known word."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import yaml

from sglfab.model import Json
from sglfab.patching.tap_loading import check_keys, load_tap, wrong
from sglfab.patching.taps import PatchSet, Tap

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml is ten times as fast, where it is there
_SET_KEYS = {"description": str, "max_mb": int, "taps": list}


def load_patch_set(name: str, text: str, *, file: str) -> PatchSet:
    """The set that `text` (YAML) describes. `file` is how the operator knows it. Raises InputError patch-set-…."""
    root, lines = _yaml(text, file)
    check_keys(root, _SET_KEYS, where=file, what="a patch set")
    taps = root.get("taps") or []
    if not taps:
        raise wrong("has no taps", where=file)
    loaded = tuple(load_tap(tap, where=f"{file}:{line}") for tap, line in zip(taps, lines, strict=True))
    _check_unique(loaded, lines, file)
    return PatchSet(name=name, description=root.get("description", ""), taps=loaded, max_mb=root.get("max_mb", 256))


def _yaml(text: str, file: str) -> tuple[Mapping[str, Json], tuple[int, ...]]:
    """The root mapping, and the line of each tap, from 1."""
    loader = _LOADER(text)
    try:
        node = loader.get_single_node()
        if not isinstance(node, yaml.MappingNode):
            raise wrong("is not a mapping", where=file)
        _refuse_duplicates(node, file)
        return loader.construct_document(node), tuple(n.start_mark.line + 1 for n in _taps(node))
    except yaml.MarkedYAMLError as why:
        line = why.problem_mark.line + 1 if why.problem_mark else 0
        raise wrong(f"is not YAML: {why.problem}", where=f"{file}:{line}") from None
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
                raise wrong(f"has {key.value!r} twice", where=f"{file}:{key.start_mark.line + 1}")
            keys.add(key.value)
            _refuse_duplicates(value, file)
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            _refuse_duplicates(item, file)


def _check_unique(taps: Sequence[Tap], lines: Sequence[int], file: str) -> None:
    seen: dict[str, int] = {}
    for tap, line in zip(taps, lines, strict=True):
        if tap.tap in seen:
            raise wrong(
                f"has two taps named {tap.tap}", where=f"{file}:{line}", try_=f"the first is in line {seen[tap.tap]}"
            )
        seen[tap.tap] = line
