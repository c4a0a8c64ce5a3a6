""" "CUDA graphs off" is an intent: which flags say it changed at 0.5.10 and 0.5.14 (facts: SGLang's own flag lists).

Until 0.5.9 `--disable-cuda-graph` was all. From 0.5.10 prefill had a graph of its own (torch.compile pieces) that this
flag left on; from 0.5.14 each phase names its backend, and the old flag is a deprecated alias.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sglfab.model import Json
from sglfab.sglang.flags import FlagList

OFF = "disabled"
# Newest first: the first whose flags the release all has is the one it needs.
RECIPES: tuple[Mapping[str, Json], ...] = (
    {"cuda-graph-backend-decode": OFF, "cuda-graph-backend-prefill": OFF},
    {"disable-cuda-graph": True, "disable-piecewise-cuda-graph": True},
    {"disable-cuda-graph": True},
)
TURNS_ON = (
    "debug-cuda-graph",
    "enable-breakable-cuda-graph",
    "enable-piecewise-cuda-graph",
    "enforce-piecewise-cuda-graph",
)
TURNS_OFF = ("disable-cuda-graph", "disable-decode-cuda-graph")


@dataclass(frozen=True)
class Contradiction:
    """A flag of the profile that says the opposite of its `cuda_graphs:`."""

    flag: str
    says: str  # on or off


def off_flags(known: FlagList) -> Mapping[str, Json]:
    """The flags that turn every CUDA graph off in that release: name → value."""
    return next(recipe for recipe in RECIPES if all(flag in known.flags for flag in recipe))


def contradictions(args: Mapping[str, Json], *, wanted: bool | None) -> Iterator[Contradiction]:
    """Flags in `args` against the intent. Sizes (`cuda-graph-max-bs` …) say nothing about on or off."""
    if wanted is None:
        return
    for flag, value in args.items():
        says = _says(flag, value)
        if says is not None and says != wanted:
            yield Contradiction(flag, "on" if says else "off")


def _says(flag: str, value: Json) -> bool | None:
    """True: graphs on. False: off. None: nothing."""
    if value is False or value is None:
        return None
    if flag in TURNS_ON:
        return True
    if flag in TURNS_OFF:
        return False
    if flag == "cuda-graph-config":
        return _config_says(value)
    if flag.startswith("cuda-graph-backend-"):
        return value != OFF if flag.endswith("decode") or value != OFF else None
    return None


def _config_says(value: Json) -> bool | None:
    """The JSON wins over every flag, so a backend named in it decides."""
    phases = value.values() if isinstance(value, Mapping) else ()
    backends = [p["backend"] for p in phases if isinstance(p, Mapping) and p.get("backend")]
    return any(b != OFF for b in backends) if backends else None
