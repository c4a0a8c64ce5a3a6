"""What became of a run, kept beside it; and what changed since its profile was last ready."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from sglfab.diagnosis.expectation import share
from sglfab.errors import SglfabError
from sglfab.flows.events import Report, Said
from sglfab.model import Json, Verdict
from sglfab.transports.host import Host

ABSENT = "(absent)"


def keep(host: Host, run_id: str, verdict: Verdict, report: Report) -> None:
    """Write verdict.json into the run folder. That it cannot be written changes no verdict: it is said."""
    if verdict.verdict == "unreachable":
        return
    whole = verdict.to_json()
    kept = {key: whole[key] for key in ("verdict", "stage", "elapsed_s", "timeline")}
    kept["primary"] = verdict.primary.id if verdict.primary else None
    try:
        host.call("record", {"run_id": run_id, "verdict": kept})
    except SglfabError as why:
        report(Said(f"the verdict is not recorded beside the run: {why.what}", "warning"))


def last_ready(run: Json, runs: Sequence[Json]) -> Json | None:
    """The newest earlier run of the same profile that was ready. runs: newest first."""
    older = (r for r in runs if r["id"] != run["id"] and r["created"] <= run["created"])
    return next((r for r in older if r["profile"] == run["profile"] and _was_ready(r)), None)


def _was_ready(run: Json) -> bool:
    return (run.get("verdict") or {}).get("verdict") == "ready"


def former(run: Json, runs: Sequence[Json]) -> dict[str, tuple[float, ...]]:
    """What each part of a start (`share`) took in every ready run of this profile with the same models and ranks."""
    took: dict[str, tuple[float, ...]] = {}
    for other in runs:
        if other["id"] != run["id"] and _alike(run, other) and _was_ready(other):
            for part, seconds in _times(other["verdict"].get("timeline") or ()).items():
                took[part] = (*took.get(part, ()), seconds)
    return took


def _alike(run: Json, other: Json) -> bool:
    """Whether the times of one run say something about the other: `--set` may have put another model in its place."""
    same = all(run["plan"].get(name) == other["plan"].get(name) for name in ("model_path", "draft_path", "tp_size"))
    return same and bool(run["profile"] == other["profile"])


def _times(timeline: Sequence[Json]) -> dict[str, float]:
    times: dict[str, float] = {}
    for span in timeline:
        if span["start_s"] is not None and span["end_s"] is not None:
            part = share(span["stage"], span["draft"])
            times[part] = times.get(part, 0.0) + span["end_s"] - span["start_s"]
    return times


def changed(run: Json, runs: Sequence[Json]) -> tuple[str, ...]:
    """One line for each argument, variable, version and patch that differs from the profile's last ready run."""
    before = last_ready(run, runs)
    return tuple(_differences(before, run)) if before else ()


def _differences(before: Json, now: Json) -> Iterator[str]:
    yield from _of_pairs(_flags(before["plan"]["argv"]), _flags(now["plan"]["argv"]))
    yield from _of_pairs(_variables(before), _variables(now))
    yield from _of_pairs(_facts(before), _facts(now))


def _of_pairs(before: Mapping[str, str], now: Mapping[str, str]) -> Iterator[str]:
    for name in dict.fromkeys((*before, *now)):
        was, is_ = before.get(name, ABSENT), now.get(name, ABSENT)
        if was != is_:
            yield f"{name}: {was} → {is_}"


def _flags(argv: Sequence[str]) -> dict[str, str]:
    """`--flag` → its values, joined; a switch → "on". What stands before the first flag is the interpreter's line."""
    found: dict[str, str] = {}
    name = "command"
    for word in argv:
        if word.startswith("--"):
            name, equals, value = word.partition("=")
            found[name] = value if equals else ""
        else:
            found[name] = f"{found.get(name, '')} {word}".strip()
    return {flag: value or "on" for flag, value in found.items()}


def _variables(run: Json) -> dict[str, str]:
    return {f"env {name}": value for name, value in run["plan"]["env"]}


def _facts(run: Json) -> dict[str, str]:
    plan = run["plan"]
    return {
        "SGLang": str(run.get("sglang_version") or ABSENT),
        "patches": ", ".join(plan["patches"]) or ABSENT,
        "patch_via": plan.get("patch_via") or "file",
        "cwd": str(plan["cwd"] or ABSENT),
        "setup": "; ".join(plan["setup"]) or ABSENT,
    }
