"""The import rule of docs/architecture.md, read from the code; each rule is shown to catch a planted violation."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

# errors ← model ← project ← the pure group ← transports ← flows ← report ← tasks ← fabfile
PURE = ("profiles", "commands", "sglang", "logs", "diagnosis", "patching", "eagle")
ORDER: Mapping[str, int] = {
    **{"errors": 0, "model": 1, "project": 2},
    **dict.fromkeys(PURE, 3),
    **{"transports": 4, "flows": 5, "report": 6, "tasks": 7, "fabfile": 8},
    "embed": 8,  # the door for a team's own fabfile
}
WITHIN_PURE: Mapping[str, frozenset[str]] = {
    "sglang": frozenset(),
    "logs": frozenset(),
    "profiles": frozenset({"sglang"}),
    "commands": frozenset({"sglang", "profiles"}),
    "diagnosis": frozenset({"logs", "sglang"}),
    "patching": frozenset({"sglang"}),
    "eagle": frozenset({"sglang", "logs", "patching"}),
}
# The probe is a program of the server, only kept here: it is shipped as text and imports nothing of ours.
SHIPPED = "sglfab/patching/probe/*.py"

IO_MODULES = frozenset(
    {"asyncio", "glob", "http", "importlib", "io", "os", "requests", "select", "shutil", "signal", "socket", "sqlite3"}
    | {"ssl", "subprocess", "tempfile", "threading", "time", "urllib"}
)
IO_BUILTINS = frozenset({"open", "input", "exec", "eval", "__import__"})
IO_METHODS = frozenset(
    {"read_text", "write_text", "read_bytes", "write_bytes", "iterdir", "glob", "rglob", "exists", "is_file", "is_dir"}
    | {"stat", "mkdir", "unlink", "rmdir", "touch", "symlink_to", "hardlink_to", "expanduser", "resolve", "cwd", "home"}
)
CLOCK_METHODS = frozenset({"now", "utcnow", "today"})

# module → the only places (glob patterns of files) that may import it
PLACES: Mapping[str, tuple[str, ...]] = {
    "fabric": ("sglfab/transports/ssh*.py", "tasks/*.py"),
    "paramiko": ("sglfab/transports/ssh*.py", "tasks/*.py"),
    "invoke": ("tasks/*.py",),
    "requests": ("sglfab/flows/http_direct.py",),
    "subprocess": ("sglfab/transports/local.py", "sglfab/flows/secrets.py", "sglfab/hostside/*.py"),
    # Below the flows there is no Clock: transports time their own pipes, hostside its own loops.
    "time": ("sglfab/flows/clock.py", "sglfab/transports/*.py", "sglfab/hostside/*.py"),
}
PRINT_PLACES = ("tasks/*.py",)


@dataclass(frozen=True)
class Use:
    """One import of one module, fully named, and where it stands."""

    file: str
    line: int
    module: str

    @property
    def top(self) -> str:
        return self.module.partition(".")[0]


def layer_of(name: str) -> str:
    """The layer of a module or file: `sglfab.flows.wait` → flows, `tasks.edge` → tasks, `sglfab` itself → ""."""
    parts = name.removesuffix(".py").replace("/", ".").split(".")
    return (parts[1] if len(parts) > 1 else "") if parts[0] == "sglfab" else parts[0]


def uses(file: str, tree: ast.AST) -> Iterator[Use]:
    """Every import, those inside functions and under TYPE_CHECKING too; `from a import b` as a.b."""
    package = file.removesuffix(".py").split("/")[:-1]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (Use(file, node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            yield from (Use(file, node.lineno, f"{base}.{alias.name}") for alias in node.names)


def calls(tree: ast.AST) -> Iterator[tuple[int, str, bool]]:
    """Line, name and whether it is a method, of every call."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            yield node.lineno, node.func.id, False
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and not _our_own(node, node.func.attr):
            yield node.lineno, node.func.attr, True


def _our_own(call: ast.Call, name: str) -> bool:
    """Path.resolve takes no path: `reader.resolve(path)` is a method of ours."""
    return name == "resolve" and bool(call.args)


def within(file: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatch(file, pattern) for pattern in patterns)


def layer_faults(use: Use) -> Iterator[str]:
    mine, other = layer_of(use.file), layer_of(use.module)
    if use.top not in ("sglfab", "tasks", "fabfile") or other in (mine, ""):
        return
    if mine == "" or other == "testing" or mine == "hostside" or other == "hostside":
        yield f"{mine or 'sglfab'} may not import {use.module}"
    elif mine in PURE and other in PURE:
        if other not in WITHIN_PURE[mine]:
            yield f"{mine} may not import {use.module}: inside the pure group only {sorted(WITHIN_PURE[mine])}"
    elif ORDER.get(other, -1) >= ORDER.get(mine, 99):
        yield f"{mine} may not import {use.module}: that layer is above it"


def place_faults(use: Use) -> Iterator[str]:
    places = PLACES.get(use.top)
    if places and not within(use.file, places):
        yield f"{use.top} only in {', '.join(places)}"
    if layer_of(use.file) == "hostside" and use.top not in ("sglfab", *sys.stdlib_module_names):
        yield f"hostside is stdlib-only, not {use.module}"


def purity_faults(file: str, tree: ast.AST) -> Iterator[tuple[int, str]]:
    if layer_of(file) not in PURE:
        return
    for use in uses(file, tree):
        if use.top in IO_MODULES and use.module != "importlib.metadata":
            yield use.line, f"the pure group does no IO: {use.module}"
    for line, name, method in calls(tree):
        if name in IO_METHODS if method else name in IO_BUILTINS:
            yield line, f"the pure group does no IO: {name}()"
        if method and name in CLOCK_METHODS:
            yield line, f"the pure group knows no clock: {name}()"


def faults(root: Path) -> list[str]:
    """Every violation under root, as `file:line: what`."""
    found: list[str] = []
    for path in sorted([*root.glob("sglfab/**/*.py"), *root.glob("tasks/**/*.py"), *root.glob("fabfile.py")]):
        file = path.relative_to(root).as_posix()
        if layer_of(file) == "testing":
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        found += [f"{file}:{u.line}: {why}" for u in uses(file, tree) for why in file_faults(u)]
        if fnmatch(file, SHIPPED):
            continue
        found += [f"{file}:{line}: {why}" for line, why in purity_faults(file, tree)]
        prints = [line for line, name, method in calls(tree) if name == "print" and not method]
        found += [f"{file}:{line}: print only in tasks/" for line in prints if not within(file, PRINT_PLACES)]
    return found


def file_faults(use: Use) -> Iterator[str]:
    if not fnmatch(use.file, SHIPPED):
        yield from layer_faults(use)
        yield from place_faults(use)
    elif use.top == "sglfab":
        yield f"the probe is shipped alone: it may not import {use.module}"


def test_the_code_keeps_the_rule() -> None:
    assert faults(ROOT) == []


def test_the_rule_is_read_on_all_the_code() -> None:
    """Every module and package of sglfab has its place in the order."""
    known = {*ORDER, "hostside", "testing", "__init__"}
    here = {p.stem for p in (ROOT / "sglfab").iterdir() if p.suffix == ".py" or (p / "__init__.py").exists()}
    assert here <= known


BAD = {
    "a lower layer imports a higher one": ("sglfab/model.py", "from sglfab.flows import launch"),
    "the same by a relative import": ("sglfab/transports/host.py", "from ..flows import launch"),
    "the same inside a function": ("sglfab/flows/wait.py", "def f():\n    from sglfab.report import page"),
    "the same under TYPE_CHECKING": (
        "sglfab/flows/wait.py",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import sglfab.report.page",
    ),
    "flows import tasks": ("sglfab/flows/wait.py", "import tasks.edge"),
    "logs, the lowest, import diagnosis": ("sglfab/logs/lines.py", "from sglfab.diagnosis import judge"),
    "patching imports diagnosis": ("sglfab/patching/taps.py", "from sglfab.diagnosis import judge"),
    "someone imports the testing kit": ("tasks/servers.py", "from sglfab.testing import fixtures"),
    "someone imports hostside": ("sglfab/transports/bundle.py", "from sglfab.hostside import runs"),
    "hostside imports another layer": ("sglfab/hostside/runs.py", "from sglfab.errors import InputError"),
    "hostside imports a library": ("sglfab/hostside/runs.py", "import yaml"),
    "the probe imports something of ours": ("sglfab/patching/probe/p.py", "from sglfab.errors import PatchError"),
    "fabric outside the ssh transport": ("sglfab/transports/local.py", "import fabric"),
    "paramiko in a flow": ("sglfab/flows/wait.py", "from paramiko import SSHException"),
    "invoke in the core": ("sglfab/report/page.py", "from invoke.exceptions import Exit"),
    "requests beside --url": ("sglfab/flows/wait.py", "import requests"),
    "subprocess in a flow": ("sglfab/flows/launch.py", "import subprocess"),
    "time beside the Clock": ("sglfab/flows/wait.py", "import time"),
    "print in a report": ("sglfab/report/page.py", "print('hello')"),
    "a pure module opens a file": ("sglfab/logs/lines.py", "open('x')"),
    "a pure module reads through pathlib": ("sglfab/logs/lines.py", "from pathlib import Path\nPath('x').read_text()"),
    "a pure module imports os": ("sglfab/diagnosis/judge.py", "import os"),
    "a pure module imports a socket": ("sglfab/diagnosis/judge.py", "from socket import socket"),
    "a pure module asks the clock": (
        "sglfab/eagle/report.py",
        "from datetime import UTC, datetime\ndatetime.now(UTC)",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_violation_is_caught(tmp_path: Path, case: str) -> None:
    assert len(faults(planted(tmp_path, *BAD[case]))) >= 1


GOOD = {
    "flows import a lower layer": ("sglfab/flows/wait.py", "from sglfab.diagnosis.judge import Judge"),
    "report imports the events of flows": ("sglfab/report/live.py", "from sglfab.flows.events import Watched"),
    "diagnosis imports logs": ("sglfab/diagnosis/judge.py", "from sglfab.logs.lines import LineSplitter"),
    "a pure module has a method of that name": ("sglfab/profiles/files.py", "def f(reader, p):\n    reader.resolve(p)"),
    "a pure module names a Path": ("sglfab/profiles/files.py", "from pathlib import Path\nPath('a') / 'b'"),
    "a pure module is given the project": ("sglfab/profiles/files.py", "def f(project):\n    project.read('x')"),
    "a pure module parses a time": (
        "sglfab/diagnosis/run.py",
        "from datetime import datetime\ndatetime.fromisoformat('2026-12-01')",
    ),
    "a rich console prints": ("sglfab/report/page.py", "def f(console):\n    console.print('x')"),
    "hostside keeps to the standard library": ("sglfab/hostside/runs.py", "import os, subprocess, time"),
    "hostside imports itself": ("sglfab/hostside/runs.py", "from sglfab.hostside.state import place"),
    "the probe reads the clock": ("sglfab/patching/probe/p.py", "import os, time"),
    "a text that only mentions an import": ("sglfab/patching/footer.py", "TEXT = 'import os'"),
    "the ssh transport uses fabric": ("sglfab/transports/ssh.py", "import fabric, paramiko, time"),
    "a task prints": ("tasks/answers.py", "print('hello')"),
}


@pytest.mark.parametrize("case", GOOD)
def test_rightful_use_is_left_alone(tmp_path: Path, case: str) -> None:
    assert faults(planted(tmp_path, *GOOD[case])) == []


def planted(root: Path, file: str, text: str) -> Path:
    (root / file).parent.mkdir(parents=True, exist_ok=True)
    (root / file).write_text(text + "\n", encoding="utf-8")
    return root


WITHOUT_FABRIC = """
import importlib, pkgutil, sys
sys.modules.update(dict.fromkeys(("fabric", "invoke", "paramiko")))  # None: importing it is an ImportError
import sglfab
for found in pkgutil.walk_packages(sglfab.__path__, "sglfab."):
    name = found.name
    if name.startswith(("sglfab.testing", "sglfab.hostside", "sglfab.transports.ssh")) or ".probe" in name:
        continue
    importlib.import_module(name)
"""


def test_core_imports_without_fabric_and_invoke() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT_FABRIC], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
