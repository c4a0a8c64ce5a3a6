"""pytest fixtures to import into a folder's conftest: `from sglfab.testing.fixtures import standin_host`."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import socket
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml

from sglfab.testing.standin.build import Standin, make_models, make_standin


def find_free_port() -> int:
    """A port of loopback that was free a moment ago.

    Below the range from which the kernel takes ports for outgoing connections: whoever polls such a port before the
    server listens can connect to itself, and then the server cannot bind.
    """
    while True:
        port = random.randrange(20000, 32000)
        if is_free(port):
            return port


def is_free(port: int) -> bool:
    """Nobody listens on that port of loopback."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


@dataclass
class StandinHost:
    """This machine as a host with the stand-in installed; everything of it lies under `root`.

    `env` is what the operator's process needs: the state folder and the folder with the profiles.
    """

    root: Path
    standin: Standin
    target: Path
    draft: Path
    port: int
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def python(self) -> str:
        return str(self.standin.python)

    @property
    def state_dir(self) -> Path:
        return self.root / "state"

    @property
    def configs(self) -> Path:
        return self.root / "configs"

    @property
    def env(self) -> dict[str, str]:
        return {"SGLFAB_STATE_DIR": str(self.state_dir), "SGLFAB_CONFIGS": str(self.configs)}

    @property
    def args(self) -> dict[str, object]:
        """The launch arguments of a profile that serves the tiny models at TP=2 with a draft."""
        return {
            "model-path": str(self.target),
            "tp-size": 2,
            "speculative-algorithm": "EAGLE3",
            "speculative-draft-model-path": str(self.draft),
            "speculative-num-steps": 3,
            "speculative-eagle-topk": 1,
            "speculative-num-draft-tokens": 4,
        }

    def profile_text(self, script: Mapping[str, object] | None = None, **extra: object) -> str:
        """A profile in YAML. script: what SGLANG_STANDIN gets; extra: top-level keys, `args` and `env` merged."""
        merged = dict(extra)
        args = {**self.args, **dict(merged.pop("args", None) or {})}  # type: ignore[call-overload]  # a mapping, if given
        env = {"SGLANG_STANDIN": json.dumps(script or {}), **dict(merged.pop("env", None) or {})}  # type: ignore[call-overload]  # same
        profile = {"description": "the stand-in, not SGLang", "python": self.python, "port": self.port}
        return yaml.safe_dump({**profile, "args": args, "env": env, **merged}, sort_keys=False)

    def write_profile(self, name: str = "standin", script: Mapping[str, object] | None = None, **extra: object) -> Path:
        """The same as configs/profiles/NAME.yaml."""
        path = self.configs / "profiles" / f"{name}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.profile_text(script, **extra), encoding="utf-8")
        return path

    def start(self, script: Mapping[str, object] | None = None, *more: str) -> subprocess.Popen[bytes]:
        """A server that nobody launched with our tool, in a session of its own; its output is root/server.log."""
        flags = [word for flag, value in self.args.items() for word in (f"--{flag}", str(value))]
        argv = [self.python, "-m", "sglang.launch_server", *flags, "--port", str(self.port), *more]
        env = {**os.environ, "SGLANG_STANDIN": json.dumps(script or {})}
        with (self.root / "server.log").open("ab") as log:
            server = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env, start_new_session=True
            )
        self.started.append(server)
        return server

    def clean_up(self) -> None:
        """End what was started here, plainly or as a run of the state folder."""
        for server in self.started:
            end_session(server.pid)
            server.wait(timeout=10)
        end_runs(self.state_dir)


def end_runs(state_dir: Path) -> None:
    """End the server of every run that a state folder records, if it is still the process that was recorded."""
    for record in state_dir.glob("**/runs/*/run.json"):
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            main = json.loads(record.read_text(encoding="utf-8"))["main"]
            if start_of(main["pid"]) in (None, main["start"]):
                end_session(main["pid"])


def end_session(leader: int) -> None:
    """SIGKILL every process of the session that `leader` leads or led."""
    signal_session(leader, signal.SIGKILL)


def signal_session(leader: int, number: int) -> None:
    """Send a signal to every process of the session that `leader` leads or led."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError):
            if int(stat.read_text().rpartition(")")[2].split()[3]) == leader:
                os.kill(int(stat.parent.name), number)


def start_of(pid: int) -> int | None:
    """The start time of a process in clock ticks after boot, as /proc has it; None when there is no such process."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    except (OSError, ValueError):
        return None


@pytest.fixture
def free_port() -> int:
    return find_free_port()


@pytest.fixture
def standin_host(tmp_path: Path) -> Iterator[StandinHost]:
    """A host with the stand-in, tiny models and a free port; whatever runs there is ended afterwards."""
    root = tmp_path / "host"
    standin = make_standin(root / "env")
    target, draft = make_models(root / "models")
    host = StandinHost(root, standin, target, draft, find_free_port())
    yield host
    host.clean_up()
