"""A real sshd on loopback with throw-away keys, and the ssh config that reaches it (`fab -S sshd.config -H box`)."""

from __future__ import annotations

import getpass
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

SSHD = shutil.which("sshd") or "/usr/sbin/sshd"


def missing() -> str | None:
    """Why no sshd can be started here, or None."""
    return (
        None if os.access(SSHD, os.X_OK) and shutil.which("ssh-keygen") else "no sshd: apt-get install openssh-server"
    )


@dataclass
class Sshd:
    """Everything lies in `folder`. `box` is the host's name in `config`; `host()` adds further names."""

    folder: Path
    port: int
    settings: tuple[str, ...] = ()  # further lines of sshd_config
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def config(self) -> Path:
        return self.folder / "ssh_config"

    @property
    def key(self) -> Path:
        return self.folder / "user_key"

    @property
    def known_hosts(self) -> Path:
        return self.folder / "known_hosts"

    @property
    def state_dir(self) -> Path:
        """What `SGLFAB_STATE_DIR` is for every program that this sshd starts."""
        return self.folder / "state"

    def prepare(self) -> None:
        """Keys, known_hosts, sshd_config and ssh_config."""
        make_key(self.folder / "host_key")
        make_key(self.key)
        shutil.copy(self.folder / "user_key.pub", self.folder / "authorized_keys")
        self.known_hosts.write_text(f"[127.0.0.1]:{self.port} {(self.folder / 'host_key.pub').read_text()}")
        self.state_dir.mkdir()
        (self.folder / "sshd_config").write_text("\n".join([*self.settings, *self._sshd_lines(), ""]))
        self.host("box")

    def _sshd_lines(self) -> list[str]:
        return [
            f"Port {self.port}",
            "ListenAddress 127.0.0.1",
            f'HostKey "{self.folder}/host_key"',
            f'AuthorizedKeysFile "{self.folder}/authorized_keys"',
            f'PidFile "{self.folder}/sshd.pid"',
            f"SetEnv SGLFAB_STATE_DIR={self.state_dir}",
            "StrictModes no",
            "UsePAM no",
            "PasswordAuthentication no",
            "KbdInteractiveAuthentication no",
            "PermitRootLogin yes",
            "MaxStartups 100",
        ]

    def host(self, name: str, **options: str) -> str:
        """Add a Host block (option names as in ssh_config; they replace ours) and return its name."""
        ours = {
            "HostName": "127.0.0.1",
            "Port": str(self.port),
            "User": getpass.getuser(),
            "IdentityFile": str(self.key),
            "IdentitiesOnly": "yes",
            "IdentityAgent": "none",
            "UserKnownHostsFile": str(self.known_hosts),
            "GlobalKnownHostsFile": "/dev/null",
        }
        lines = [f"Host {name}", *(f"  {k} {v}" for k, v in (ours | options).items() if v), ""]
        with self.config.open("a") as f:
            f.write("\n".join(lines))
        return name

    def start(self) -> None:
        if os.geteuid() == 0:
            os.makedirs("/run/sshd", mode=0o755, exist_ok=True)  # sshd wants it for its unprivileged child
        argv = [SSHD, "-D", "-e", "-f", str(self.folder / "sshd_config")]
        with (self.folder / "sshd.log").open("ab") as log:
            self.process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self._wait_listening()

    def _wait_listening(self) -> None:
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline and self.process is not None and self.process.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
            except OSError:
                time.sleep(0.02)
            else:
                return
        raise RuntimeError(f"sshd does not listen: {self.log()[-2000:]}")

    def stop(self) -> None:
        """No new connections; the open ones live on."""
        if self.process is not None:
            self.process.terminate()
            self.process.wait()

    def connections(self) -> list[int]:
        """The sshd processes that serve open connections."""
        if self.process is None:
            return []
        return [pid for pid in descendants(self.process.pid) if name_of(pid).startswith("sshd")]

    def settled(self, *, within_s: float = 10.0) -> bool:
        """Whether every connection ends in time."""
        deadline = time.monotonic() + within_s
        while self.connections() and time.monotonic() < deadline:
            time.sleep(0.02)
        return not self.connections()

    def log(self) -> str:
        return (self.folder / "sshd.log").read_text(errors="replace")

    def signal_connections(self, number: int) -> None:
        """SIGKILL: the network breaks. SIGSTOP: the host falls silent."""
        for pid in self.connections():
            os.kill(pid, number)


def descendants(pid: int) -> list[int]:
    """Every living descendant of pid, parents first."""
    children = [c for c in _pids() if _parent(c) == pid]
    return [d for child in children for d in (child, *descendants(child))]


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _parent(pid: int) -> int | None:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    return int(stat.rpartition(")")[2].split()[1])


def name_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def make_key(path: Path, *, passphrase: str = "", kind: str = "ed25519") -> Path:
    argv = ["ssh-keygen", "-q", "-t", kind, "-N", passphrase, "-C", "throw-away", "-f", str(path)]
    subprocess.run(argv, check=True, stdin=subprocess.DEVNULL)
    return path


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def running(folder: Path, *settings: str) -> Iterator[Sshd]:
    """An sshd for the length of the block; `settings` are further lines of sshd_config."""
    folder.mkdir(parents=True, exist_ok=True)
    sshd = Sshd(folder, free_port(), settings)
    sshd.prepare()
    sshd.start()
    try:
        yield sshd
    finally:
        sshd.signal_connections(signal.SIGCONT)
        sshd.signal_connections(signal.SIGKILL)
        sshd.stop()
