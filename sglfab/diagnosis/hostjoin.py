"""What the host knows beside a cause that the log told: GPUs, shared memory, the kernel's words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from sglfab.diagnosis.hostfold import HostFold
from sglfab.model import Evidence, Finding, Json

MAX_GPUS = 8
MAX_LINES = 4
_SHM = ("memory.shm", "nccl.shm", "nccl.system_error")
_GPU_TROUBLE = ("kernel", "nccl", "hardware", "watchdog", "hang", "dist", "unknown")


def joined(host: HostFold, finding: Finding) -> Finding:
    """The finding with the host's evidence about things of its kind behind its own."""
    return replace(finding, evidence=(*finding.evidence, *_beside(host, finding)))


def _beside(host: HostFold, finding: Finding) -> Iterator[Evidence]:
    group = finding.category.partition(".")[0]
    if finding.category in _SHM:
        yield from shm(host)
    elif group == "memory":
        yield from memory(host)
    if group in _GPU_TROUBLE:
        yield from xids(host)
    if group == "hang":
        yield from busy(host)
    yield from kills(host)


def ruled_out(host: HostFold) -> tuple[str, ...]:
    """The kernel's OOM killer, where its log was read and has nothing about this server."""
    if not host.kernel_readable or host.own_kills() or host.oom_count:
        return ()
    others = {kill.pid: kill.name for kill in host.kills}
    if others:
        named = ", ".join(f"{pid}{f' ({name})' if name else ''}" for pid, name in list(others.items())[:3])
        return (f"the kernel's OOM killer: what it killed is no process of this server: {named}",)
    return ("the kernel's OOM killer: its log has no such line",)


def kills(host: HostFold) -> tuple[Evidence, ...]:
    """The kernel's lines about this server's processes; without them the growth of the cgroup's counter."""
    lines = tuple(Evidence("kernel", kill.line) for kill in host.own_kills()[:MAX_LINES])
    if lines or not host.oom_count:
        return lines
    return (Evidence("kernel", f"the cgroup's oom_kill counter grew by {host.oom_count}"),)


def xids(host: HostFold) -> tuple[Evidence, ...]:
    return tuple(Evidence("kernel", xid.line + _gpu_at(host, xid.bus)) for xid in host.xids[:MAX_LINES])


def _gpu_at(host: HostFold, bus: str) -> str:
    """` (GPU 3)`: the driver writes PCI:0000:3b:00, nvidia-smi 00000000:3B:00.0."""
    wanted = bus.lower().removeprefix("pci:").split(":")[-2:]
    for gpu in host.gpus:
        at = str(gpu.get("bus") or "").lower().partition(".")[0].split(":")[-2:]
        if len(wanted) == 2 and at == wanted:
            return f" (GPU {gpu.get('index')})"
    return ""


def memory(host: HostFold) -> Iterator[Evidence]:
    """What every GPU held when it was last asked before the end, and who else held memory of it."""
    for gpu in host.gpus[:MAX_GPUS]:
        index = gpu.get("index")
        used = f"GPU {index}: {gpu.get('used_mb')} of {gpu.get('total_mb')} MB used, {gpu.get('util')} % busy"
        yield Evidence("gpu", used)
        others = [p for p in gpu.get("processes") or () if p.get("pid") not in host.known]
        if others:
            total = sum(int(p.get("used_mb") or 0) for p in others)
            named = "; ".join(map(_holder, others[:MAX_LINES]))
            yield Evidence("gpu", f"GPU {index}: other processes hold {total} MB: {named}")


def _holder(process: Mapping[str, Json]) -> str:
    name, user = process.get("name") or "?", process.get("user")
    return f"pid {process.get('pid')} ({name}{f' of {user}' if user else ''}) {process.get('used_mb')} MB"


def busy(host: HostFold) -> tuple[Evidence, ...]:
    """One line: a rank that waits in a collective keeps its GPU at 100 %, one that never came there does not."""
    known = [gpu for gpu in host.gpus[:MAX_GPUS] if gpu.get("util") is not None]
    if not known:
        return ()
    return (Evidence("gpu", "GPUs busy: " + ", ".join(f"{g.get('index')}: {g['util']} %" for g in known)),)


def shm(host: HostFold) -> tuple[Evidence, ...]:
    if host.shm is None:
        return ()
    total, free = host.shm.get("total_mb"), host.shm_least_mb
    return (Evidence("process", f"{host.shm.get('path')}: {total} MB in all, at the least {free} MB of it free"),)
