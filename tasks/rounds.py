"""A round over the hosts that an operator named: connected, visited, answered for with the worst exit code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from invoke.exceptions import Exit

from sglfab.errors import ExitCode, InputError, SglfabError
from sglfab.flows.events import Report, Said
from sglfab.model import Profile, Verdict
from sglfab.report import errors, json_out
from sglfab.report.live import LiveView
from sglfab.transports import local
from sglfab.transports.host import Host

from . import commandline
from .desk import Answer, Desk, Seat, say_line
from .pipes import deliver

if TYPE_CHECKING:
    from sglfab.profiles.hosts import HostEntry


class Round:
    """The hosts of -H, else those of the profile, else this machine."""

    def __init__(self, desk: Desk, profile: Profile | None) -> None:
        self._desk, self._profile = desk, profile
        self._named = commandline.cli_hosts(desk.c)
        self._names = self._named or list(profile.hosts if profile else ()) or [commandline.LOCAL]
        self._connected: list[Host] = []

    def one_by_one(self, act: Callable[[Seat], Answer]) -> None:
        """Every host, whatever the others answered; Ctrl-C ends the round."""
        if not self._named and len(self._names) > 1:
            what = f"`hosts:` names {len(self._names)} nodes of one server; multi-node launch is not there yet"
            raise InputError("several-nodes", what, where="hosts:", try_="one host, or -H HOST")
        self._give(lambda: self._visit(act))

    def together(self, act: Callable[[Sequence[Seat]], Sequence[Answer | SglfabError]]) -> None:
        """act is called once, with all of them."""
        self._give(lambda: self._at_once(act))

    def _give(self, visit: Callable[[], list[Answer]]) -> None:
        """One JSON object for all hosts; exit with the worst code."""
        desk = self._desk
        try:
            answers = visit()
            if desk.json:
                payloads = [answer.payload for answer in answers]
                deliver(lambda: json_out.print_json(json_out.hosts_json(payloads), redactor=desk.redactor))
            for answer in answers:
                answer.after()
        finally:
            for host in self._connected:
                host.close()
        worst = max((answer.exit_code for answer in answers), default=0)
        if worst:
            raise Exit(code=int(worst))

    def _visit(self, act: Callable[[Seat], Answer]) -> list[Answer]:
        answers: list[Answer] = []
        for name in self._names:
            answers.append(self._one(name, act))
            if answers[-1].exit_code == ExitCode.INTERRUPTED:
                break
        return answers

    def _one(self, name: str, act: Callable[[Seat], Answer]) -> Answer:
        try:
            host = self._connect(name)
            with LiveView(redactor=self._desk.redactor) as report:
                answer = act(Seat(host, self._desk, report))
                _tell(report, host)
        except SglfabError as error:
            answer = self._refused(error, name)
        except KeyboardInterrupt:
            return self._interrupted(name)
        self._show(answer)
        return answer

    def _at_once(self, act: Callable[[Sequence[Seat]], Sequence[Answer | SglfabError]]) -> list[Answer]:
        hosts = [self._connect(name) for name in self._names]
        try:
            with LiveView(redactor=self._desk.redactor) as report:
                found = act([Seat(host, self._desk, report) for host in hosts])
                for host in hosts:
                    _tell(report, host)
        except KeyboardInterrupt:
            return [self._interrupted(name) for name in self._names]
        pairs = zip(found, self._names, strict=True)
        answers = [self._refused(one, name) if isinstance(one, SglfabError) else one for one, name in pairs]
        for answer in answers:
            self._show(answer)
        return answers

    def _show(self, answer: Answer) -> None:
        if not self._desk.json:
            deliver(answer.show)

    def _refused(self, error: SglfabError, name: str) -> Answer:
        redactor = self._desk.redactor
        payload = {**errors.error_json(error, redactor), "host": name}
        return Answer(payload, int(error.exit_code), lambda: errors.print_error(error, redactor=redactor))

    def _interrupted(self, name: str) -> Answer:
        """Ctrl-C while nothing was begun, or in something that ends on the host by itself."""
        doing = self._desk.doing
        state = f"{doing} may go on there (fab status)" if doing else "nothing was changed"
        line = f"interrupted; on {name} {state}. Again: {self._desk.again}"
        if not self._desk.json:
            say_line(line, err=True)
        return Answer(Verdict("loading", host=name, notes=(line,)).to_json(), ExitCode.INTERRUPTED)

    def _connect(self, name: str) -> Host:
        host = self._reach(name)
        self._connected.append(host)
        return host

    def _reach(self, name: str) -> Host:
        entry = self._entry(name)
        interpreter = (self._profile.python if self._profile else None) or (entry.python if entry else None)
        told = {"python": interpreter or "python3", "state_dir": entry.state_dir if entry else None}
        if name == commandline.LOCAL:
            return Host(local.LocalTransport(), **told)
        from sglfab.transports import ssh

        address = (entry.address if entry else None) or name
        return Host(ssh.connect(address, self._desk.c.config, label=name), **told)

    def _entry(self, name: str) -> HostEntry | None:
        """The host in hosts.yaml. Reading one takes as long to import as all the rest, so only where there is one."""
        project = self._desk.project
        if not any((base / "hosts.yaml").is_file() for base in (*project.extra, project.root / "configs")):
            return None
        from sglfab.profiles.hosts import load_hosts

        return load_hosts(project).get(name)


def _tell(report: Report, host: Host) -> None:
    for text in (*host.notes, *host.gaps):
        report(Said(text, "warning"))
