"""Stop a run of ours, or a foreign server that the operator named by pid."""

from __future__ import annotations

from sglfab.flows.events import Report, Step
from sglfab.model import Json
from sglfab.transports.host import Host

STOP_MARGIN_S = 60.0  # beyond the grace: the second SIGTERM, SIGKILL, the port and the GPUs


def stop(host: Host, *, run_id: str | None = None, pid: int | None = None, grace_s: float, report: Report) -> Json:
    """SIGTERM → grace → the rest of the session → SIGKILL → confirmed. The reply of the `stop` operation.

    Raises HostsideBugError or InputError when the host refuses; a process that survives is in `survivors`.
    """
    name = run_id or f"pid {pid}"
    report(Step("stop", "begin", f"stop {name}"))
    request = {"run_id": run_id, "pid": pid, "grace_s": grace_s}
    with host.stream("stop", request, idle_s=grace_s + STOP_MARGIN_S) as stream:
        for event in stream:
            report(Step("stop", "begin", str(event.get("step", ""))))
    reply = stream.reply
    report(Step("stop", "done" if reply["stopped"] or not reply["was_running"] else "failed", told(name, reply)))
    return reply


def told(name: str, reply: Json) -> str:
    """The outcome in one line."""
    if not reply["was_running"]:
        return f"{name} was not running"
    if not reply["stopped"]:
        return f"{name}: still alive after SIGKILL: {reply['survivors']}"
    exit_ = reply.get("exit") or {}
    how = exit_.get("signal") or (f"exit {exit_['code']}" if "code" in exit_ else "exit status unknown")
    gpu = {True: ", GPU memory is free", False: ", GPU memory is NOT free yet"}.get(reply.get("gpu_free"), "")
    return f"{name} stopped in {reply['took_s']:.1f} s ({how}){gpu}"
