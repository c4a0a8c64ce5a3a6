"""Every check that can fail the launch later, in seconds, with nothing stopped."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime

from sglfab.errors import InputError, LockedError, PatchError, PreflightError, SglfabError
from sglfab.flows.identity import Operator
from sglfab.flows.patch_draft import architectures
from sglfab.model import Check, Json, Plan
from sglfab.transports.host import Host

LOW_DISK_MB = 2048
NO_DISK_MB = 64
OTHER_OPERATOR = "other-operator"  # the one blocker that --takeover lifts


@dataclass(frozen=True)
class Readiness:
    """What preflight saw on `host`.

    replaces: our live runs that the launch will stop first; draft: the architectures that the draft's config names.
    """

    host: str
    checks: tuple[Check, ...]
    replaces: tuple[Json, ...]
    draft: tuple[str, ...] = ()

    @property
    def blockers(self) -> tuple[Check, ...]:
        return tuple(check for check in self.checks if check.state == "blocker")

    def with_checks(self, more: tuple[Check, ...]) -> Readiness:
        return replace(self, checks=(*self.checks, *more))


def facts(host: Host, pythonpath: str | None = None) -> Json:
    """The host's facts; pythonpath: of the profile's environment, where sglang is looked for first.

    A host without python3 is a blocker (exit 10) here, not bad input.
    """
    try:
        return host.call("facts", {"pythonpath": pythonpath})
    except InputError as error:
        if error.code != "no-python":
            raise
        raise PreflightError(error.code, error.what, where=error.where, try_=error.try_) from None


def inspect(host: Host, plan: Plan, seen: Json, operator: Operator) -> Readiness:
    """All checks of one plan. `seen`: the host's facts. Raises LockedError only from `gate`."""
    paths = [path for path in (plan.model_path, plan.draft_path) if path]
    request = {
        "port": plan.port,
        "install": (seen["sglang"] or {}).get("path"),
        "http_host": plan.http_host,
        "paths": paths,
        "cwd": plan.cwd,
        "operator": operator.name,
    }
    found = host.call("check", request)
    replaces = tuple(
        run for run in found["live_runs"] if run["plan"]["port"] == plan.port or run["profile"] == plan.profile
    )
    looks: tuple[Callable[[], Iterator[Check]], ...] = (
        lambda: _lint(plan),
        lambda: _python(seen),
        lambda: _paths(found["paths"]),
        lambda: _port(plan, found["port"], replaces),
        lambda: _others(replaces, operator, found["locks"]),
        lambda: _state(seen, found),
        lambda: _cwd(plan, found),
        lambda: _logout(seen),
    )
    checks = tuple(check for look in looks for check in look())
    return Readiness(host.label, checks, replaces, draft=architectures(found["paths"], plan.draft_path))


def gate(readiness: Readiness, *, takeover: bool) -> None:
    """Raise what forbids the launch."""
    error = refusal(readiness, takeover=takeover)
    if error is not None:
        raise error


def refusal(readiness: Readiness, *, takeover: bool) -> SglfabError | None:
    """What forbids the launch: LockedError (9) before PatchError (6) before PreflightError (10); None: nothing does."""
    blockers = [c for c in readiness.blockers if not (takeover and c.name == OTHER_OPERATOR)]
    if not blockers:
        return None
    first = min(blockers, key=lambda check: (_kind(check) is PreflightError, _kind(check) is PatchError))
    more = f" (and {len(blockers) - 1} more: fab preflight lists all)" if len(blockers) > 1 else ""
    return _kind(first)(first.name, first.text + more, where=readiness.host, try_=first.try_)


def _kind(blocker: Check) -> type[SglfabError]:
    if blocker.name in (OTHER_OPERATOR, "lock"):
        return LockedError
    return PatchError if blocker.name.startswith("patch-") else PreflightError


def _lint(plan: Plan) -> Iterator[Check]:
    yield Check("profile", "ok", f"{plan.profile}: every flag is known to SGLang {plan.release}")
    for note in plan.notes:
        yield Check("profile", "warning", note)


def _python(seen: Json) -> Iterator[Check]:
    python, sglang = seen["python"], seen["sglang"]
    yield Check("python", "ok", f"{python['path']} ({python['version']})")
    if sglang is None:
        yield Check(
            "no-sglang",
            "blocker",
            f"no sglang in {python['path']}",
            "set `python:` in the profile to the venv's interpreter",
        )
    else:
        yield Check("sglang", "ok", f"{sglang['version']} in {sglang['path']}")


def _paths(paths: list[Json]) -> Iterator[Check]:
    for path in paths:
        yield from _path(path)


def _path(path: Json) -> Iterator[Check]:
    name, kind = path["path"], path["kind"]
    if kind == "hub":
        yield Check(
            "model-path",
            "warning",
            f"{name} is no folder here: SGLang will ask the model hub for it",
            "set an absolute path",
        )
    elif kind in ("missing", "unreadable"):
        yield Check("model-path", "blocker", f"{name} is {kind}", f"ls -ld {name}")
    elif path["missing_shards"]:
        lost = path["missing_shards"]
        yield Check(
            "missing-shard",
            "blocker",
            f"{name}: the index names {len(lost)} files that are not there: {lost[0]}",
            "download again",
        )
    elif path["cut_files"]:
        yield Check(
            "cut-shard",
            "blocker",
            f"{name}: shorter than its own header says: {path['cut_files'][0]}",
            "download again",
        )
    else:
        yield Check("model-path", "ok", f"{name} ({path['size_bytes'] / 1e9:.1f} GB)")


def _port(plan: Plan, port: Json, replaces: tuple[Json, ...]) -> Iterator[Check]:
    owner = port["owner"] or {}
    if not port["busy"]:
        yield Check("port", "ok", f"{plan.port} is free")
    elif owner.get("run") in {run["id"] for run in replaces}:
        yield Check("port", "ok", f"{plan.port} is held by our run {owner['run']}, which will be stopped")
    else:
        who = (
            f"pid {owner['pid']} ({owner.get('user')}): {owner.get('cmdline')}"
            if owner.get("pid")
            else "a process that we may not see"
        )
        yield Check(
            "port-busy",
            "blocker",
            f"port {plan.port} is held by {who}",
            f"another `port:`, or stop it: fab stop --pid {owner.get('pid') or 'PID'}",
        )


def _others(replaces: tuple[Json, ...], operator: Operator, locks: list[Json]) -> Iterator[Check]:
    for lock in locks:
        yield Check(
            "lock",
            "blocker",
            f"{lock['operator']} on {lock['laptop']} is busy here: {lock['what']}, since {_time(lock['since'])}",
            "wait, or ask them",
        )
    for run in replaces:
        if run["operator"] != operator.name:
            who = f"{run['operator']} on {run['laptop']}"
            yield Check(
                OTHER_OPERATOR, "blocker", f"run {run['id']} on port {run['plan']['port']} is of {who}", "--takeover"
            )
        else:
            yield Check("replaces", "ok", f"our run {run['id']} will be stopped")


def _time(wall_s: float) -> str:
    return datetime.fromtimestamp(wall_s).strftime("%H:%M:%S")


def _state(seen: Json, found: Json) -> Iterator[Check]:
    if not found["state_ok"]:
        what = f"{seen['state_dir']} cannot be made or written: run folders have no place"
        yield Check("state-dir", "blocker", what, "set SGLFAB_STATE_DIR on the host, or `state_dir:` in hosts.yaml")
        return
    free = found["state_free_mb"]
    if free is None:
        yield Check("state-disk", "warning", f"how much is free for {seen['state_dir']} could not be told")
        return
    state = "blocker" if free < NO_DISK_MB else "warning" if free < LOW_DISK_MB else "ok"
    try_ = "" if state == "ok" else f"fab runs --prune; df -h {seen['state_dir']}"
    yield Check("state-disk", state, f"{free} MB free for run folders in {seen['state_dir']}", try_)


def _cwd(plan: Plan, found: Json) -> Iterator[Check]:
    if plan.cwd and not found["cwd_ok"]:
        yield Check("cwd", "blocker", f"cwd {plan.cwd} is no folder on the host", "correct `cwd:` in the profile")


def _logout(seen: Json) -> Iterator[Check]:
    if seen.get("kill_user_processes") and not seen.get("linger"):
        yield Check(
            "logout",
            "warning",
            "systemd ends a user's processes at logout here (KillUserProcesses)",
            f"loginctl enable-linger {seen['user']}",
        )
