"""What runs now: one row a live run, without waiting for anything."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sglfab.flows.runs import Wanted, live_runs
from sglfab.model import Json
from sglfab.transports.host import Host

PROBE_S = 25.0


@dataclass(frozen=True)
class StatusRow:
    """One live run. health: as the HTTP states of product.md; patches: what the launch asked for."""

    run: str
    profile: str
    operator: str
    port: int
    pid: int | None
    since: float
    health: str
    sglang_version: str | None
    patches: tuple[str, ...]
    directory: str


def status(host: Host, wanted: Wanted) -> tuple[StatusRow, ...]:
    return tuple(_row(host, run) for run in live_runs(host, wanted))


def _row(host: Host, run: Mapping[str, Json]) -> StatusRow:
    plan = run["plan"]
    request = {"method": "GET", "path": "/health", "port": plan["port"], "http_host": plan["http_host"]}
    reply = host.call("request", {**request, "headers": {}, "body": None, "timeout_s": PROBE_S}, timeout_s=PROBE_S + 10)
    return StatusRow(
        run=run["id"],
        profile=run["profile"],
        operator=run["operator"],
        port=plan["port"],
        pid=(run.get("main") or {}).get("pid"),
        since=run["created"],
        health=str(reply["status"] or reply["error"]),
        sglang_version=run.get("sglang_version"),
        patches=tuple(plan["patches"]),
        directory=run["dir"],
    )
