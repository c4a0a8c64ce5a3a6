"""SGLang's rules for speculative decoding, some of which it checks with a bare assert, and some not at all."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from sglfab.commands.lint import UNKNOWN
from sglfab.errors import InputError
from sglfab.model import Json, Origin
from sglfab.sglang.releases import parse

TREE = ("speculative-num-steps", "speculative-eagle-topk", "speculative-num-draft-tokens")
DRAFT = "speculative-draft-model-path"
ALGORITHM = "speculative-algorithm"
EAGLES = ("EAGLE", "EAGLE3", "NEXTN", "STANDALONE")  # those whose three numbers belong together
# Since when a target can hand its hidden states to an EAGLE-3 draft; the first pattern that fits the model's name.
EAGLE3_SINCE = (("kimi[-_]?k2[._-]?5", "0.5.10", "Kimi-K2.5"), ("deepseek|kimi[-_]?k2", "0.5.5", "DeepSeek-V3"))


def check(args: Mapping[str, Json], origins: Mapping[str, Origin]) -> None:
    """Raise InputError spec-params where SGLang would die of an empty assert or of `None > 1`."""
    if _algorithm(args) not in EAGLES:
        return
    given = [flag for flag in TREE if args.get(flag) is not None]
    missing = [flag for flag in TREE if flag not in given]
    if given and missing:
        what = f"{' and '.join(given)} without {' and '.join(missing)}: SGLang needs all three or none"
        raise InputError("spec-params", what, where=_at(origins, given[0]), try_=_completed(args, missing))


def _completed(args: Mapping[str, Json], missing: list[str]) -> str:
    steps = args.get(TREE[0], 3)
    values = {TREE[0]: 3, TREE[1]: 1, TREE[2]: steps + 1 if isinstance(steps, int) else 4}
    return ", ".join(f"{flag}: {values[flag]}" for flag in missing)


def notes(args: Mapping[str, Json], release: str) -> Iterator[str]:
    """What SGLang changes or lets pass in silence."""
    algorithm = _algorithm(args)
    if not algorithm:
        if any(flag.startswith("speculative-") for flag in args):
            yield f"--{ALGORITHM} is not set: the other speculative options do nothing"
        return
    yield from _number_notes(args)
    draft = str(args.get(DRAFT) or "")
    if algorithm == "EAGLE3" and not draft:
        yield f"EAGLE3 without --{DRAFT}: a checkpoint hardly brings an EAGLE-3 draft of its own"
    if algorithm == "EAGLE" and re.search(r"eagle-?_?3", draft, re.IGNORECASE):
        yield (
            "EAGLE with what looks like an EAGLE-3 draft: SGLang starts, captures no hidden states "
            f"and accepts nothing; {ALGORITHM}: EAGLE3"
        )
    if algorithm == "EAGLE3":
        yield from _target_notes(str(args.get("model-path") or ""), release)


def _number_notes(args: Mapping[str, Json]) -> Iterator[str]:
    steps, topk, tokens = (args.get(flag) for flag in TREE)
    if isinstance(steps, int) and topk == 1 and isinstance(tokens, int) and tokens != steps + 1:
        yield f"topk is 1, so SGLang makes {TREE[2]} {steps + 1} (steps + 1), whatever it is set to ({tokens})"


def _target_notes(model: str, release: str) -> Iterator[str]:
    for pattern, since, family in EAGLE3_SINCE:
        if re.search(pattern, model, re.IGNORECASE):
            if parse(release) < parse(since):
                yield f"{family} takes an EAGLE-3 draft from SGLang {since} on: {release} fails while loading the draft"
            return


def _algorithm(args: Mapping[str, Json]) -> str:
    return str(args.get(ALGORITHM) or "").upper()


def _at(origins: Mapping[str, Origin], flag: str) -> str:
    return str(origins.get(f"args.{flag}", UNKNOWN))
