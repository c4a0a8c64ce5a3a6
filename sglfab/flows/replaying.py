"""`diagnose --replay`: the record of a wait, from this machine or from a host, judged again."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from sglfab.diagnosis.catalogue import Catalogue
from sglfab.diagnosis.recording import Contents, contents, readable
from sglfab.diagnosis.replay import DamagedLine, replay
from sglfab.errors import InputError
from sglfab.flows.runs import Wanted, pick
from sglfab.model import Json, Verdict
from sglfab.transports.host import Host

FILE = "watch.jsonl"
_WAIT_ID = re.compile(r"\d{8}-\d{6}-[0-9a-f]{4}")  # that of a run begins with its profile


@dataclass(frozen=True)
class Record:
    """A record that is read as often as asked. path: as the operator would type it. run: whose it is, if known."""

    path: str
    lines: Callable[[], Iterator[bytes]]
    run: Json = None


def is_path(word: str) -> bool:
    """Whether --replay names a file; the id of a run or of a wait has no slash and no suffix."""
    return "/" in word or word.endswith(".jsonl")


def local_record(word: str) -> Record | None:
    """A file, or the folder of a run, on this machine. None: nothing has that name, so it may be a run's id."""
    path = Path(word).expanduser()
    if not is_path(word) and not path.exists():
        return None
    path = path / FILE if path.is_dir() else path
    return Record(str(path), lambda: _from_here(path))


def _record_on(host: Host, word: str) -> Record:
    """A file on a host. Reading it raises InputError log-unreadable."""
    return Record(word, lambda: _from_host(host, word))


def record_without_run(host: Host, word: str) -> Record | None:
    """A file on a host, or the record of a wait there for a server that is no run of ours. None: the id of a run.

    Raises InputError no-such-wait.
    """
    if is_path(word):
        return _record_on(host, word)
    return _record_of_wait(host, word) if _WAIT_ID.fullmatch(word) else None


def _record_of_wait(host: Host, wait_id: str) -> Record:
    waits = host.call("waits")["waits"]
    path = next((wait["path"] for wait in waits if wait["id"] == wait_id), None)
    if path is None:
        try_ = f"--replay {waits[0]['id']}: the newest one" if waits else "fab wait-health --url, --log or --pid"
        raise InputError("no-such-wait", f"no wait {wait_id} is recorded", where=host.label, try_=try_)
    return _record_on(host, path)


def record_of(host: Host, runs: list[Json], run_id: str) -> Record:
    """The record of a run. Raises InputError no-such-run."""
    run = pick(runs, Wanted(run=run_id), where=host.label, dead_ok=True)
    path = f"{run['dir']}/{FILE}"
    return Record(path, lambda: _from_run(host, path, run), run)


def judged_again(catalogue: Catalogue, record: Record, *, at_s: float | None = None) -> Verdict:
    """The last wait's verdict, or what was known at_s seconds into it.

    Raises InputError no-wait-recorded, record-of-another-version, record-damaged, and what reading raises.
    """
    held = contents(record.lines())
    if not held.waits:
        raise _nothing(record, held)
    wait = list(held.waits.values())[-1]
    try:
        verdict = replay(catalogue, wait, readable(record.lines()), at_s=at_s)
    except DamagedLine as line:
        what = f"line {line.number} does not hold what an observation of kind {line.kind!r} holds"
        raise InputError(
            "record-damaged", what, where=f"{record.path}:{line.number}", try_=_before(record, line)
        ) from line
    return replace(verdict, notes=(*verdict.notes, *_notes(held)))


def _before(record: Record, line: DamagedLine) -> str:
    return f"head -{line.number - 1} {record.path} > before.jsonl; fab diagnose --replay before.jsonl"


def _nothing(record: Record, held: Contents) -> InputError:
    if held.foreign:
        what = f"{record.path} was recorded by another version of fab"
        return InputError(
            "record-of-another-version", what, where=f"{record.path}:{held.foreign[0]}", try_=_wait(record)
        )
    if held.lines == 0:
        return InputError("no-wait-recorded", f"{record.path} is empty", where=record.path, try_=_wait(record))
    if held.unreadable[:1] == [1]:
        what = f"{record.path} is no record of a wait: its first line is not one of a {FILE}"
        advice = f"fab diagnose --log {record.path}, if it is a server's log"
        return InputError("no-wait-recorded", what, where=f"{record.path}:1", try_=advice)
    what = f"{record.path} holds observations, but not what their wait expected: its beginning is missing"
    return InputError("no-wait-recorded", what, where=record.path, try_=_wait(record))


def _wait(record: Record) -> str:
    return f"fab wait-health --run {record.run['id'] if record.run else 'ID'} records one"


def _notes(held: Contents) -> Iterator[str]:
    if len(held.waits) > 1:
        yield f"judged the last of {len(held.waits)} waits in this record"
    if held.foreign:
        yield f"not judged: what another version of fab recorded from line {held.foreign[0]} on"
    if held.unreadable == [held.lines]:
        yield "the last line of the record is cut"
    elif held.unreadable:
        yield f"lines of the record that could not be read: {len(held.unreadable)}, the first is {held.unreadable[0]}"


def _from_here(path: Path) -> Iterator[bytes]:
    try:
        with path.open("rb") as file:
            yield from file
    except OSError as why:
        what = f"cannot read {path}: {why.strerror}"
        raise InputError("record-unreadable", what, where=str(path), try_=f"ls -l {path}") from None


def _from_host(host: Host, path: str) -> Iterator[bytes]:
    with host.stream("read", {"path": path, "offset": 0, "max_bytes": None}, idle_s=60.0) as stream:
        yield from _lines(str(event["data"]).encode("utf-8", "surrogateescape") for event in stream)


def _from_run(host: Host, path: str, run: Json) -> Iterator[bytes]:
    try:
        yield from _from_host(host, path)
    except InputError as why:
        if why.code != "log-unreadable":
            raise
        what = f"no wait for {run['id']} is recorded ({why.what})"
        raise InputError("no-wait-recorded", what, where=path, try_=f"fab wait-health --run {run['id']}") from None


def _lines(pieces: Iterable[bytes]) -> Iterator[bytes]:
    rest = b""
    for piece in pieces:
        *whole, rest = (rest + piece).split(b"\n")
        yield from whole
    if rest:
        yield rest
