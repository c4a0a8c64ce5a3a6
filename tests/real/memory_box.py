"""A memory cgroup of a test's own, v1 or v2: what is started in it shares one limit."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path("/sys/fs/cgroup")
FORMS = (
    (ROOT / "memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "memory.oom_control"),
    (ROOT, "memory.max", "memory.current", "memory.events"),
)


@dataclass(frozen=True)
class MemoryBox:
    folder: Path
    limit: str
    usage: str
    counter: str

    @contextlib.contextmanager
    def inside(self) -> Iterator[None]:
        """This process, and what it starts meanwhile, is in the box."""
        form = "memory" if self.counter == "memory.oom_control" else ""
        before = next(p for _, c, p in _groups() if form in c.split(","))
        (self.folder / "cgroup.procs").write_text(str(os.getpid()))
        try:
            yield
        finally:
            (self.folder.parent / before.lstrip("/") / "cgroup.procs").write_text(str(os.getpid()))

    def leave_only(self, mb: int) -> None:
        """Whoever wants more than mb beyond what is in use now makes the kernel kill somebody in the box."""
        used = int((self.folder / self.usage).read_text())
        (self.folder / self.limit).write_text(str(used + (mb << 20)))

    @property
    def kills(self) -> int:
        lines = (self.folder / self.counter).read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("oom_kill "))

    def remove(self) -> None:
        until = time.monotonic() + 10
        while True:
            try:
                self.folder.rmdir()
                return
            except OSError:  # the last of its processes are just being reaped
                if time.monotonic() > until:
                    raise
                time.sleep(0.05)


def make_box(name: str) -> MemoryBox:
    """Skips the test, with the reason, where no memory cgroup can be made."""
    why = "no memory controller"
    for root, *files in FORMS:
        folder = root / name
        try:
            folder.mkdir()
        except OSError as error:
            why = f"{folder}: {error.strerror}"
            continue
        if all((folder / file).exists() for file in files):
            return MemoryBox(folder, *files)
        folder.rmdir()
    pytest.skip(f"no memory cgroup can be made here ({why}); the `ulimit` test stands for it")


def _groups() -> list[tuple[str, str, str]]:
    return [tuple(line.split(":", 2)) for line in Path("/proc/self/cgroup").read_text().splitlines()]  # type: ignore[misc]  # three fields by the kernel's format
