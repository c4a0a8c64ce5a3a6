"""The flags of a profile against the list of the release that will read them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sglfab.errors import InputError
from sglfab.model import Json, Origin
from sglfab.sglang.flags import FlagFacts, FlagList
from sglfab.sglang.graphs import contradictions

UNKNOWN = Origin("the profile")


def known_flag(name: str, origin: Origin, facts: FlagFacts, at: FlagList) -> str | None:
    """Check that the release has the flag; a note where that cannot be known. Raises InputError flag-unknown."""
    if name in at.flags:
        return None
    if at.basis.relation == "newer":
        near = f"; did you mean {at.nearest(name)[0]}?" if at.nearest(name) else ""
        return f"--{name} ({origin}) is not in the newest list that fab has (SGLang {at.basis.release}){near}"
    elsewhere = facts.known_in(name)
    what = f"'{name}' is not a launch option of SGLang {at.basis.wanted}"
    if elsewhere:
        what += f" (it is one of {elsewhere})"
    raise InputError("flag-unknown", what, where=str(origin), try_=_instead(name, facts, at))


def _instead(name: str, facts: FlagFacts, at: FlagList) -> str:
    successor = facts.successor(name)
    if successor:
        return successor
    near = [n for n in at.nearest(name) if n != name]
    return " or ".join(near[:2]) if near else "remove it"


def retired(name: str, origin: Origin, at: FlagList) -> str | None:
    """A note for a deprecated flag. Raises InputError flag-refused for one at which SGLang stops."""
    flag = at.flags[name]
    if flag.refused:
        what = f"SGLang {at.basis.wanted} refuses --{name}"
        raise InputError("flag-refused", what, where=str(origin), try_=flag.use)
    if not flag.deprecated:
        return None
    instead = f"; instead: {flag.use}" if flag.use else ""
    return f"--{name} ({origin}) is deprecated in SGLang {at.basis.wanted}{instead}"


def graph_intent(args: Mapping[str, Json], wanted: bool | None, origins: Mapping[str, Origin]) -> None:
    """Raise InputError profile-contradiction where a flag says the opposite of `cuda_graphs:`."""
    for found in contradictions(args, wanted=wanted):
        said = origins.get("cuda_graphs", UNKNOWN)
        what = f"--{found.flag} turns CUDA graphs {found.says}, and cuda_graphs is {str(wanted).lower()} at {said}"
        at = origins.get(f"args.{found.flag}", UNKNOWN)
        raise InputError("profile-contradiction", what, where=str(at), try_=f"{found.flag}: null, or cuda_graphs: null")


def several_nodes(args: Mapping[str, Json], origins: Mapping[str, Origin]) -> None:
    """Raise InputError for the multi-node arguments that SGLang asserts without a message."""
    nodes, tp = _whole(args.get("nnodes", 1)), _whole(args.get("tp-size", 1))
    if nodes is None or nodes < 2:
        return
    at = str(origins.get("args.nnodes", UNKNOWN))
    if "dist-init-addr" not in args:
        what = f"nnodes is {nodes}, and dist-init-addr says nothing of where the first node listens"
        raise InputError("flag-missing", what, where=at, try_="dist-init-addr: HOST:PORT of the first node")
    if tp is not None and tp % nodes:
        what = f"tp-size {tp} cannot be spread over {nodes} nodes evenly"
        raise InputError("flag-bad-value", what, where=at, try_=f"a multiple of {nodes}")


def _whole(value: Json) -> int | None:
    return int(value) if str(value).isdecimal() else None


def hazards(args: Mapping[str, Json], env: Mapping[str, str], origins: Mapping[str, Origin]) -> Iterator[str]:
    """Notes on what starts well and misleads later."""
    for name, why in (
        ("SGLANG_SIMULATE_ACC_LEN", "fakes the acceptance length"),
        ("SGLANG_DEBUG_REVERT_PR", "brings old bugs back on purpose"),
    ):
        if env.get(name):
            yield f"{name} ({origins.get(f'env.{name}', UNKNOWN)}) {why}"
    if args.get("config"):
        yield "--config reads more options on the host, which fab cannot see: those of this command win"
    for flag in ("model-path", "speculative-draft-model-path", "tokenizer-path"):
        if str(args.get(flag, "")).startswith("~"):
            yield f"--{flag} begins with ~, which SGLang does not expand: write the absolute path"
