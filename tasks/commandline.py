"""The words that Fabric's program got: what stands before the task, and what of it a further command needs."""

from __future__ import annotations

import sys
from typing import Any

LOCAL = "local"  # the label of this machine


def command_line() -> list[str]:
    """The words after `fab`, as the running program got them."""
    from fabric.main import program

    return list(getattr(program, "argv", None) or sys.argv)[1:]


def core_flag(name: str) -> Any:
    """The value of one of Fabric's own flags; None without it, or where no program runs (a test, a team's script)."""
    from fabric.main import program

    core = getattr(program, "core", None)
    return core[0].args[name].value if core else None


def runs_nothing() -> bool:
    """Whether the command line only asks for a list or for help."""
    from fabric.main import program

    core = getattr(program, "core", None)
    return bool(core) and (not core.unparsed or core_flag("list") or core_flag("help"))


def command_prefix(host: str) -> tuple[list[str], str]:
    """The words with which a further command reaches the same host, and the namespace of our tasks ("" or "sgl.").

    Core flags (-S, -r, -i …) stay as they were typed; -H names that one host; -R goes.
    """
    from fabric.main import program

    core = getattr(program, "core", None)
    unparsed = list(getattr(core, "unparsed", None) or [])
    words = without_hosts(command_line()[: len(command_line()) - len(unparsed)]) if core else []
    where = [] if host == LOCAL else ["-H", host]
    namespace = unparsed[0].rpartition(".")[0] if unparsed else ""
    return ["fab", *words, *where], f"{namespace}." if namespace else ""


def without_hosts(words: list[str]) -> list[str]:
    """The words in front of a task without -H in any of its spellings, and without -R."""
    kept: list[str] = []
    skip = False
    for word in words:
        if skip or word in ("-R", "--dry") or word.startswith(("--hosts=", "-H")) or word == "--hosts":
            skip = not skip and word in ("-H", "--hosts")
            continue
        kept.append(word)
    return kept


def cli_hosts(c: Any) -> list[str]:
    """What `-H` named, in order and once each; empty without -H."""
    given = core_flag("hosts") or getattr(c, "original_host", None) or ""
    return list(dict.fromkeys(host.strip() for host in given.split(",") if host.strip()))


def first_call() -> bool:
    """Whether this is a task's first call: Fabric calls it once per host of -H, one by one.

    Counted, since what Fabric makes of `user@host:port` cannot be compared with what was typed.
    """
    from fabric.main import program

    turn = getattr(program, "sglfab_turn", 0)
    program.sglfab_turn = turn + 1
    return turn % len((core_flag("hosts") or "").split(",")) == 0
