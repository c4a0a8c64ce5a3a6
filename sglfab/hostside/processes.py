"""What /proc tells about processes: identity (pid + start time), state, session, title, costs."""

from __future__ import annotations

import os
import pwd
import re
import signal
import time
from dataclasses import dataclass
from typing import Any, Dict, Iterator, List, Optional

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE_KB = os.sysconf("SC_PAGE_SIZE") // 1024
TITLE_MAX = 400

_SECRET_FLAG = re.compile(r"(--?[\w-]*(?:key|token|secret|passw)[\w-]*)([= ])(?!-)(\S+)", re.IGNORECASE)
# Flags that hold one of those words and no secret.
_HARMLESS_FLAG = re.compile(
    r"(?!.*(?:passw|secret|api-key)).*(?:tokens\b|tokens-|tokeniz|token-map|keyfile)", re.IGNORECASE
)


@dataclass(frozen=True)
class Ident:
    """A process, safe from the reuse of its pid: `start` is field 22 of /proc/PID/stat, in clock ticks since boot."""

    pid: int
    start: int

    def to_json(self) -> Dict[str, int]:
        return {"pid": self.pid, "start": self.start}


@dataclass(frozen=True)
class Proc:
    """One line of /proc/PID/stat. name: its first 15 bytes; state: one letter; start: clock ticks since boot."""

    pid: int
    name: str
    state: str
    ppid: int
    pgrp: int
    session: int
    start: int
    cpu_s: float
    rss_kb: int

    @property
    def ident(self) -> Ident:
        return Ident(self.pid, self.start)

    @property
    def dead(self) -> bool:
        """A zombie has ended, only its parent has not asked yet."""
        return self.state in "ZXx"


def parse_stat(text: str) -> Proc:
    """The name in parentheses may hold spaces and parentheses itself, so the fields are counted from the last one."""
    pid = int(text[: text.index(" ")])
    fields = text[text.rindex(")") + 2 :].split()
    return Proc(
        pid=pid,
        name=text[text.index("(") + 1 : text.rindex(")")],
        state=fields[0],
        ppid=int(fields[1]),
        pgrp=int(fields[2]),
        session=int(fields[3]),
        start=int(fields[19]),
        cpu_s=(int(fields[11]) + int(fields[12])) / _TICKS,
        rss_kb=int(fields[21]) * _PAGE_KB,
    )


def look(pid: int) -> Optional[Proc]:
    """The process as it is now; None where there is none (zombies are still there)."""
    text = _read("/proc/%d/stat" % pid)
    try:
        return parse_stat(text.decode("utf-8", "replace")) if text else None
    except (ValueError, IndexError):
        return None


def living(ident: Optional[Ident]) -> Optional[Proc]:
    """The process of that pid and start time while it lives, else None."""
    proc = look(ident.pid) if ident else None
    return proc if proc and ident and proc.start == ident.start and not proc.dead else None


def pids() -> Iterator[int]:
    return (int(name) for name in os.listdir("/proc") if name.isdigit())


def everyone() -> Dict[int, Proc]:
    """All processes that have not ended, by pid."""
    found = (look(pid) for pid in pids())
    return {proc.pid: proc for proc in found if proc and not proc.dead}


def title(pid: int) -> str:
    """The command line or the title that setproctitle put there; "" for a kernel thread or a process that is gone."""
    raw = _read("/proc/%d/cmdline" % pid)
    return raw.rstrip(b"\0 ").replace(b"\0", b" ").decode("utf-8", "replace")


def arguments(pid: int) -> List[str]:
    """argv as the process has it now; [""] where there is none."""
    raw = _read("/proc/%d/cmdline" % pid)
    return [part.decode("utf-8", "surrogateescape") for part in raw.rstrip(b"\0").split(b"\0")]


def shown(text: str) -> str:
    """A title fit to leave the host: values of secret-looking flags replaced, at most TITLE_MAX characters."""
    return _SECRET_FLAG.sub(_redact, text)[:TITLE_MAX]


def shown_arguments(argv: List[str]) -> List[str]:
    """argv fit to leave the host: the value after a secret-looking flag replaced."""
    words = [shown(word) if "=" in word else word for word in argv]
    for at, word in enumerate(words[:-1]):
        if not words[at + 1].startswith("-") and shown(word + " x") != word + " x":
            words[at + 1] = "***"
    return words


def _redact(match: "re.Match[str]") -> str:
    if _HARMLESS_FLAG.match(match.group(1)):
        return match.group(0)
    return match.group(1) + match.group(2) + "***"


def read_kb(pid: int) -> Optional[int]:
    """KiB that the process had read from disks; None where /proc/PID/io is not ours to read."""
    for line in _read("/proc/%d/io" % pid).splitlines():
        if line.startswith(b"read_bytes:"):
            return int(line.split()[1]) // 1024
    return None


def user_of(pid: int) -> Optional[str]:
    try:
        return user_name(os.stat("/proc/%d" % pid).st_uid)
    except OSError:
        return None


def user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def boot_id() -> str:
    return _read("/proc/sys/kernel/random/boot_id").decode("ascii").strip()


def started_wall(proc: Proc) -> float:
    """Unix time of the process's start, to about 10 ms (btime of /proc/stat would be right to a second only)."""
    age_s = time.clock_gettime(time.CLOCK_BOOTTIME) - proc.start / _TICKS
    return time.time() - age_s


def ident_from(record: Any) -> Optional[Ident]:
    """The identity in a run.json or lock record, None where it has none."""
    if (
        not isinstance(record, dict)
        or not isinstance(record.get("pid"), int)
        or not isinstance(record.get("start"), int)
    ):
        return None
    return Ident(record["pid"], record["start"])


def send(ident: Ident, number: int) -> bool:
    """Signal exactly that process; False where it is gone already. Raises PermissionError."""
    try:
        return _send_by_pidfd(ident, number)
    except ProcessLookupError:
        return False


def _send_by_pidfd(ident: Ident, number: int) -> bool:
    pidfd_open, pidfd_send = getattr(os, "pidfd_open", None), getattr(signal, "pidfd_send_signal", None)
    if pidfd_open is None or pidfd_send is None:
        return _send_by_pid(ident, number)  # Python 3.8
    try:
        fd = pidfd_open(ident.pid)
    except ProcessLookupError:
        return False
    except OSError:
        return _send_by_pid(ident, number)  # a kernel before 5.3, or a seccomp filter
    try:
        # After the open: if the start time matches now, the descriptor is that process, whatever becomes of the pid.
        if living(ident) is None:
            return False
        pidfd_send(fd, number)
        return True
    finally:
        os.close(fd)


def _send_by_pid(ident: Ident, number: int) -> bool:
    if living(ident) is None:
        return False
    os.kill(ident.pid, number)
    return True


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""
