"""hosts.yaml: the team's hosts by name, with their python, folders and notes. It need not exist."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import Field, StrictStr

from sglfab.errors import InputError
from sglfab.profiles.building import interpreter
from sglfab.profiles.checking import check
from sglfab.profiles.schema import Port, Strict
from sglfab.profiles.yamltree import Leaf, Table, parse, plain
from sglfab.project import Project

FILE = "hosts.yaml"
EXAMPLE = "see configs/hosts.example.yaml"


class HostKeys(Strict):
    """What a host may say."""

    address: StrictStr | None = Field(None, description="How SSH reaches it")
    user: StrictStr | None = None
    port: Port | None = Field(None, description="SSH port")
    python: StrictStr | None = Field(None, description="Interpreter or virtual environment")
    state_dir: StrictStr | None = Field(None, description="Folder of run folders")
    logs: StrictStr | None = Field(None, description="Where servers that fab did not start write their logs")
    notes: StrictStr | None = None


MUST_BE: Mapping[tuple[str, ...], str] = {
    **{(key,): "text" for key in HostKeys.model_fields},
    ("port",): "a whole number from 1 to 65535",
}


@dataclass(frozen=True)
class HostEntry:
    """A named host. address: `user@host:port` as Fabric takes it, None: the name itself. python: an interpreter."""

    name: str
    address: str | None = None
    python: str | None = None
    state_dir: str | None = None
    logs: str | None = None
    notes: str = ""


def load_hosts(project: Project) -> Mapping[str, HostEntry]:
    """The hosts of the team's hosts.yaml and of ours, the team's first. Raises InputError with file:line."""
    found: dict[str, HostEntry] = {}
    for base in (*project.extra, project.root / "configs"):
        if project.has(base / FILE):
            for entry in _entries(project, base / FILE):
                found.setdefault(entry.name, entry)
    return found


def _entries(project: Project, path: Path) -> Iterator[HostEntry]:
    name_of_file = project.shown(path)
    text = project.read(path)
    if not any(line.strip() and not line.strip().startswith("#") for line in text.splitlines()):
        return
    tree = parse(text, name_of_file)
    for name, node in tree.entries.items():
        if isinstance(node, Leaf) and node.value is None:
            yield HostEntry(name)
        elif isinstance(node, Table):
            check(node, HostKeys, MUST_BE, inside=f"host {name}", see=EXAMPLE)
            yield _entry(name, plain(node))
        else:
            what = f"host {name} must be a mapping of {', '.join(HostKeys.model_fields)}"
            raise InputError("hosts-wrong-type", what, where=str(tree.keys[name]), try_=EXAMPLE)


def _entry(name: str, keys: Mapping[str, str | int | None]) -> HostEntry:
    def text(key: str) -> str | None:
        return str(keys[key]) if keys.get(key) is not None else None

    return HostEntry(
        name=name,
        address=_address(name, text("address"), text("user"), text("port")),
        python=interpreter(text("python")),
        state_dir=text("state_dir"),
        logs=text("logs"),
        notes=text("notes") or "",
    )


def _address(name: str, address: str | None, user: str | None, port: str | None) -> str | None:
    if not (address or user or port):
        return None
    return (f"{user}@" if user else "") + (address or name) + (f":{port}" if port else "")
