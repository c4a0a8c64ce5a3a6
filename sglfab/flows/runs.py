"""Which server is meant: --run, --profile, --port, or the only live run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sglfab.errors import InputError
from sglfab.model import Json, Plan, plan_from_json
from sglfab.transports.host import Host


@dataclass(frozen=True)
class Wanted:
    """The operator's words. All None: the only live run."""

    run: str | None = None
    profile: str | None = None
    port: int | None = None

    def fits(self, run: Json) -> bool:
        return (
            (self.run is None or run["id"] == self.run)
            and (self.profile is None or run["profile"] == self.profile)
            and (self.port is None or run["plan"]["port"] == self.port)
        )

    def __str__(self) -> str:
        parts = (("--run", self.run), ("--profile", self.profile), ("--port", self.port))
        return " ".join(f"{flag} {value}" for flag, value in parts if value is not None)


def all_runs(host: Host) -> list[Json]:
    """Every recorded run, newest first; each run.json plus dir, alive and exit."""
    runs: list[Json] = host.call("runs", {"profile": None})["runs"]
    return runs


def live_runs(host: Host, wanted: Wanted | None = None) -> list[Json]:
    return [run for run in all_runs(host) if run["alive"] and (wanted is None or wanted.fits(run))]


def choose(host: Host, wanted: Wanted, *, dead_ok: bool = False) -> Json:
    """The run that the operator means. Raises InputError no-run, no-such-run or several-runs (with the list)."""
    return pick(all_runs(host), wanted, where=host.label, dead_ok=dead_ok)


def pick(runs: Sequence[Json], wanted: Wanted, *, where: str, dead_ok: bool = False) -> Json:
    """`choose` among runs that were asked for already."""
    fitting = [run for run in runs if wanted.fits(run)]
    live = [run for run in fitting if run["alive"]]
    if len(live) > 1:
        listed = ", ".join(f"{run['id']} (port {run['plan']['port']})" for run in live)
        raise InputError("several-runs", f"{len(live)} live runs fit: {listed}", where=where, try_="--run ID")
    if live:
        return live[0]
    if dead_ok and fitting and str(wanted):
        return fitting[0]
    raise _none(wanted, fitting, where=where)


def plan_of(run: Json) -> Plan:
    """The recorded plan. Raises InputError run-of-another-version."""
    try:
        return plan_from_json(run["plan"])
    except (TypeError, KeyError) as why:
        what = f"{run['id']} was recorded by another version of fab: {why}"
        raise InputError("run-of-another-version", what, where=run["dir"], try_="fab launch --profile NAME") from None


def _none(wanted: Wanted, dead: Sequence[Json], *, where: str) -> InputError:
    named = f" for {wanted}" if str(wanted) else ""
    if wanted.run and not dead:
        return InputError("no-such-run", f"no run {wanted.run} is recorded", where=where, try_="fab runs")
    hint = (
        f"--run {dead[0]['id']}: the newest one, it ended"
        if dead
        else "fab runs; fab launch --profile NAME; or wait-health --url / --log / --pid for a server that is not ours"
    )
    return InputError("no-run", f"no live run of ours{named}", where=where, try_=hint)
