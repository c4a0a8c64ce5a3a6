"""The server's processes: who lives, who is gone, what they cost; and the keeper's word on how main ended."""

from __future__ import annotations

import os
import time
from typing import Any, Callable, Dict, List, Optional, Set, Tuple

from sglfab.hostside.family import UNNAMED, WATCHED, Server, grow, leads_to, rank_of, role_of, role_of_name
from sglfab.hostside.processes import Proc, look, pids, read_kb, shown, title
from sglfab.hostside.state import read_json

Json = Dict[str, Any]
Put = Callable[[str, Json], None]

_FULL_S = 2.0  # a whole observation at least this often
_DISCOVER_S = 0.5  # look for new processes
_RECHECK_S = 15.0  # look at strangers again: a pid may have been reused between two listings


class ProcessWatch:
    """Polls the known ones often and looks for new ones less often: a scan of a big host's /proc costs tens of ms."""

    def __init__(self, server: Server, put: Put, last_words: Callable[[], None]) -> None:
        self._server, self._put, self._last_words = server, put, last_words
        self._known: Dict[int, Proc] = {}
        self._roles: Dict[int, str] = {}
        self._titles: Dict[int, str] = {}
        self._strangers: Set[int] = set()
        self._gone: List[Json] = []
        self._full_due = self._discover_due = self._recheck_due = 0.0
        self._began = False

    def poll(self) -> None:
        now = time.monotonic()
        discovers = now >= self._discover_due
        ended, named = self._refresh(all_of_them=discovers)
        born = self._discover(now) if discovers else named and self._name()
        if not self._began and self._server.main.pid not in self._known:
            ended.append({"pid": self._server.main.pid, "role": "main", "title": ""})
        if ended or born or now >= self._full_due:
            self._observe(ended, now)
        self._began = True

    def _refresh(self, *, all_of_them: bool) -> Tuple[List[Json], bool]:
        """Look again at those that must not end or may get a name, or at all the known ones.

        Returns who has ended since, and whether somebody got another name.
        """
        ended, named = [], False
        for pid, before in list(self._known.items()):
            if not all_of_them and self._roles[pid] not in WATCHED | UNNAMED:
                continue
            proc = look(pid)
            if proc and proc.start == before.start and not proc.dead:
                self._known[pid] = proc
                named = named or proc.name != before.name
                continue
            ended.append(self._farewell(before, proc))
        return ended, named

    def _farewell(self, before: Proc, proc: Optional[Proc]) -> Json:
        """Who ended. A scheduler may end in the moment between its naming and our look; then its zombie tells."""
        del self._known[before.pid]
        role, text = self._roles.pop(before.pid), self._titles.pop(before.pid)
        if role in UNNAMED and proc and proc.start == before.start and self._roles.get(proc.ppid) != "scheduler":
            role = role_of_name(proc.name)
            text = text if role == "other" else proc.name
        return {"pid": before.pid, "role": role, "title": shown(text)}

    def _discover(self, now: float) -> bool:
        """True when somebody new appeared or a title changed a role."""
        self._discover_due = now + _DISCOVER_S
        if now >= self._recheck_due:
            self._recheck_due = now + _RECHECK_S
            self._strangers.clear()
        present = set(pids())
        self._strangers &= present
        new = {p.pid: p for p in map(look, present - self._strangers - set(self._known)) if p and not p.dead}
        self._adopt(new)
        self._strangers |= set(new) - set(self._known)
        return self._name()

    def _adopt(self, new: Dict[int, Proc]) -> None:
        main = self._server.main
        at_main_pid = self._known.get(main.pid) or new.get(main.pid)
        found = {pid: p for pid, p in new.items() if leads_to(main, p, at_main_pid)}
        before = set(self._known)
        self._known.update(found)
        grow(self._known, {**new, **self._known}, self._server.keeper)
        for pid in set(self._known) - before:
            self._titles[pid], self._roles[pid] = "", ""

    def _name(self) -> bool:
        """Titles change when SGLang's children name themselves, or exec: who has no part yet is looked at again."""
        unnamed = [pid for pid, role in self._roles.items() if role in ("", "other")]
        self._titles.update({pid: text for pid in unnamed for text in [title(pid)] if text})
        roles = {pid: self._role(pid) for pid in unnamed}
        changed = any(role != self._roles[pid] for pid, role in roles.items())
        self._roles.update(roles)
        return changed

    def _role(self, pid: int) -> str:
        parent = self._titles.get(self._known[pid].ppid, "")
        return role_of(pid, self._titles[pid], main=self._server.main.pid, parent_title=parent)

    def _observe(self, ended: List[Json], now: float) -> None:
        self._full_due = now + _FULL_S
        if any(one["role"] in WATCHED for one in ended):
            self._last_words()
        lasting = [one for one in ended if one["role"] in WATCHED]
        self._gone += lasting
        passing = [one for one in ended if one["role"] not in WATCHED]
        self._put(
            "processes", {"alive": [self._shape(proc) for proc in self._known.values()], "gone": self._gone + passing}
        )

    def watched(self) -> List[Json]:
        """{"pid","rank","role"} of the living processes without which there is no server, schedulers first."""
        watched = [pid for pid in self._known if self._roles[pid] in WATCHED]
        ordered = sorted(watched, key=lambda pid: self._roles[pid] != "scheduler")
        return [{"pid": pid, "rank": self._rank(pid), "role": self._roles[pid]} for pid in ordered]

    def _rank(self, pid: int) -> Optional[str]:
        return rank_of(self._titles[pid]) if self._roles[pid] == "scheduler" else None

    def _shape(self, proc: Proc) -> Json:
        return {
            "pid": proc.pid,
            "start": proc.start,
            "role": self._roles[proc.pid],
            "rank": self._rank(proc.pid),
            "title": shown(self._titles[proc.pid]),
            "state": proc.state,
            "cpu_s": round(proc.cpu_s, 2),
            "rss_kb": proc.rss_kb,
            "read_kb": read_kb(proc.pid),
        }


class ExitWatch:
    """Puts `exit` when the keeper wrote exit.json, and again when orphans were added."""

    def __init__(self, run_dir: str, put: Put, last_words: Callable[[], None]) -> None:
        self._path, self._put, self._last_words = os.path.join(run_dir, "exit.json"), put, last_words
        self._seen: Optional[Json] = None

    def poll(self) -> None:
        if not os.path.exists(self._path):
            return
        value = read_json(self._path)
        if isinstance(value, dict) and value != self._seen:
            self._last_words()
            self._seen = value
            self._put("exit", value)
