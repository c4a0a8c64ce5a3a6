"""What goes wrong, as data: a code, what happened, where, and what to try next."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """The stable exit codes of product.md."""

    OK = 0
    BUG = 1
    INPUT = 2
    CRASHED = 3
    STUCK = 4
    TIMED_OUT = 5
    PATCH = 6
    UNREACHABLE = 7
    DEGRADED = 8
    LOCKED = 9
    PREFLIGHT = 10
    INTERRUPTED = 130


class SglfabError(Exception):
    """An operator's error: never shown with a traceback.

    code: kebab-case and stable. what: one sentence. where: file:line, host or command. try_: what to type or change.
    """

    exit_code = ExitCode.INPUT

    def __init__(self, code: str, what: str, *, where: str = "", try_: str = "") -> None:
        super().__init__(f"{code}: {what}")
        self.code, self.what, self.where, self.try_ = code, what, where, try_

    def to_json(self) -> dict[str, str]:
        return {"code": self.code, "what": self.what, "where": self.where, "try": self.try_}


class InputError(SglfabError):
    """A wrong profile, flag, path or choice of server."""


class PatchError(SglfabError):
    """A conflict, drift or foreign edit in an installed file."""

    exit_code = ExitCode.PATCH


class UnreachableError(SglfabError):
    """The host or the port cannot be judged."""

    exit_code = ExitCode.UNREACHABLE


class LockedError(SglfabError):
    """Another operator holds the lock or a live run."""

    exit_code = ExitCode.LOCKED


class PreflightError(SglfabError):
    """A check found what would fail the launch later; nothing was stopped."""

    exit_code = ExitCode.PREFLIGHT


class HostsideBugError(SglfabError):
    """Our program on the host failed in a way that it did not expect."""

    exit_code = ExitCode.BUG


_BY_EXIT: dict[int, type[SglfabError]] = {
    kind.exit_code: kind
    for kind in (InputError, PatchError, UnreachableError, LockedError, PreflightError, HostsideBugError)
}


def from_json(error: dict[str, object]) -> SglfabError:
    """The error that hostside sent: {code, what, where, try, exit}; `exit` picks the class."""
    exit_code = error.get("exit")
    kind = _BY_EXIT.get(exit_code if isinstance(exit_code, int) else 1, HostsideBugError)
    text = {k: str(error.get(k) or "") for k in ("code", "what", "where", "try")}
    return kind(text["code"], text["what"], where=text["where"], try_=text["try"])
