"""Single facts of a host: a process, one that the kernel killed, an error of a GPU, where a rank is in its code."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from sglfab.model import Json

_VICTIM = re.compile(
    r"Kill(?:ed)? process (?P<pid>\d+)(?:,? (?:UID \d+,? )?\((?P<name>.*?)\))?|"
    r"oom_reaper: reaped process (?P<pid2>\d+)|"
    r"oom-kill:.*\btask=(?P<name3>[^,]*),pid=(?P<pid3>\d+)"
)
_XID = re.compile(r"NVRM: Xid \((?P<bus>[^)]*)\): (?P<xid>\d+)")
# A faulty kernel of the program, or what its end leaves behind (NVIDIA's Xid list): no trouble of the hardware.
_PROGRAM_XIDS = frozenset((13, 31, 43, 45, 69))


@dataclass(frozen=True)
class Process:
    """A watched process or a compiler, as last seen."""

    pid: int
    role: str
    title: str
    state: str
    cpu_s: float
    read_kb: float


@dataclass(frozen=True)
class Kill:
    """A line of the kernel that names a process which it killed for lack of memory."""

    pid: int
    name: str
    line: str


@dataclass(frozen=True)
class Xid:
    """An error of a GPU as the driver logs it. bus: `PCI:0000:3b:00`."""

    bus: str
    number: int
    line: str

    @property
    def of_hardware(self) -> bool:
        return self.number not in _PROGRAM_XIDS


@dataclass(frozen=True)
class Stack:
    """The main thread of a process. frames: the innermost first, `func (file:line)`; active: it does not wait."""

    t: float
    pid: int
    role: str
    rank: str | None
    active: bool
    frames: tuple[str, ...]

    @property
    def functions(self) -> tuple[str, ...]:
        """What makes two stacks the same: lines within a function differ from one look to the next."""
        return tuple(frame.rpartition(":")[0] for frame in self.frames)

    @property
    def name(self) -> str:
        return self.rank or f"the {self.role} process"

    def place(self, *, plural: bool = False) -> str:
        """The innermost frame, and the nearest one of SGLang's own when that is another's."""
        own = next((frame for frame in self.frames if "sglang/" in frame), None)
        shown = self.frames[0] if self.frames else "no Python code"
        called = f", called by {own}" if own and own != shown else ""
        return f"{'run' if self.active else 'wait'}{'' if plural else 's'} in {shown}{called}"


def kill_of(line: str) -> Kill | None:
    """What a line of the kernel says of a memory kill."""
    victim = _VICTIM.search(line)
    if victim is None:
        return None
    found = victim.groupdict()
    return Kill(int(found["pid"] or found["pid2"] or found["pid3"]), found["name"] or found["name3"] or "", line)


def xid_of(line: str) -> Xid | None:
    found = _XID.search(line)
    return Xid(found["bus"], int(found["xid"]), line) if found else None


def stack_of(t: float, data: Mapping[str, Json]) -> Stack | None:
    """The main thread of a `stacks` observation, which is its first; None for a process without Python threads."""
    main = next(iter(data.get("threads") or ()), None)
    if main is None:
        return None
    role, frames = str(data.get("role") or "process"), tuple(map(str, main.get("frames") or ()))
    return Stack(t, int(data["pid"]), role, data.get("rank"), bool(main.get("active")), frames)


def process_of(raw: Mapping[str, Json]) -> Process:
    return Process(
        int(raw["pid"]),
        str(raw.get("role") or "other"),
        str(raw.get("title") or ""),
        str(raw.get("state") or "?"),
        float(raw.get("cpu_s") or 0),
        float(raw.get("read_kb") or 0),
    )


def rank_of_title(title: str) -> str | None:
    """`sglang::scheduler_TP0` or `sglang::scheduler_DP1_TP3` → the rank as SGLang prints it."""
    found = re.findall(r"(?:^|[_ ])((?:DP|PP|TP|EP|ATTN_CP|MOE_DP)\d+)", title.replace("sglang::scheduler", " "))
    return " ".join(found) or None
