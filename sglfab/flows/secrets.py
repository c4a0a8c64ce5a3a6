"""Secrets are fetched on the operator's machine, when they are needed, and kept nowhere."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from sglfab.errors import InputError
from sglfab.model import Check, SecretSource

COMMAND_TIMEOUT_S = 60


def resolve(sources: Iterable[SecretSource], environ: Mapping[str, str]) -> dict[str, str]:
    """target → value. Raises InputError (secret-unset, …), never with the value."""
    return {source.target: _one(source, environ) for source in sources}


def at_hand(sources: Iterable[SecretSource], environ: Mapping[str, str]) -> tuple[str, ...]:
    """The values that can be had without running anybody's command, so that they can be hidden on the screen."""
    found = []
    for source in sources:
        with suppress(InputError):
            found += [_one(source, environ)] if source.command is None else []
    return tuple(found)


def checks(sources: Iterable[SecretSource], environ: Mapping[str, str]) -> Iterator[Check]:
    """What preflight can tell of secrets without running the operator's commands."""
    for source in sources:
        if source.command is not None:
            yield Check("secret", "ok", f"{source.target}: its command runs at the launch")
            continue
        try:
            _one(source, environ)
        except InputError as error:
            yield Check(error.code, "blocker", f"{error.what} ({error.where})", error.try_)


def _one(source: SecretSource, environ: Mapping[str, str]) -> str:
    if source.env is not None:
        value = environ.get(source.env, "")
    elif source.file is not None:
        value = _from_file(source, Path(source.file).expanduser())
    else:
        value = _from_command(source, source.command or "")
    if not value:
        raise InputError(
            "secret-unset",
            f"the secret {source.target} is empty",
            where=_where(source),
            try_=f"export {source.env}=…" if source.env else source.command or f"ls -l {source.file}",
        )
    return value


def _where(source: SecretSource) -> str:
    return f"{source.env or source.file or source.command}, for secrets.{source.target}"


def _from_file(source: SecretSource, path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as why:
        what = f"cannot read {path}: {why}"
        raise InputError("secret-unreadable", what, where=_where(source), try_=f"ls -l {path}") from None


def _from_command(source: SecretSource, command: str) -> str:
    # The command is the operator's own shell line (`pass show x | head -1`). It may ask on the terminal.
    try:
        done = subprocess.run(command, shell=True, stdout=subprocess.PIPE, timeout=COMMAND_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        raise InputError(
            "secret-command-failed", f"no answer within {COMMAND_TIMEOUT_S} s", where=_where(source), try_=command
        ) from None
    if done.returncode != 0:
        raise InputError("secret-command-failed", f"exit status {done.returncode}", where=_where(source), try_=command)
    return done.stdout.decode("utf-8", "replace").strip()
