"""preflight → render → patch → stop the old server → start. Nothing is stopped before everything was checked."""

from __future__ import annotations

import hashlib
import secrets as random_source
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from sglfab import commands
from sglfab.errors import PatchError, SglfabError
from sglfab.flows import patch, preflight, stop
from sglfab.flows.clock import Clock
from sglfab.flows.events import Report, Said, Step
from sglfab.flows.identity import Operator
from sglfab.flows.patch_draft import draft_checks
from sglfab.flows.patch_install import load
from sglfab.flows.patch_plugin import PluginPreview, preview_plugin
from sglfab.flows.runs import live_runs
from sglfab.model import Check, Json, Plan, Profile
from sglfab.project import Project
from sglfab.sglang import releases
from sglfab.transports.host import Host

PLUGIN = "plugin"
KEEP_RUNS = 20  # a cap on what run folders keep; live runs never count


@dataclass(frozen=True)
class Prepared:
    """Everything that can be known before anything changes."""

    plan: Plan
    facts: Json
    readiness: preflight.Readiness
    patch: patch.Preview | PluginPreview | None

    def with_checks(self, more: tuple[Check, ...]) -> Prepared:
        return replace(self, readiness=self.readiness.with_checks(more))


def plan_for(project: Project, profile: Profile, seen: Json, release: str | None) -> Plan:
    """The plan for the release named, else of the host's sglang, else the newest known, marked assumed."""
    if profile.patches:
        load(project, profile.patches)  # an unknown patch set is told before any host is asked to patch
    installed = (seen.get("sglang") or {}).get("version")
    if release is not None:
        return commands.render(project, profile, release=releases.asked(project, release), release_source="--release")
    if installed:
        return commands.render(project, profile, release=installed, release_source="host")
    newest = releases.newest_known(project)
    return commands.render(project, profile, release=newest, release_source="assumed")


def prepare(project: Project, host: Host, plan: Plan, seen: Json, operator: Operator) -> Prepared:
    """Look at everything that can fail the launch later. Changes nothing."""
    readiness = preflight.inspect(host, plan, seen, operator)
    if seen["sglang"] is None:
        return Prepared(plan, seen, readiness, None)
    try:
        preview = _preview(project, host, plan, site_of(seen), readiness)
        drafts = draft_checks(project, plan.patches, plan.draft_path, readiness.draft)
        checks = (*patch.checks(preview), *drafts)
    except PatchError as conflict:
        preview = None
        checks = (Check(conflict.code, "blocker", conflict.what, conflict.try_),)
    return Prepared(plan, seen, readiness.with_checks(checks), preview)


def _preview(
    project: Project, host: Host, plan: Plan, root: str, readiness: preflight.Readiness
) -> patch.Preview | PluginPreview | None:
    if not plan.patches:
        return None
    if plan.patch_via == PLUGIN:
        return preview_plugin(project, host, plan.patches, sglang_path=root, draft=readiness.draft)
    replaces = [run["id"] for run in readiness.replaces]
    return patch.preview(project, host, plan.patches, sglang_path=root, replaces=replaces, draft=readiness.draft)


def site_of(seen: Json) -> str:
    """The folder that holds the sglang that the server will import. seen: facts with a sglang."""
    return str(seen["sglang"]["path"]).removesuffix("/sglang")


@dataclass(frozen=True)
class Order:
    """What the operator asked of one launch."""

    operator: Operator
    secrets: Mapping[str, str]  # target → value, fetched before anything is stopped
    takeover: bool = False


class LaunchInterrupted(Exception):
    """Ctrl-C during a launch. run: the run that started all the same, or None. stopped: the runs that were ended."""

    def __init__(self, run: Json, stopped: tuple[str, ...]) -> None:
        super().__init__("interrupted")
        self.run, self.stopped = run, stopped


def launch(project: Project, host: Host, prepared: Prepared, order: Order, *, report: Report, clock: Clock) -> Json:
    """Carry out a prepared launch; the new run's record.

    Raises LockedError (9), PreflightError (10), PatchError (6, the old server untouched), LaunchInterrupted.
    """
    run_id = new_run_id(prepared.plan.profile, clock)
    try:
        return _launch(project, host, prepared, order, run_id, report=report)
    except KeyboardInterrupt:
        raise _interrupted(host, run_id, prepared.readiness.replaces) from None


def _interrupted(host: Host, run_id: str, replaced: Sequence[Json]) -> LaunchInterrupted:
    """What had begun on the host ends there by itself; so the host is asked how far it came."""
    try:
        alive = {run["id"]: run for run in live_runs(host)}
    except SglfabError:
        return LaunchInterrupted(None, ())
    stopped = tuple(old["id"] for old in replaced if old["id"] not in alive)
    return LaunchInterrupted(alive.get(run_id), stopped)


def _launch(project: Project, host: Host, prepared: Prepared, order: Order, run_id: str, *, report: Report) -> Json:
    plan = prepared.plan
    report(Step("preflight", "begin", f"{len(prepared.readiness.checks)} checks"))
    preflight.gate(prepared.readiness, takeover=order.takeover)
    report(Step("preflight", "done", f"SGLang {plan.release} on {host.label}, port {plan.port}"))
    lock = {"port": plan.port, "install": prepared.facts["sglang"]["path"], "what": f"launch of {plan.profile}"}
    with host.stream("hold-locks", {**lock, **_who(order.operator)}) as held:
        next(held)  # the `held` event; a live holder raises LockedError here
        taps = _taps(project, host, prepared, order.operator, report)
        for old in prepared.readiness.replaces:
            stop.stop(host, run_id=old["id"], grace_s=old["plan"]["stop_grace_s"], report=report)
        return _start(project, host, plan, order, run_id=run_id, taps=taps, report=report)


def _who(operator: Operator) -> dict[str, str]:
    return {"operator": operator.name, "laptop": operator.laptop}


def _taps(project: Project, host: Host, prepared: Prepared, operator: Operator, report: Report) -> dict[str, Json]:
    """Get the taps of the plan in; what `launch` of hostside is told of them."""
    plan = prepared.plan
    if not plan.patches:
        return {}
    report(Step("patch", "begin", ", ".join(plan.patches)))
    replaces = [run["id"] for run in prepared.readiness.replaces]
    root = site_of(prepared.facts)
    told: dict[str, Json] = {"probe": _probe(project)}
    draft = prepared.readiness.draft
    if plan.patch_via == PLUGIN:
        seen = preview_plugin(project, host, plan.patches, sglang_path=root, draft=draft)
        summary, told["patch_manifest"] = seen.summary, seen.plugin.to_json()
        told["plugin"] = {"sha": seen.plugin.sha, "files": dict(seen.plugin.files)}
    else:
        done = patch.apply(
            project, host, plan.patches, sglang_path=root, operator=operator, replaces=replaces, draft=draft
        )
        summary, told["patch_manifest"] = done.summary, done.manifest
    report(Step("patch", "done", summary))
    return told


def _start(
    project: Project,
    host: Host,
    plan: Plan,
    order: Order,
    *,
    run_id: str,
    taps: Mapping[str, Json],
    report: Report,
) -> Json:
    report(Step("start", "begin", run_id))
    request = {
        "run_id": run_id,
        "profile": plan.profile,
        "plan": plan.to_json(),
        "script": plan.script,
        "starter": plan.starter,
        "secrets": dict(order.secrets),
        **_who(order.operator),
        "sglang_version": plan.release if plan.release_source != "assumed" else None,
        **taps,
        "keep_runs": KEEP_RUNS,
    }
    reply = host.call("launch", request)
    for warning in reply.get("warnings", ()):
        report(Said(warning, "warning"))
    run: Json = reply["run"]
    report(Step("start", "done", f"run {run_id}, pid {run['main']['pid']}"))
    return run


def _probe(project: Project) -> dict[str, str]:
    source = project.read(project.root / "sglfab" / "patching" / "probe" / "sglfab_probe.py")
    return {"sha": hashlib.sha256(source.encode()).hexdigest(), "source": source}


def new_run_id(profile: str, clock: Clock) -> str:
    """<profile>-<YYYYmmdd-HHMMSS>-<4 hex>, in UTC."""
    stamp = datetime.fromtimestamp(clock.wall_s(), UTC).strftime("%Y%m%d-%H%M%S")
    return f"{profile}-{stamp}-{random_source.token_hex(2)}"
