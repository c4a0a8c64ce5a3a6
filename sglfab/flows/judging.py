"""From a run, a pid, a log or a URL to a verdict."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from sglfab.diagnosis.catalogue import Catalogue
from sglfab.diagnosis.expectation import Expectation
from sglfab.diagnosis.judge import Judge
from sglfab.diagnosis.offline import diagnose
from sglfab.errors import InputError
from sglfab.flows import log_bytes, secrets
from sglfab.flows.clock import Clock
from sglfab.flows.events import Report, Said
from sglfab.flows.foreign import Foreign
from sglfab.flows.runs import plan_of
from sglfab.flows.wait import wait
from sglfab.flows.web_address import without_user
from sglfab.model import Json, Verdict, WaitSettings
from sglfab.transports.host import Host

API_KEY = "args.api-key"
FOREIGN_KEY = "SGLFAB_API_KEY"  # the operator's variable with the key of a server that no profile describes


def wait_for_run(
    host: Host,
    run: Json,
    catalogue: Catalogue,
    *,
    api_key: str | None,
    hide: Sequence[str],
    deadline_s: float | None,
    former: Mapping[str, tuple[float, ...]],
    report: Report,
    clock: Clock,
) -> Verdict:
    """Wait for one of our runs. former: what `history.former` tells of former runs. Raises Interrupted."""
    plan = plan_of(run)
    settings = replace(plan.wait, deadline_s=deadline_s if deadline_s is not None else plan.wait.deadline_s)
    request = {
        "run_id": run["id"],
        "http_host": plan.http_host,
        "port": plan.port,
        "api_key": api_key,
        "tp_size": plan.tp_size,
        "patches": list(plan.patches),
        "probe_timeout_s": settings.probe_timeout_s,
        "from_offset": 0,
        "record": True,
        "hide": list(hide),
        "generate": True,
    }
    expect = Expectation(
        deadline_s=settings.deadline_s,
        allowances=settings.allowances,
        patches=plan.patches,
        tp_size=plan.tp_size,
        draft=bool(plan.draft_path),
        former=former,
        host=host.label,
        url=_url(plan.http_host, plan.port),
        profile=plan.profile,
        run=run["id"],
        sglang_version=run.get("sglang_version"),
    )
    judge = Judge(catalogue, expect=expect)
    return wait(host, request, judge, reconnect_s=settings.reconnect_s, report=report, clock=clock)


def _url(http_host: str, port: int | None) -> str | None:
    shown = "127.0.0.1" if http_host in ("0.0.0.0", "::", "") else http_host
    return f"http://{shown}:{port}" if port else None


def api_key(run: Json, environ: Mapping[str, str], report: Report) -> str | None:
    """The key for the one-token request; without it the request will be refused (401), which is said."""
    source = next((s for s in plan_of(run).secrets if s.target == API_KEY), None)
    if source is None:
        return environ.get(FOREIGN_KEY)  # an adopted server: its key was never ours
    try:
        return secrets.resolve((source,), environ)[API_KEY]
    except InputError as error:
        report(Said(f"{error.what}: the one-token request will be answered 401", "warning"))
        return None


def wait_for_foreign(
    host: Host,
    foreign: Foreign,
    catalogue: Catalogue,
    *,
    settings: WaitSettings,
    api_key: str | None,
    hide: Sequence[str],
    report: Report,
    clock: Clock,
    recorded: Callable[[str], None],
) -> Verdict:
    """Wait for a server that is not ours: HTTP from here (`url`), log and processes from its host.

    host: for a URL alone this machine, which keeps the record. recorded: is told the record's id.
    """
    from sglfab.flows.http_direct import DirectProbe  # requests takes as long to import as the rest of a wait

    probe = None
    if foreign.url:
        probe = DirectProbe(
            foreign.url,
            api_key=api_key,
            probe_timeout_s=settings.probe_timeout_s,
            reconnect_s=settings.reconnect_s,
            clock=clock,
        )
    expect = Expectation(
        deadline_s=settings.deadline_s,
        allowances=settings.allowances,
        host=None if foreign.by_url_alone else host.label,
        url=without_user(probe.base) if probe else _url(foreign.http_host, foreign.port),
    )
    request: dict[str, Json] = {
        "run_id": None,
        "pid": foreign.pid,
        "port": None if foreign.url else foreign.port,
        "log": foreign.log,
        "http_host": foreign.http_host,
        "api_key": api_key,
        "tp_size": None,
        "patches": [],
        "probe_timeout_s": settings.probe_timeout_s,
        "from_offset": 0,
        "record": True,
        "hide": list(hide),
        "generate": True,
    }
    return wait(
        host,
        request,
        Judge(catalogue, expect=expect),
        reconnect_s=settings.reconnect_s,
        report=report,
        clock=clock,
        beside=probe,
        recorded=recorded,
    )


def diagnose_file(catalogue: Catalogue, path: str, host: Host | None) -> Verdict:
    """The diagnosis of a log: `-` is stdin, a host means that the path is there. Raises as log_bytes.read does."""
    verdict = diagnose(catalogue, log_bytes.read(path, host), path="stdin" if path == "-" else path)
    return replace(verdict, host=host.label) if host else verdict
