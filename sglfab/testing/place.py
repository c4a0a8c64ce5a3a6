"""A host with the stand-in, and the `fab` that reaches it."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sglfab.testing.fab import Fab
from sglfab.testing.fixtures import StandinHost, find_free_port, start_of
from sglfab.testing.standin.build import make_models, make_standin


@dataclass(frozen=True)
class Place:
    """A host and the `fab` that reaches it. Locks and state lie under the host's root: tests may run side by side."""

    host: StandinHost
    fab: Fab

    @property
    def gate(self) -> str:
        """A line for `setup:` at which launch.sh waits until the test opens the gate."""
        return f"while [ ! -e {self.host.root}/open ]; do sleep 0.05; done"

    def open_gate(self) -> None:
        (self.host.root / "open").touch()

    def launch(self, *words: str) -> str:
        """The id of a run that was started and not waited for."""
        done = self.fab("launch", "--profile", "standin", "--no-wait", "--json", *words)
        assert done.code == 0, done
        return str(done.json["run"])

    def runs(self) -> dict[str, dict[str, Any]]:
        """Every recorded run by its id, oldest first, with `alive` and what lies beside it; read without `fab`."""
        folders = (f for f in (self.host.state_dir / "runs").glob("*") if (f / "run.json").exists())
        runs = [self._read(folder) for folder in folders]
        return {run["id"]: run for run in sorted(runs, key=lambda run: run["created_wall"])}

    @staticmethod
    def _read(folder: Path) -> dict[str, Any]:
        run = json.loads((folder / "run.json").read_text())
        beside = {n: json.loads(f.read_text()) for n in ("exit", "verdict") if (f := folder / f"{n}.json").exists()}
        return {**run, "alive": start_of(run["main"]["pid"]) == run["main"]["start"], **beside}

    @property
    def live(self) -> list[str]:
        return [name for name, run in self.runs().items() if run["alive"]]

    def logged(self, run: str) -> str:
        """The whole log. Bytes: reading as text would turn every \\r of a bar into a line end."""
        return (self.folder(run) / "server.log").read_bytes().decode("utf-8", "replace")

    def pid(self, run: str) -> int:
        return int(self.runs()[run]["main"]["pid"])

    def folder(self, run: str) -> Path:
        return self.host.state_dir / "runs" / run


def gone(pid: int) -> bool:
    """The process ended; its keeper may still have to reap it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


@contextlib.contextmanager
def place_in(root: Path) -> Iterator[Place]:
    host = StandinHost(root, make_standin(root / "env"), *make_models(root / "models"), find_free_port())
    host.write_profile()
    unset = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "all_proxy", "SGLFAB_API_KEY"))
    env = {**unset, **host.env, "SGLFAB_LOCK_DIR": str(root / "locks"), "SGLFAB_OPERATOR": "tester"}
    try:
        yield Place(host, Fab(env=env))
    finally:
        host.clean_up()
