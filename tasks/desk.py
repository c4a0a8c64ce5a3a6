"""The operator's desk: which project, which hosts, how to answer. One Desk a task, one Seat a host."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from invoke.exceptions import Exit

from sglfab.errors import InputError, SglfabError
from sglfab.flows.clock import Clock, SystemClock
from sglfab.flows.events import Report
from sglfab.flows.foreign import Foreign
from sglfab.flows.identity import Operator, operator
from sglfab.flows.runs import Wanted
from sglfab.model import Json, Profile
from sglfab.project import Project, open_project
from sglfab.report import json_out
from sglfab.report.redact import Redactor
from sglfab.transports.host import Host

from . import commandline
from .pipes import deliver


def say_line(line: str, *, err: bool = False) -> None:
    print(line, file=sys.stderr if err else sys.stdout, flush=True)


@dataclass(frozen=True)
class Answer:
    """What one host answered: the JSON object, the exit code, how to show it to a person, and what to do after that.

    after: nobody waits for it, such as keeping the verdict on the host.
    """

    payload: Json
    exit_code: int = 0
    show: Callable[[], None] = lambda: None
    after: Callable[[], None] = lambda: None


@dataclass(frozen=True)
class Seat:
    """One host, ready for one operation."""

    host: Host
    desk: Desk
    report: Report

    @property
    def project(self) -> Project:
        return self.desk.project

    def line(self, words: str) -> str:
        """The command line that does `words` on this host, as the operator would type it after this one."""
        prefix, namespace = commandline.command_prefix(self.host.label)
        team = f" --configs {shlex.quote(self.desk.configs)}" if self.desk.configs else ""
        return f"{shlex.join(prefix)} {namespace}{words}{team}"


@dataclass
class Desk:
    """One task's view of the world. dry: --dry-run, or Invoke's own -R. configs: the flag, as it was typed."""

    c: Any
    project: Project
    json: bool
    dry: bool
    operator: Operator
    clock: Clock = field(default_factory=SystemClock)
    redactor: Redactor = field(default_factory=Redactor)
    hidden: tuple[str, ...] = field(default=(), repr=False)
    configs: str | None = None
    doing: str = ""  # what was begun on the host that an interruption leaves half done

    @classmethod
    def open(cls, c: Any, *, json: bool, configs: str | None = None, dry_run: bool = False) -> Desk:
        root = Path(__file__).resolve().parent.parent
        project = open_project(root, configs=configs, environ=os.environ)
        dry = dry_run or bool(c.config.run.dry)
        return cls(c, project, json, dry, operator(os.environ), configs=configs)

    @property
    def again(self) -> str:
        """This very command line."""
        return shlex.join(["fab", *commandline.command_line()])

    def hide(self, secret_values: Sequence[str]) -> None:
        """From here on these values show as *** wherever we print."""
        self.hidden = tuple(dict.fromkeys((*self.hidden, *secret_values)))
        self.redactor.learn(secret_values)

    def load(self, name: str | None, sets: Sequence[str] | None = None, via: str | None = None) -> Profile:
        """The profile that the operator named, with --set and --via applied. Raises InputError."""
        from sglfab import profiles

        if not name:
            raise InputError("no-profile", "which profile?", where="--profile", try_="fab profiles")
        way = (f"patch_via={self.way(via)}",) if via else ()
        return profiles.load(self.project, name, sets=(*(sets or ()), *way))

    @staticmethod
    def way(via: str) -> str:
        """How taps get in. Raises InputError bad-via."""
        if via not in ("file", "plugin"):
            raise InputError("bad-via", f"--via takes file or plugin, not {via!r}", where="--via", try_="--via plugin")
        return via

    def known(self, name: str | None) -> Profile | None:
        """The profile of `--profile` where it only names runs: for its hosts and python. None: it is not there now."""
        try:
            return self.load(name) if name else None
        except InputError:
            return None

    def wanted(self, run: str | None, profile: str | None, port: str | None) -> Wanted:
        """The runs meant. A path to a profile stands for the name that its runs bear."""
        named = Path(profile).stem if profile and profile.endswith((".yaml", ".yml")) else profile
        return Wanted(run=run, profile=named, port=self.number(port, "--port", most=65535))

    def foreign(self, *, url: str | None, log: str | None, pid: str | None, port: str | None) -> Foreign | None:
        """The server named by --url, --log or --pid; None when it is one of our runs."""
        if not (url or log or pid):
            return None
        number = self.number(pid, "--pid")
        return Foreign(url=url, log=log, pid=number, port=self.number(port, "--port", most=65535))

    @staticmethod
    def number(value: str | int | None, flag: str, *, least: int = 1, most: int | None = None) -> int | None:
        """A whole number of a flag. Raises InputError bad-number."""
        if value is None:
            return None
        if not str(value).isdecimal() or int(value) < least or (most is not None and int(value) > most):
            upto = f" to {most}" if most else ""
            raise InputError(
                "bad-number",
                f"{flag} takes a whole number from {least}{upto}, not {value!r}",
                where=flag,
                try_=f"{flag} {max(1, least)}",
            )
        return int(value)

    @staticmethod
    def seconds(value: str | None, flag: str = "--deadline", *, zero: bool = False) -> float | None:
        """Seconds of a flag, or None. zero: whether 0 is among them. Raises InputError bad-number."""
        if value is None:
            return None
        try:
            seconds = float(value)
        except ValueError:
            seconds = -1.0
        if not (0 < seconds < float("inf") or (zero and seconds == 0)):
            what = f"{flag} takes seconds {'from 0 on' if zero else 'above 0'}, not {value!r}"
            raise InputError("bad-number", what, where=flag, try_=f"{flag} 600")
        return seconds

    def say(self, answer: Answer) -> None:
        """Answer without a host."""
        deliver(lambda: json_out.print_json(answer.payload) if self.json else answer.show())
        if answer.exit_code:
            raise Exit(code=int(answer.exit_code))

    def each_host(self, act: Callable[[Seat], Answer], profile: Profile | None = None) -> None:
        """Run act on every host named by -H, else by the profile, else on this machine; exit with the worst code."""
        from .rounds import Round

        if commandline.first_call():  # the first call has visited all hosts of -H
            Round(self, profile).one_by_one(act)

    def all_hosts(
        self, act: Callable[[Sequence[Seat]], Sequence[Answer | SglfabError]], profile: Profile | None
    ) -> None:
        """Run act once, over all hosts that `each_host` would visit one by one, the nodes of one server included."""
        from .rounds import Round

        if commandline.first_call():
            Round(self, profile).together(act)
