"""What paramiko raises, as an error that says why and what to do."""

from __future__ import annotations

import socket
from collections.abc import Sequence

import paramiko
from paramiko.ssh_exception import NoValidConnectionsError, PasswordRequiredException

from sglfab.errors import SglfabError, UnreachableError
from sglfab.transports.ssh_connection import Route
from sglfab.transports.ssh_features import Note


def explained(error: Exception, route: Route) -> SglfabError:
    """The operator's error for a connection that did not come up."""
    if isinstance(error, SglfabError):
        return error
    if isinstance(error, PasswordRequiredException):
        return _auth_failed("a key is locked by a passphrase", route, "ssh-add KEYFILE, or fab --prompt-for-passphrase")
    if "No authentication methods" in str(error):
        return _auth_failed("there is no key to offer", route, "ssh-add, IdentityFile in ~/.ssh/config, or fab -i KEY")
    if isinstance(error, paramiko.AuthenticationException):
        return _auth_failed(_offered(error), route, f"ssh -v {_typed(route)} true")
    return _unreachable(_why(error, route), route)


def _why(error: Exception, route: Route) -> str:
    match error:
        case paramiko.ChannelException() if route.hops:
            return f"{_through(route)} cannot reach it ({error.text})"
        case socket.gaierror():
            return f"its name is not known ({error.strerror})"
        case NoValidConnectionsError():
            reasons = {str(why.strerror or why) for why in error.errors.values()}
            return ", ".join(sorted(reasons)).lower() or "refused"
        case TimeoutError():
            return "no answer in time"
        case _:
            return str(error) or type(error).__name__


def _offered(error: Exception) -> str:
    allowed = getattr(error, "allowed_types", None)
    return f"{error}".rstrip(".") + (f" (it takes {', '.join(allowed)})" if allowed else "")


def _auth_failed(why: str, route: Route, try_: str) -> UnreachableError:
    what = f"the login on {route.address} failed: {why}{_suspects(route.notes)}"
    return UnreachableError("ssh-auth-failed", what, where=_where(route), try_=try_)


def _unreachable(why: str, route: Route) -> UnreachableError:
    try_ = f"ssh -v {_typed(route)} true"
    return UnreachableError(
        "ssh-unreachable", f"{route.address} cannot be reached: {why}", where=_where(route), try_=try_
    )


def _suspects(notes: Sequence[Note]) -> str:
    """The options of the ssh config that we do not honour may be why."""
    named = [f"{note.option} ({note.text})" for note in notes if note.level == "warning" or note.about == "login"]
    return "; your ssh config wants what our SSH library does not do: " + ", ".join(named) if named else ""


def _where(route: Route) -> str:
    return f"{route.options.hostname}:{route.options.port}" + (f" through {_through(route)}" if route.hops else "")


def _through(route: Route) -> str:
    return " → ".join(str(hop.address) for hop in route.hops)


def _typed(route: Route) -> str:
    """The host as one types it after `ssh`."""
    address = route.address
    port = f"-p {address.port} " if address.port else ""
    return f"{port}{address.user + '@' if address.user else ''}{address.host}"
