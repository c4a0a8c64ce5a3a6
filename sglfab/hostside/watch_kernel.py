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
_EVERY_S = 1.0
_NEEDLE = re.compile(r"\boom[-_]kill:|\bout of memory\b|\bkilled process\b|\boom_reaper:|\bXid\b", re.IGNORECASE)
_LINES_MAX = 50


class KernelWatch:
    """Puts `kernel` for what is new since the server's start, and a `gap` for what cannot be read."""

    def __init__(self, subject: Subject, put: Put) -> None:
        self._put = put
        self._since_wall = subject.started_wall or time.time()
        self._counter = subject.oom or (oom_counter(subject.server.main.pid) if subject.server else None)
        self._told_kills = 0
        self._has_server = subject.server is not None

    def run(self, closed: threading.Event) -> None:
        source = _source()
        if isinstance(source, str):
            self._put("gap", {"text": source})
        else:
            self._put("kernel", {"lines": []})  # readable: from here on silence means that there is nothing
        if self._counter is None and self._has_server:
            self._put("gap", {"text": "cgroup: no memory-kill counter is readable"})
        while not closed.is_set():
            if not isinstance(source, str):
                self.tell_lines(source)
            self.tell_kills()
            closed.wait(_EVERY_S if not isinstance(source, Journal) else _EVERY_S * 5)

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


def _source() -> "Kmsg | Journal | str":
    """The first way to the kernel log that works, or why there is none."""
    try:
        return Kmsg(os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK))
    except OSError as error:
        reason = error.strerror
    return (
        Journal() if Journal().readable() else "dmesg: /dev/kmsg: %s; the journal shows no kernel lines either" % reason
    )


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
