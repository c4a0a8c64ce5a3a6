"""Observations of the host → what is known about processes, HTTP, port, kernel, GPUs and the trace."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sglfab.diagnosis.hostfacts import Kill, Process, Stack, Xid, kill_of, process_of, stack_of, xid_of
from sglfab.model import ExitStatus, Json, Observation
from sglfab.sglang import answers

WATCHED = ("main", "scheduler", "detokenizer")
FLAT_CPU = 0.02  # share of one core below which a process does nothing


@dataclass
class Signal:
    """A number that grows or moves while there is progress. since: when it last moved."""

    value: float | None = None
    since: float | None = None

    def feed(self, t: float, value: float, *, step: float) -> None:
        if self.value is None or abs(value - self.value) >= step:
            self.value, self.since = value, t

    def flat_s(self, now: float) -> float | None:
        return None if self.since is None else now - self.since


@dataclass
class HostFold:
    """Everything but the log."""

    port: int | None = None
    tp_size: int | None = None
    patches: tuple[str, ...] = ()
    main: int | None = None
    started_offset_s: float = 0.0  # how long the server had been running when the watch began
    processes: dict[int, Process] = field(default_factory=dict)
    dead: list[tuple[float, int, str, str]] = field(default_factory=list)  # t, pid, role, title
    known: dict[int, str] = field(default_factory=dict)  # every process of the server so far: pid → title
    seen_watched: bool = False
    exit: ExitStatus | None = None
    exit_t: float | None = None
    orphans: tuple[Mapping[str, Json], ...] = ()
    health: str = ""
    health_status: int | None = None
    health_detail: str = ""
    answered_t: float | None = None  # last time /health gave any status
    healthy_t: float | None = None  # last 200 of our own server
    ever_healthy: bool = False
    unanswered_since: float | None = None
    generated_t: float | None = None
    generation: str = ""
    generation_status: int | None = None
    is_generation: bool | None = None
    is_sglang: bool | None = None  # by its /model_info
    identity: bool | None = None
    foreign: str | None = None
    foreign_since: float | None = None
    trace: dict[str, Mapping[str, Json]] | None = None
    gpus: tuple[Mapping[str, Json], ...] = ()
    kills: list[Kill] = field(default_factory=list)  # whatever the kernel killed for lack of memory, on the whole host
    oom_count: int = 0
    same_pids: bool = True  # the kernel log counts processes as we do (not from within a container)
    kernel_readable: bool = False
    kernel_t: float | None = None  # when the kernel log was last known to be read up to its end
    xids: list[Xid] = field(default_factory=list)
    shm: Mapping[str, Json] | None = None
    shm_least_mb: float | None = None  # the least that was free of it so far
    stacks: dict[int, Stack] = field(default_factory=dict)  # pid → its last one
    gaps: list[str] = field(default_factory=list)
    stopped_since: dict[int, float] = field(default_factory=dict)  # pid → since when it is in state T
    cpu: Signal = field(default_factory=Signal)
    cpu_by_pid: dict[int, Signal] = field(default_factory=dict)
    reads: Signal = field(default_factory=Signal)
    gpu_memory: Signal = field(default_factory=Signal)
    compilers: int = 0
    lost: str | None = None

    def feed(self, seen: Observation) -> None:
        handler = getattr(self, "_on_" + seen.kind.replace("-", "_"), None)
        if handler:
            handler(seen.t, seen.data)

    def _on_start(self, t: float, data: Mapping[str, Json]) -> None:
        self.port, self.tp_size, self.main = data.get("port"), data.get("tp_size"), data.get("main")
        self.patches = tuple(data.get("patches") or ())
        wall, began = data.get("wall"), data.get("started_wall")
        if wall and began:
            self.started_offset_s = max(0.0, float(wall) - float(began) - t)

    def _on_processes(self, t: float, data: Mapping[str, Json]) -> None:
        before = self.processes
        self.processes = {int(p["pid"]): process_of(p) for p in data.get("alive") or ()}
        self.known |= {pid: p.title for pid, p in self.processes.items()}
        self.seen_watched = self.seen_watched or any(p.role in WATCHED for p in self.processes.values())
        known = {pid for _, pid, _, _ in self.dead}
        for gone in data.get("gone") or ():
            if gone.get("role") in WATCHED and int(gone["pid"]) not in known:
                self.dead.append((t, int(gone["pid"]), str(gone["role"]), str(gone.get("title") or gone["role"])))
        self.compilers = sum(p.role == "compiler" for p in self.processes.values())
        self._states(t, before)
        cpu, read = (sum(getattr(p, name) for p in self.processes.values()) for name in ("cpu_s", "read_kb"))
        self.cpu.feed(t, cpu, step=FLAT_CPU * max(1.0, t - (self.cpu.since or t)))
        self.reads.feed(t, read, step=1024)

    def _states(self, t: float, before: Mapping[int, Process]) -> None:
        for pid, process in self.processes.items():
            if process.role not in WATCHED:
                continue
            if process.state[:1] in ("T", "t"):
                self.stopped_since.setdefault(pid, t)
            else:
                self.stopped_since.pop(pid, None)
            signal = self.cpu_by_pid.setdefault(pid, Signal())
            signal.feed(t, process.cpu_s, step=FLAT_CPU * max(1.0, t - (signal.since or t)))
        for pid in list(self.stopped_since):
            if pid not in self.processes:
                del self.stopped_since[pid]

    def _on_exit(self, t: float, data: Mapping[str, Json]) -> None:
        if self.exit is None:
            code, signal = data.get("code"), data.get("signal")
            self.exit = ExitStatus(int(code), str(signal) if signal else None) if code is not None else None
            self.exit_t = t
            self.orphans = tuple(data.get("orphans") or ())

    def _on_http(self, t: float, data: Mapping[str, Json]) -> None:
        what, state = data.get("what"), str(data.get("state") or "")
        ours = data.get("ours")
        if ours is not None and state not in ("refused", ""):
            self._identity(t, bool(ours), data)
        if what == "health":
            self._health(t, state, data)
        elif what == "generate":
            self.generation, self.generation_status = state, data.get("status")
            if state == "200":
                self.generated_t = t
        elif what == "model_info":
            self._model_info(data.get("body"), data.get("status"))

    def _model_info(self, body: Json, status: int | None) -> None:
        if answers.is_model_info(body):
            self.is_sglang = True
            value = body.get("is_generation")
            self.is_generation = value if isinstance(value, bool) else self.is_generation
        elif status is not None and status not in answers.FORBIDDEN and status < 500:
            self.is_sglang = False

    def _health(self, t: float, state: str, data: Mapping[str, Json]) -> None:
        self.health, self.health_status = state, data.get("status")
        code = f"HTTP {self.health_status}" if self.health_status else ""
        self.health_detail = str(data.get("detail") or "") or (code if state == "other" else "")
        began = t - float(data.get("ms") or 0) / 1000
        if state in ("200", "503", "other", "refused"):
            self.answered_t = t
        if state == "200" and data.get("ours") is not False:
            self.healthy_t, self.ever_healthy, self.unanswered_since = t, True, None
        elif state == "timeout":
            self.unanswered_since = began if self.unanswered_since is None else self.unanswered_since
        elif state == "refused":
            self.unanswered_since = None

    def _identity(self, t: float, ours: bool, data: Mapping[str, Json]) -> None:
        self.identity = ours
        if ours:
            self.foreign = self.foreign_since = None
        else:
            self.foreign_since = t if self.foreign_since is None else self.foreign_since
            self.foreign = self.foreign or str(data.get("detail") or "another process")

    def _on_port(self, t: float, data: Mapping[str, Json]) -> None:
        owner, ours = data.get("owner"), data.get("ours")
        if owner is None:
            self.foreign = self.foreign_since = None
        elif ours is False:
            self.foreign_since = t if self.foreign_since is None else self.foreign_since
            self.foreign = (
                f"pid {owner.get('pid')} of {owner.get('user') or '?'}: {str(owner.get('cmdline') or '')[:120]}"
            )
        elif ours:
            self.foreign = self.foreign_since = None

    def _on_trace(self, t: float, data: Mapping[str, Json]) -> None:
        self.trace = dict(data.get("ranks") or {})

    def _on_gpu(self, t: float, data: Mapping[str, Json]) -> None:
        if self.gpus and self.first_death():
            return  # what was used before is told by the last look before the end
        self.gpus = tuple(data.get("gpus") or ())
        self.gpu_memory.feed(t, sum(float(g.get("used_mb") or 0) for g in self.gpus), step=16)

    def _on_kernel(self, t: float, data: Mapping[str, Json]) -> None:
        self.same_pids = bool(data.get("same_pids", self.same_pids))
        if "lines" in data:
            self.kernel_readable, self.kernel_t = True, t
        for line in data.get("lines") or ():
            if kill := kill_of(line):
                self.kills.append(kill)
            elif xid := xid_of(line):
                self.xids.append(xid)
        self.oom_count = max(self.oom_count, int(data.get("oom_kill") or 0))

    def own_kills(self) -> list[Kill]:
        """The kills of this server's processes: by pid; by name where pids differ or nobody was seen alive."""
        pids = {self.main, *self.known, *(pid for _, pid, _, _ in self.dead), *(o.get("pid") for o in self.orphans)}
        by_name = not (self.same_pids and self.known)
        return [k for k in self.kills if k.pid in pids or (by_name and k.name.startswith("sglang::"))]

    def watched_kill(self) -> Kill | None:
        """The first kill of a process without which the server does not live."""
        dead = {self.main, *(pid for _, pid, _, _ in self.dead)}
        return next((k for k in self.own_kills() if k.pid in dead or k.name.startswith("sglang::")), None)

    def _on_shm(self, t: float, data: Mapping[str, Json]) -> None:
        self.shm = data
        free = data.get("free_mb")
        if free is not None and (self.shm_least_mb is None or free < self.shm_least_mb):
            self.shm_least_mb = float(free)

    def _on_stacks(self, t: float, data: Mapping[str, Json]) -> None:
        if stack := stack_of(t, data):
            self.stacks[stack.pid] = stack

    def _on_gap(self, t: float, data: Mapping[str, Json]) -> None:
        text = str(data.get("text") or "")
        if text and text not in self.gaps:
            self.gaps.append(text)

    def hindrance(self) -> str:
        """What keeps a server that answers from being ready, beyond the HTTP state; "" where that says it all."""
        if self.health == "200" and self.generation not in ("", "200"):
            return f"one token: {self.generation_status or self.generation}"
        return self.health_detail if self.health == "other" else ""

    def first_death(self) -> tuple[float, int | None, str, str] | None:
        """t, pid, role, title of the first watched process that went; None while all that were seen live."""
        found: list[tuple[float, int | None, str, str]] = [*self.dead]
        if self.exit_t is not None:
            found.append((self.exit_t, self.main, "main", "main process"))
        return min(found, key=lambda d: d[0], default=None)
