"""What the kernel says: OOM and Xid lines of its log, and the cgroup's count of memory kills."""

from __future__ import annotations

import os
import re
import subprocess
import threading
import time
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

from sglfab.hostside.cgroups import oom_counter, oom_kills
from sglfab.hostside.watch_subject import Subject

Json = Dict[str, Any]
Put = Callable[[str, Json], None]
_JOURNAL_S = 5.0  # between looks into the journal: each starts a process
_NEEDLE = re.compile(r"\boom[-_]kill:|\bout of memory\b|\bkilled process\b|\boom_reaper:|\bXid\b", re.IGNORECASE)
_LINES_MAX = 50
_PROC_PID_INIT_INO = 0xEFFFFFFC  # Linux include/uapi/linux/nsfs.h: the same on every host


class KernelWatch:
    """Puts `kernel` for what is new since the server's start, and a `gap` for what cannot be read."""

    def __init__(self, subject: Subject, put: Put) -> None:
        self._put = put
        self._since_wall = subject.started_wall or time.time()
        self._counter = subject.oom or (oom_counter(subject.server.main.pid) if subject.server else None)
        self._told_kills = 0
        self._has_server = subject.server is not None
        self._kmsg: Optional[Kmsg] = None
        self._journal_due = threading.Event()

    def start(self, closed: threading.Event) -> None:
        """Say what can be read. Where only the journal can, it is asked in a thread of its own."""
        if self._counter is None and self._has_server:
            self._put("gap", {"text": "cgroup: no memory-kill counter is readable"})
        try:
            self._kmsg = Kmsg(os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK))
        except OSError as error:
            reason = str(error.strerror)
            threading.Thread(target=self._follow_journal, args=(reason, closed), name="kernel", daemon=True).start()
        else:
            self._tell_readable()

    def poll(self) -> None:
        """A few reads, no process: cheap enough to be asked several times a second."""
        if self._kmsg:
            self.tell_lines(self._kmsg)
        self.tell_kills()

    def look(self) -> None:
        """Before a death is told: what the kernel says up to now. `kernel` is put even when that is nothing."""
        self.poll()
        if self._kmsg:
            self._put("kernel", {"lines": []})
        else:
            self._journal_due.set()

    def _follow_journal(self, reason: str, closed: threading.Event) -> None:
        journal = Journal()
        if not journal.readable():
            text = "dmesg: /dev/kmsg: %s; the journal shows no kernel lines either" % reason
            self._put("gap", {"text": text})
            return
        self._tell_readable()
        while not closed.is_set():
            asked = self._journal_due.is_set()
            self._journal_due.clear()
            self.tell_lines(journal)
            if asked:
                self._put("kernel", {"lines": []})
            self._journal_due.wait(_JOURNAL_S)

    def _tell_readable(self) -> None:
        """From here on silence means that there is nothing."""
        self._put("kernel", {"lines": [], "same_pids": in_host_pid_namespace()})

    def tell_lines(self, source: "Kmsg | Journal") -> None:
        lines = [
            text for wall, text in source.new(self._since_wall) if wall >= self._since_wall - 1 and _NEEDLE.search(text)
        ]
        if lines:
            self._put("kernel", {"lines": lines[-_LINES_MAX:]})

    def tell_kills(self) -> None:
        """Put how far the counter has grown since the launch, when it has."""
        now = oom_kills(self._counter["path"]) if self._counter else None
        if now is None or self._counter is None:
            return
        growth = now - int(self._counter["count"])
        if growth > self._told_kills:
            self._told_kills = growth
            self._put("kernel", {"oom_kill": growth})


def in_host_pid_namespace() -> bool:
    """Whether the kernel log names processes by the pids that /proc shows us: not so in most containers."""
    try:
        return os.readlink("/proc/self/ns/pid") == "pid:[%d]" % _PROC_PID_INIT_INO
    except OSError:
        return True


class Kmsg:
    """/dev/kmsg: one record a read, `priority,sequence,microseconds since boot,flags;text`."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._boot_wall = time.time() - time.clock_gettime(time.CLOCK_MONOTONIC)

    def new(self, since_wall: float) -> Iterator[Tuple[float, str]]:
        while True:
            try:
                record = os.read(self._fd, 8192)
            except BrokenPipeError:
                continue  # records were overwritten before we came; the next read goes on behind them
            except OSError:
                return
            if not record:
                return
            yield self._parse(record.decode("utf-8", "replace"))

    def _parse(self, record: str) -> Tuple[float, str]:
        head, _, text = record.partition(";")
        fields = head.split(",")
        micros = int(fields[2]) if len(fields) > 2 and fields[2].isdigit() else 0
        return self._boot_wall + micros / 1e6, text.split("\n", 1)[0]


class Journal:
    """The kernel's lines in systemd's journal, for users who may read it."""

    def __init__(self) -> None:
        self._cursor: Optional[str] = None

    def readable(self) -> bool:
        return bool(self._ask(["--lines=1"]))

    def new(self, since_wall: float) -> Iterator[Tuple[float, str]]:
        where = ["--after-cursor=" + self._cursor] if self._cursor else ["--since=@%d" % since_wall]
        for line in self._ask([*where, "--output=short-unix", "--show-cursor"]):
            if line.startswith("-- cursor: "):
                self._cursor = line[len("-- cursor: ") :]
                continue
            stamp, _, text = line.partition(" ")
            yield _number(stamp), text

    def _ask(self, extra: List[str]) -> List[str]:
        try:
            done = subprocess.run(
                ["journalctl", "--dmesg", "--quiet", "--no-pager", *extra],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                timeout=10,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            return []
        return done.stdout.decode("utf-8", "replace").splitlines()


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0
