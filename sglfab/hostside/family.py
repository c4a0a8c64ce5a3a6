"""Which processes belong to one server, and what each of them does."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import Dict, Iterable, Optional, Set

from sglfab.hostside.processes import Ident, Proc, everyone, living

WATCHED = frozenset({"main", "scheduler", "detokenizer"})

UNNAMED = frozenset({"", "other"})

# SGLang sets titles with setproctitle: sglang::scheduler_TP0, sglang::scheduler_DP0_TP3, sglang::detokenizer,
# sglang::data_parallel_controller (the same in 0.4.6 … 0.5.23).
_TITLE = re.compile(r"^sglang::(scheduler|detokenizer|data_parallel_controller)(?:_(?!router)(\S+))?(?:\s|$)")
_CUDA = ("nvcc", "cicc", "ptxas", "fatbinary", "nvlink", "cudafe++", "hipcc")
_HOST = ("gcc", "g++", "cc", "c++", "cc1", "cc1plus", "collect2", "clang", "clang++", "as", "ld", "ld.lld", "lld")
_COMPILERS = frozenset((*_CUDA, *_HOST, "ninja", "make", "cmake"))
_VERSIONED_COMPILER = re.compile(r"^(?:[\w-]+-linux-gnu-)?(gcc|g\+\+|c\+\+|clang|clang\+\+|as|ld)(?:-\d+)?(?:\.\w+)?$")


@dataclass(frozen=True)
class Server:
    """What a server is known by. `main` leads its own session when we launched it; orphans come to the keeper."""

    main: Ident
    keeper: Optional[Ident] = None


def role_of(pid: int, title: str, *, main: int, parent_title: str) -> str:
    """main, scheduler, detokenizer, dp-controller, compiler or other."""
    if pid == main:
        return "main"
    match = _TITLE.match(title)
    if match and title == parent_title:
        return "other"  # a scheduler's fork before its exec still carries the scheduler's title
    if match:
        return match.group(1) if match.group(1) != "data_parallel_controller" else "dp-controller"
    return "compiler" if _is_compiler(title) else "other"


def role_of_name(name: str) -> str:
    """The role in the name that a process keeps as a zombie, when its title is gone: the title's first 15 bytes."""
    return {"sglang::schedul": "scheduler", "sglang::detoken": "detokenizer"}.get(name, "other")


def rank_of(title: str) -> Optional[str]:
    """SGLang's own rank prefix: `sglang::scheduler_DP0_TP3` → `DP0 TP3`."""
    match = _TITLE.match(title)
    return match.group(2).replace("_", " ") if match and match.group(1) == "scheduler" and match.group(2) else None


def _is_compiler(title: str) -> bool:
    words = title.split(None, 1)
    name = os.path.basename(words[0]) if words else ""
    return name in _COMPILERS or bool(_VERSIONED_COMPILER.match(name))


def members(server: Server, known: Iterable[Ident] = ()) -> Dict[int, Proc]:
    """Every living process of it: main's session and group, descendants, the keeper's children, whoever was `known`."""
    procs = everyone()
    roots = _roots(server, procs, known)
    found = {pid: procs[pid] for pid in roots}
    grow(found, procs, keeper=server.keeper)
    return found


def _roots(server: Server, procs: Dict[int, Proc], known: Iterable[Ident]) -> Set[int]:
    roots = {i.pid for i in known if i.pid in procs and procs[i.pid].start == i.start}
    return roots | {pid for pid, proc in procs.items() if leads_to(server.main, proc, procs.get(server.main.pid))}


def leads_to(main: Ident, proc: Proc, at_main_pid: Optional[Proc]) -> bool:
    """The process is main, or in the session or group that main leads or led.

    Linux gives such a pid to nobody else while one of the session or group is left.
    """
    if at_main_pid and at_main_pid.start != main.start:
        return False  # the pid was reused, so nobody of that session was left
    return main.pid in (proc.pid, proc.session, proc.pgrp) and proc.start >= main.start


def grow(found: Dict[int, Proc], procs: Dict[int, Proc], keeper: Optional[Ident]) -> None:
    """Add to `found` whoever of `procs` descends from it or from the living keeper (not the keeper itself)."""
    adoptive = keeper.pid if keeper and living(keeper) else -1
    added = True
    while added:
        new = [p for pid, p in procs.items() if pid not in found and (p.ppid in found or p.ppid == adoptive)]
        found.update((p.pid, p) for p in new)
        added = bool(new)
