"""YAML → Signature, with file:line errors."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from pathlib import Path

import yaml

from sglfab.diagnosis.signature import DEFAULT_KINDS, KINDS, Advice, Conditions, Pattern, Signature
from sglfab.errors import InputError
from sglfab.model import STAGES, Json
from sglfab.project import Project

_LOADER: type = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_KEYS = [
    "id",
    "category",
    "title",
    "severity",
    "confidence",
    "role",
    "stage",
    "patterns",
    "when",
    "yields_to",
    "explanation",
    "advice",
    "wrong_when",
    "source",
    "transient",
    "retired",
    "detected",
    "samples",
    "near_misses",
]
_WHEN = ["stage", "draft", "frames", "not_frames", "also", "unless", "at_least", "ended"]
_PATTERN = ["needle", "regex", "in"]
_ADVICE = ["say", "stage", "draft", "since", "before"]
_REQUIRED = ["id", "category", "title", "patterns", "advice", "explanation", "source", "samples", "near_misses"]
_FROM_LOG = ("patterns", "samples", "near_misses")  # not needed by what only observations of the host can show
_CHOICES = {
    "detected": ("log", "host"),
    "severity": ("fatal", "warning", "info"),
    "confidence": ("high", "medium", "low"),
    "role": ("cause", "echo"),
    "stage": STAGES,
}


class _Bad(Exception):
    """What is wrong with a file; `key` is the text whose line is shown."""

    def __init__(self, what: str, key: str = "", try_: str = "") -> None:
        super().__init__(what)
        self.what, self.key, self.try_ = what, key, try_


def read(project: Project, path: Path) -> Signature:
    """One signature. Raises InputError `signature-invalid` with file:line."""
    text = project.read(path)
    shown = project.shown(path)
    try:
        raw = yaml.load(text, Loader=_LOADER)  # the safe loader, in C
        return _signature(raw, path, shown)
    except yaml.MarkedYAMLError as why:
        at = f"{shown}:{why.problem_mark.line + 1}" if why.problem_mark else shown
        raise InputError("signature-invalid", f"not YAML: {why.problem}", where=at, try_="fix the file") from None
    except _Bad as why:
        raise InputError(
            "signature-invalid", why.what, where=f"{shown}:{_line_of(text, why.key)}", try_=why.try_
        ) from None


def closest(name: str, known: Iterable[str]) -> str | None:
    return next(iter(difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)), None)


def _line_of(text: str, key: str) -> int:
    lines = text.split("\n")
    return next((n for n, line in enumerate(lines, 1) if key and key in line), 1)


def _signature(raw: Json, path: Path, shown: str) -> Signature:
    if not isinstance(raw, dict):
        raise _Bad("a signature is a mapping", try_="id: " + path.stem)
    _known(raw, _KEYS)
    by_host = raw.get("detected") == "host"
    for key in _REQUIRED:
        if by_host and key in _FROM_LOG:
            continue
        if key not in raw:
            raise _Bad(f"{key!r} is missing", try_=f"{key}: …")
    if raw["id"] != path.stem:
        raise _Bad(f"id {raw['id']!r} is not the file's name", "id:", f"id: {path.stem}")
    if raw["id"].split(".")[0] != path.parent.name:
        raise _Bad(f"{raw['id']!r} does not belong into the folder {path.parent.name!r}", "id:")
    for key, choices in _CHOICES.items():
        _choice(raw, key, choices)
    return Signature(
        id=raw["id"],
        category=str(raw["category"]),
        title=str(raw["title"]),
        patterns=tuple(_pattern(p) for p in _list(raw, "patterns")) if "patterns" in raw else (),
        advice=tuple(_advice(a) for a in _list(raw, "advice")),
        severity=raw.get("severity", "fatal"),
        confidence=raw.get("confidence", "high"),
        role=raw.get("role", "cause"),
        stage=raw.get("stage"),
        when=_conditions(raw.get("when") or {}),
        yields_to=tuple(raw.get("yields_to") or ()),
        explanation=str(raw["explanation"]).strip(),
        wrong_when=str(raw.get("wrong_when") or "").strip(),
        source=str(raw["source"]).strip(),
        transient=bool(raw.get("transient")),
        retired=bool(raw.get("retired")),
        path=shown,
        extra={k: tuple(map(str, raw.get(k) or ())) for k in ("samples", "near_misses")},
    )


def _conditions(raw: Mapping[str, Json]) -> Conditions:
    _known(raw, _WHEN)
    stages = tuple(_list(raw, "stage")) if "stage" in raw else ()
    for stage in stages:
        if stage not in STAGES:
            raise _Bad(f"{stage!r} is no stage", stage, closest(stage, STAGES) or "")
    for key in ("frames", "not_frames"):
        _regex(raw.get(key))
    return Conditions(
        stages=stages,
        draft=raw.get("draft"),
        frames=raw.get("frames"),
        not_frames=raw.get("not_frames"),
        also=tuple(_pattern(p) for p in raw.get("also") or ()),
        unless=tuple(_pattern(p) for p in raw.get("unless") or ()),
        at_least=int(raw.get("at_least", 1)),
        ended=raw.get("ended"),
    )


def _pattern(raw: Json) -> Pattern:
    if isinstance(raw, str):
        raw = {"needle": raw}
    _known(raw, _PATTERN)
    needle = raw.get("needle")
    needles = tuple(needle) if isinstance(needle, list) else (needle,)
    if not all(isinstance(n, str) and len(n) >= 3 for n in needles):
        raise _Bad(
            "a pattern needs a `needle` of at least three characters",
            str(needle),
            "needle: text that every match holds",
        )
    kinds = tuple(raw.get("in") or DEFAULT_KINDS)
    for kind in kinds:
        if kind not in KINDS:
            raise _Bad(f"{kind!r} is no kind of line", kind, closest(kind, KINDS) or ", ".join(KINDS))
    _regex(raw.get("regex"))
    return Pattern(needles, raw.get("regex"), kinds)


def _advice(raw: Json) -> Advice:
    if isinstance(raw, str):
        return Advice(raw)
    _known(raw, _ADVICE)
    if "say" not in raw:
        raise _Bad("advice needs `say`", "advice:", "say: …")
    stages = tuple(_list(raw, "stage")) if "stage" in raw else ()
    since, before = (str(raw[k]) if k in raw else None for k in ("since", "before"))
    return Advice(str(raw["say"]), stages, raw.get("draft"), since, before)


def _regex(text: str | None) -> None:
    """Only a glance here, for speed; tests compile every one."""
    if text is not None and not isinstance(text, str):
        raise _Bad("a regular expression is text", str(text))


def _list(raw: Mapping[str, Json], key: str) -> list[Json]:
    value = raw[key]
    if isinstance(value, str) and key == "stage":
        return [value]
    if not isinstance(value, list) or not value:
        raise _Bad(f"{key!r} is a list", f"{key}:", f"{key}:\n  - …")
    return value


def _known(raw: Json, known: Iterable[str]) -> None:
    if not isinstance(raw, dict):
        raise _Bad(f"expected a mapping, not {raw!r}", str(raw))
    for key in raw:
        if key not in known:
            raise _Bad(f"unknown key {key!r}", f"{key}:", closest(str(key), known) or "")


def _choice(raw: Mapping[str, Json], key: str, choices: Iterable[str]) -> None:
    if raw.get(key) is not None and raw[key] not in choices:
        raise _Bad(f"{key} cannot be {raw[key]!r}", f"{key}:", closest(str(raw[key]), choices) or " | ".join(choices))
