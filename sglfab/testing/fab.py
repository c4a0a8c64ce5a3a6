"""Drive real `fab` processes, as an operator does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
EXECUTABLE = Path(sys.executable).with_name("fab")


@dataclass(frozen=True)
class Fab:
    """`fab` in one environment. env: on top of ours; core: core flags such as ("-S", config, "-H", "gpu1")."""

    env: Mapping[str, str] = field(default_factory=dict)
    core: tuple[str, ...] = ()
    cwd: Path = ROOT

    def argv(self, *words: str) -> list[str]:
        return [str(EXECUTABLE), *self.core, *words]

    @property
    def environ(self) -> dict[str, str]:
        return {**os.environ, **self.env}

    def run(self, *words: str, timeout_s: float = 180) -> subprocess.CompletedProcess[str]:
        """The finished process; its exit code is for the caller to judge."""
        return subprocess.run(
            self.argv(*words),
            cwd=self.cwd,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )

    def json(self, *words: str, timeout_s: float = 180) -> tuple[int, Any]:
        """Exit code and the JSON object of `fab … --json`. Fails with both outputs when stdout is no JSON."""
        done = self.run(*words, "--json", timeout_s=timeout_s)
        try:
            return done.returncode, json.loads(done.stdout)
        except ValueError:
            raise AssertionError(f"no JSON, exit {done.returncode}:\n{done.stdout}\n{done.stderr}") from None

    def start(self, *words: str) -> subprocess.Popen[str]:
        """The running process, in a process group of its own."""
        return subprocess.Popen(
            self.argv(*words),
            cwd=self.cwd,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
