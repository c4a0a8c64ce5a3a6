"""Frozen records that the layers share. No behaviour beyond turning into JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from sglfab.errors import ExitCode

Json = Any  # a JSON value: None, bool, int, float, str, list or dict

SCHEMA = 1
STAGES = (
    "import",
    "args",
    "init-distributed",
    "load-weights",
    "post-load",
    "kv-cache",
    "capture-graphs",
    "http",
    "warmup",
    "serving",
)
VERDICT_EXIT: Mapping[str, ExitCode] = {
    "ready": ExitCode.OK,
    "loading": ExitCode.OK,
    "crashed": ExitCode.CRASHED,
    "stuck": ExitCode.STUCK,
    "timed_out": ExitCode.TIMED_OUT,
    "unreachable": ExitCode.UNREACHABLE,
    "degraded": ExitCode.DEGRADED,
}


# --- profile → plan ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Origin:
    """Where a value came from: `file` as the operator would type it (or `--set`), `line` from 1 (0: unknown)."""

    file: str
    line: int = 0
    note: str = ""

    def __str__(self) -> str:
        at = f"{self.file}:{self.line}" if self.line else self.file
        return f"{at} ({self.note})" if self.note else at


@dataclass(frozen=True)
class SecretSource:
    """Where a secret is fetched on the operator's machine. Exactly one of env, file, command is set."""

    target: str  # "env.HF_TOKEN" or "args.api-key"
    env: str | None = None
    file: str | None = None
    command: str | None = None


@dataclass(frozen=True)
class WaitSettings:
    """How long what may last. All in seconds; deadline_s None: no hard cap."""

    deadline_s: float | None = None
    reconnect_s: float = 120.0
    probe_timeout_s: float = 25.0  # SGLang itself answers /health only after up to 20 s
    heartbeat_s: float = 15.0
    allowances: Mapping[str, float] = field(default_factory=dict)  # stage name → seconds of silence allowed


@dataclass(frozen=True)
class Profile:
    """The wanted server, resolved: inheritance applied, flags canonical (no leading dashes), nothing rendered."""

    name: str
    description: str
    args: Mapping[str, Json]
    env: Mapping[str, str]
    hosts: tuple[str, ...]
    python: str | None
    cwd: str | None
    setup: tuple[str, ...]
    ulimits: Mapping[str, str]
    port: int
    cuda_graphs: bool | None  # None: SGLang's default; False: the intent "CUDA graphs off"
    patches: tuple[str, ...]
    patch_via: str  # "file": footers in the install; "plugin": only the launched server sees the taps
    secrets: tuple[SecretSource, ...]
    wait: WaitSettings
    stop_grace_s: float
    origins: Mapping[str, Origin]  # "args.tp-size", "env.NCCL_DEBUG", "port" … → where the value came from
    files: tuple[str, ...] = ()  # every file that was read, the profile's own last


@dataclass(frozen=True)
class Plan:
    """Rendered, nothing ran. Secrets stand as placeholders everywhere in it."""

    profile: str
    release: str
    release_source: str  # "--release", "host" or "assumed"
    argv: tuple[str, ...]
    env: tuple[tuple[str, str], ...]
    cwd: str | None
    setup: tuple[str, ...]
    ulimits: tuple[tuple[str, str], ...]
    python: str
    http_host: str
    port: int
    tp_size: int
    model_path: str
    draft_path: str | None
    patches: tuple[str, ...]
    secrets: tuple[SecretSource, ...]
    wait: WaitSettings
    stop_grace_s: float
    script: str  # launch.sh
    starter: str | None  # start.py, only when an argument is a secret
    notes: tuple[str, ...] = ()
    patch_via: str = "file"  # as in the profile; recorded plans may be older than it

    def to_json(self) -> dict[str, Json]:
        return asdict(self)


def plan_from_json(shape: Mapping[str, Json]) -> Plan:
    """The plan that run.json recorded. Raises TypeError for a record of another version of ours."""
    values = dict(shape)
    values["env"] = tuple((k, v) for k, v in values["env"])
    values["ulimits"] = tuple((k, v) for k, v in values["ulimits"])
    values["secrets"] = tuple(SecretSource(**s) for s in values["secrets"])
    values["wait"] = WaitSettings(**values["wait"])
    for name in ("argv", "setup", "patches", "notes"):
        values[name] = tuple(values[name])
    return Plan(**values)


# --- observations → verdict -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Observation:
    """One thing seen, `t` seconds after the watch began. `data` by kind: docs/architecture.md, "Observations"."""

    t: float
    kind: str
    data: Mapping[str, Json]


@dataclass(frozen=True)
class Evidence:
    source: str  # log, kernel, gpu, process, http or trace
    text: str
    line: int | None = None  # of the log, from 1, ended by "\n" only
    rank: str | None = None  # SGLang's own prefix: "TP3", "DP0 TP3"
    time: str | None = None

    def to_json(self) -> dict[str, Json]:
        return asdict(self)


@dataclass(frozen=True)
class Finding:
    """One recognised thing. `id` names the catalogue page, `category` is a name of the taxonomy."""

    id: str
    category: str
    title: str
    severity: str  # fatal, warning or info
    rank: str | None
    evidence: tuple[Evidence, ...]
    advice: tuple[str, ...]
    confidence: str  # high, medium or low
    stage: str | None = None
    draft: bool = False

    def to_json(self) -> dict[str, Json]:
        shape = asdict(self)
        return {k: v for k, v in shape.items() if k not in ("stage", "draft")}


@dataclass(frozen=True)
class StageSpan:
    """One stage of the timeline; seconds after the start of the server, None where unknown; progress 0…1."""

    stage: str
    draft: bool = False
    start_s: float | None = None
    end_s: float | None = None
    progress: float | None = None
    eta_s: float | None = None
    eta_from: str | None = None


@dataclass(frozen=True)
class ExitStatus:
    """How the main process ended. code is negative for a signal, as in Python's subprocess."""

    code: int
    signal: str | None = None


@dataclass(frozen=True)
class Verdict:
    """The answer: the JSON contract of product.md, field by field."""

    verdict: str
    stage: str = "import"
    draft: bool = False
    elapsed_s: float | None = None
    host: str | None = None
    run: str | None = None
    profile: str | None = None
    url: str | None = None
    sglang_version: str | None = None
    exit: ExitStatus | None = None
    primary: Finding | None = None
    findings: tuple[Finding, ...] = ()
    consequences: tuple[tuple[int, str], ...] = ()
    neighbours: tuple[str, ...] = ()
    ruled_out: tuple[str, ...] = ()
    gaps: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    timeline: tuple[StageSpan, ...] = ()

    @property
    def exit_code(self) -> ExitCode:
        return VERDICT_EXIT[self.verdict]

    def to_json(self) -> dict[str, Json]:
        shape: dict[str, Json] = {"schema": SCHEMA, **asdict(self)}
        shape["primary"] = self.primary.to_json() if self.primary else None
        shape["findings"] = [f.to_json() for f in self.findings]
        shape["consequences"] = [{"line": line, "text": text} for line, text in self.consequences]
        return shape


# --- what a waiting person sees ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RankProgress:
    """How far one rank is: `rank` as SGLang prints it, progress 0…1 or None, detail such as `3/64 shards`."""

    rank: str
    stage: str
    draft: bool = False
    progress: float | None = None
    detail: str = ""


@dataclass(frozen=True)
class WatchView:
    """A snapshot of a wait, for the live view and the heartbeat."""

    elapsed_s: float
    stage: str
    draft: bool
    ranks: tuple[RankProgress, ...]
    http: str  # "refused", "503", "200", "timeout", "other", "" while nothing was asked
    last_line: str
    last_line_age_s: float | None
    timeline: tuple[StageSpan, ...]
    alive: int | None = None  # watched processes alive
    start_left_s: float | None = None  # until ready, by this profile's former runs
    http_detail: str = ""  # what an unexpected answer was, or why there is none


# --- rows that flows fill and report/ draws -------------------------------------------------------------------


@dataclass(frozen=True)
class Check:
    """One preflight check: state is ok, warning or blocker; `try_` is what to type or change, "" when ok."""

    name: str
    state: str
    text: str
    try_: str = ""


@dataclass(frozen=True)
class PatchedFile:
    """One file that a patch set names: state is pristine, ours, foreign or missing; detail says what differs."""

    path: str
    state: str
    detail: str = ""
