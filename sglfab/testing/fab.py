"""`fab` as an operator runs it: real processes, with or without a terminal."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
FAB = Path(sys.executable).with_name("fab")


@dataclass(frozen=True)
class Done:
    """A `fab` that ended. code: its exit status."""

    words: tuple[str, ...]
    code: int
    out: str
    err: str

    @property
    def said(self) -> str:
        """All that was printed."""
        return self.out + self.err

    @property
    def json(self) -> Any:
        """The one object on stdout."""
        try:
            return json.loads(self.out)
        except ValueError:
            raise AssertionError(f"no JSON object on stdout of {self}") from None

    def __str__(self) -> str:
        return f"fab {' '.join(self.words)} -> {self.code}\n--- stdout\n{self.out}\n--- stderr\n{self.err}"


@dataclass(frozen=True)
class Fab:
    """Runs `fab` in `cwd` with `env` on top of this process's environment; a variable of None is taken away."""

    cwd: Path = ROOT
    env: Mapping[str, str | None] = field(default_factory=dict)
    first: tuple[str, ...] = ()  # words before the task: -S CONFIG -H box

    def where(self, *first: str, cwd: Path | None = None, **env: str | None) -> Fab:
        """The same with further first words, another folder, further variables."""
        return replace(self, cwd=cwd or self.cwd, env={**self.env, **env}, first=(*self.first, *first))

    @property
    def environ(self) -> dict[str, str]:
        return {name: value for name, value in {**os.environ, **self.env}.items() if value is not None}

    def argv(self, *words: str) -> list[str]:
        return [str(FAB), *self.first, *words]

    def start(self, *words: str, new_group: bool = True) -> subprocess.Popen[str]:
        """A `fab` that goes on; new_group: so that a test can send it a signal as a terminal would, to its group."""
        return subprocess.Popen(
            self.argv(*words),
            cwd=self.cwd,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=new_group,
        )

    def __call__(self, *words: str, input: str | None = None, timeout_s: float = 90) -> Done:
        """Run it to its end, stdin no terminal."""
        done = subprocess.run(
            self.argv(*words),
            cwd=self.cwd,
            env=self.environ,
            capture_output=True,
            text=True,
            errors="surrogateescape",
            timeout=timeout_s,
            check=False,
            **({"stdin": subprocess.DEVNULL} if input is None else {"input": input}),
        )
        return Done((*self.first, *words), done.returncode, done.stdout, done.stderr)

    def all(self, *commands: tuple[str, ...], at_once: int = 4) -> list[Done]:
        """Several, side by side."""
        with ThreadPoolExecutor(at_once) as pool:
            return list(pool.map(lambda words: self(*words), commands))


def ended(process: subprocess.Popen[str], words: tuple[str, ...] = (), timeout_s: float = 60) -> Done:
    """What a started `fab` did until its end."""
    out, err = process.communicate(timeout=timeout_s)
    return Done(words, process.returncode, out, err)


def read_until(process: subprocess.Popen[str], words: str) -> str:
    """The first line of stderr with these words; fails when the program ends without one."""
    assert process.stderr is not None
    lines = []
    for line in process.stderr:
        lines.append(line)
        if words in line:
            return line
    raise AssertionError(f"never said: {words!r}; but:\n{''.join(lines)}")
