"""The merged tree → a Profile: defaults, and what only the whole can tell."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from sglfab.errors import InputError
from sglfab.model import Json, Origin, Profile, SecretSource, WaitSettings
from sglfab.profiles.files import Resolved
from sglfab.profiles.yamltree import Items, Leaf, Node, Table, at, kind, leaves, plain

DEFAULT_PORT = 30000  # SGLang's own
DEFAULT_GRACE_S = 30.0
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}")
INTERPRETER = re.compile(r"(?:python|pypy)[\w.]*")
# bash refuses to set these, so the server would not start.
READONLY = frozenset({"BASHOPTS", "BASH_VERSINFO", "EUID", "PPID", "SHELLOPTS", "UID"})
OWN = "SGLFAB_"  # variables that fab itself sets for a run
WAIT_S = ("deadline_s", "reconnect_s", "probe_timeout_s", "heartbeat_s")


def build(name: str, resolved: Resolved) -> Profile:
    """The profile of a resolved tree. Raises InputError with the line of what does not fit together."""
    tree = resolved.tree
    _check_name(name, resolved)
    _check_paths(tree)
    _check_env(tree)
    port, port_origin = _port(tree)
    args = {flag: as_written(node) for flag, node in _table(tree, "args").items() if flag != "port"}
    origins = {".".join(path): node.origin for path, node in leaves(tree)} | _flag_origins(tree) | {"port": port_origin}
    return Profile(
        name=name,
        description=_scalar(tree, "description") or "",
        args=args,
        env={key: str(plain(node)) for key, node in _table(tree, "env").items()},
        hosts=_texts(tree, "hosts"),
        python=interpreter(_scalar(tree, "python")),
        cwd=_scalar(tree, "cwd"),
        setup=_texts(tree, "setup"),
        ulimits={key: str(plain(node)) for key, node in _table(tree, "ulimits").items()},
        port=port,
        cuda_graphs=_scalar(tree, "cuda_graphs"),
        patches=_texts(tree, "patches"),
        patch_via=_scalar(tree, "patch_via") or "file",
        secrets=tuple(_secrets(tree)),
        wait=_wait(tree),
        stop_grace_s=_grace_s(tree),
        origins=origins,
        files=resolved.files,
    )


def _check_name(name: str, resolved: Resolved) -> None:
    if not NAME.fullmatch(name):
        what = f"'{name}' cannot be the name of a profile: runs and folders are called after it"
        raise InputError("profile-bad-name", what, where=resolved.files[-1], try_="letters, digits and . _ + -")


def _check_paths(tree: Table) -> None:
    """What is relative to nothing: a host has no current folder for us."""
    for key in ("python", "cwd"):
        node = tree.entries.get(key)
        path = node.value if isinstance(node, Leaf) else None
        if path is not None and not re.match(r"/|~(?:/|$)", path) and (key == "cwd" or not INTERPRETER.fullmatch(path)):
            what = f"'{key}' must be an absolute path on the host, or one under ~/, not '{path}'"
            raise InputError("profile-relative-path", what, where=str(tree.entries[key].origin), try_=f"~/{path}")


def _check_env(tree: Table) -> None:
    for name, node in _table(tree, "env").items():
        if name.startswith(OWN) or name in READONLY:
            what = f"{name} is set by {'the shell' if name in READONLY else 'fab'} itself"
            raise InputError("profile-own-variable", what, where=str(node.origin), try_="remove it")
    for path, node in leaves(tree):
        if "\0" in str(plain(node)):
            what = f"'{'.'.join(path)}' holds a NUL byte, which no program can receive"
            raise InputError("profile-nul", what, where=str(node.origin), try_="remove it")


# --- parts ------------------------------------------------------------------------------------------------------------


def _table(tree: Table, key: str) -> Mapping[str, Node]:
    node = tree.entries.get(key)
    return node.entries if isinstance(node, Table) else {}


def _scalar(tree: Table, key: str) -> Json:
    node = tree.entries.get(key)
    return node.value if isinstance(node, Leaf) else None


def _texts(tree: Table, key: str) -> tuple[str, ...]:
    node = tree.entries.get(key)
    return tuple(str(plain(item)) for item in node.items) if isinstance(node, Items) else ()


def as_written(node: Node) -> Json:
    """The value of a flag. A number that Python would print otherwise (`1.10`, `1e-5`) stays the text it was."""
    match node:
        case Table(entries=entries):
            return {key: plain(child) for key, child in entries.items()}
        case Items(items=items):
            return [as_written(child) if isinstance(child, Leaf) else plain(child) for child in items]
    number = isinstance(node.value, int | float) and not isinstance(node.value, bool)
    return node.text if number and str(node.value) != node.text else node.value


def _flag_origins(tree: Table) -> dict[str, Origin]:
    """A mapping is the value of one flag too: `args.cuda-graph-config` beside `args.cuda-graph-config.decode.bs`."""
    tables = {f"args.{flag}": node.origin for flag, node in _table(tree, "args").items() if isinstance(node, Table)}
    sources = {
        f"secrets.{group}.{name}": source.origin
        for group in ("env", "args")
        for name, source in _table(_as_table(tree.entries.get("secrets")), group).items()
    }
    return tables | sources


def _as_table(node: Node | None) -> Table:
    return node if isinstance(node, Table) else Table({}, {}, Origin(""))


def _port(tree: Table) -> tuple[int, Origin]:
    """`port:`, or `port` in args, but not both."""
    own, flag = tree.entries.get("port"), at(tree, ("args", "port"))
    if own is not None and flag is not None:
        what = f"the port is given twice: port at {own.origin}, args.port at {flag.origin}"
        raise InputError("profile-port-twice", what, where=str(flag.origin), try_="keep port:, remove args.port")
    node = own or flag
    if node is None:
        return DEFAULT_PORT, Origin("SGLang's default")
    value = plain(node)
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= 65535:
        what = f"the port must be a whole number from 1 to 65535, not {kind(node)}"
        raise InputError("profile-bad-port", what, where=str(node.origin), try_=f"port: {DEFAULT_PORT}")
    return value, node.origin


def interpreter(python: str | None) -> str | None:
    """The interpreter that `python:` means: a path, a command, or the folder of a virtual environment."""
    if python is None or INTERPRETER.fullmatch(python.rpartition("/")[2]):
        return python
    return python.rstrip("/") + "/bin/python"


def _secrets(tree: Table) -> Iterator[SecretSource]:
    secrets = _as_table(tree.entries.get("secrets"))
    for group in ("env", "args"):
        for name, node in _table(secrets, group).items():
            yield _secret(tree, group, name, node)


def _secret(tree: Table, group: str, name: str, node: Node) -> SecretSource:
    target = f"{group}.{name}"
    source = {k: v for k, v in plain(node).items() if v is not None}
    if len(source) != 1:
        what = f"secrets.{target} must say where the secret is, once"
        raise InputError(
            "profile-bad-secret", what, where=str(node.origin), try_="{env: VARIABLE}, {file: PATH} or {command: LINE}"
        )
    literal = at(tree, (group, name))
    if literal is not None:
        what = f"{target} is a secret at {node.origin} and a value at {literal.origin}"
        raise InputError("profile-secret-twice", what, where=str(literal.origin), try_="remove the value")
    return SecretSource(target=target, **source)


def _grace_s(tree: Table) -> float:
    node = at(tree, ("stop", "grace_s"))
    return DEFAULT_GRACE_S if node is None else float(plain(node))


def _wait(tree: Table) -> WaitSettings:
    given = {key: plain(node) for key, node in _table(tree, "wait").items()}
    numbers = {key: float(given[key]) for key in WAIT_S if key in given}
    allowances = {stage: float(seconds) for stage, seconds in given.get("allowances", {}).items()}
    return WaitSettings(**numbers, allowances=allowances)
