"""A fabric.Connection, and those of its jump hosts, that verify, never ask, and never wait for ever."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import fabric
import paramiko
from paramiko.config import SSHConfig

from sglfab.errors import InputError, SglfabError
from sglfab.transports.local import PipedProgram
from sglfab.transports.ssh_address import Address, parse_address
from sglfab.transports.ssh_agent import OperatorAgent, agent_socket, wanted_keys
from sglfab.transports.ssh_features import Note, notes_of
from sglfab.transports.ssh_hostkeys import VerifyHostKey
from sglfab.transports.ssh_options import Options, read_options

CONNECT_S, BANNER_S, AUTH_S, CHANNEL_S = 10, 20, 30, 30
_MOST_HOPS = 8


class _Transport(paramiko.Transport):  # type: ignore[misc]  # paramiko has no types
    """Asks first for the kinds of host key that we know, and never for a second factor at the terminal."""

    def prefer(self, key_types: Sequence[str]) -> None:
        options = self.get_security_options()
        ours = [t for t in key_types if t in options.key_types]
        options.key_types = ours + [t for t in options.key_types if t not in ours]

    def auth_interactive_dumb(self, username: str, handler: Any = None, submethods: str = "") -> list[str]:
        raise paramiko.BadAuthenticationType("it wants a second factor, which only a person can give", [])


@dataclass(frozen=True)
class Route:
    """How to reach one host: its own options, and the hosts to pass on the way, the first one first."""

    address: Address
    options: Options
    hops: tuple[Route, ...] = ()
    proxy_command: str | None = None

    @property
    def notes(self) -> tuple[Note, ...]:
        own = [note for hop in self.hops for note in hop.notes] + list(notes_of(self.options))
        return tuple(dict.fromkeys(own))


def plan_route(address: Address, config: Any, *, above: tuple[str, ...] = ()) -> Route:
    """Read the ssh config for the host and every hop. Raises InputError (ssh-proxyjump-loop, …)."""
    if len(above) > _MOST_HOPS:
        path = " ← ".join(above)
        raise InputError(
            "ssh-proxyjump-loop", f"more than {_MOST_HOPS} jumps: {path}", where="~/.ssh/config", try_="ssh -G"
        )
    options = read_options(address, config)
    jump = options.first("proxyjump")
    if not jump:
        return Route(address, options, proxy_command=options.first("proxycommand"))
    # Under `Host *` the jump host is asked to jump over itself; OpenSSH then goes there directly.
    hops = [a for a in map(parse_address, jump.split(",")) if a.host not in (address.host, options.hostname)]
    return Route(address, options, hops=_hops(hops, config, above=(*above, address.host)))


def _hops(addresses: list[Address], config: Any, *, above: tuple[str, ...]) -> tuple[Route, ...]:
    """As OpenSSH: the first hop is reached by its own config, each further one through the one before."""
    routes: list[Route] = []
    for address in addresses:
        route = plan_route(address, config, above=above)
        routes.append(Route(address, route.options) if routes else route)
    first = (
        [*routes[0].hops, Route(routes[0].address, routes[0].options, (), routes[0].proxy_command)] if routes else []
    )
    return (*first, *routes[1:])


@dataclass
class Link:
    """A connection with all that it stands on."""

    connection: fabric.Connection
    hops: list[fabric.Connection] = field(default_factory=list)
    proxies: list[PipedProgram] = field(default_factory=list)

    def close(self) -> None:
        """Nearest last; what is already gone is gone."""
        for connection in (self.connection, *reversed(self.hops)):
            with contextlib.suppress(Exception):  # paramiko raises all kinds on a dead socket
                connection.close()
        for proxy in self.proxies:
            proxy.close()


class ConnectFailed(Exception):
    """Where on the route it failed, and with what."""

    def __init__(self, route: Route, error: Exception) -> None:
        super().__init__(str(error))
        self.route, self.error = route, error


def connect_link(route: Route, config: Any) -> Link:
    """Connect, hop by hop. Raises ConnectFailed, and InputError for a key file of the operator's."""
    link = Link(_connection(route, config))
    through: fabric.Connection | None = None
    try:
        for hop in route.hops:
            connection = _connection(hop, config)
            link.hops.append(connection)
            _open(connection, hop, through, link)
            through = connection
        _open(link.connection, route, through, link)
    except BaseException:
        link.close()
        raise
    return link


def _connection(route: Route, config: Any) -> fabric.Connection:
    options = route.options
    connection = fabric.Connection(
        options.hostname,
        user=route.address.user or options.first("user") or config.user,
        port=options.port,
        config=_quiet_config(config),
        gateway=False,
        forward_agent=False,
        connect_timeout=options.number("connecttimeout") or int(config.timeouts.connect or CONNECT_S),
        connect_kwargs=_connect_kwargs(options, config),
    )
    connection.client.set_missing_host_key_policy(VerifyHostKey(options))
    agent = agent_socket(options)
    if agent:
        only = wanted_keys(options, connection.connect_kwargs["key_filename"])
        connection.client._agent = OperatorAgent(agent, only)
    return connection


def _quiet_config(config: Any) -> fabric.Config:
    """The operator's Fabric config without ssh config and keys: these we resolved ourselves."""
    ours = config.clone(into=fabric.Config)
    ours._set(base_ssh_config=SSHConfig())
    ours["connect_kwargs"] = {}
    return ours


def _connect_kwargs(options: Options, config: Any) -> dict[str, Any]:
    def transport(sock: Any, **more: Any) -> _Transport:
        made = _Transport(sock, **more)
        made.prefer(VerifyHostKey(options).key_types())
        return made

    kwargs = dict(config.connect_kwargs)
    kwargs |= {"banner_timeout": BANNER_S, "auth_timeout": AUTH_S, "channel_timeout": CHANNEL_S}
    kwargs |= {"key_filename": _key_files(options, kwargs), "transport_factory": transport}
    kwargs |= {"compress": options.flag("compression")}
    if options.flag("identitiesonly"):
        kwargs["look_for_keys"] = False
    if not agent_socket(options):
        kwargs["allow_agent"] = False
    return kwargs


def _key_files(options: Options, kwargs: dict[str, Any]) -> list[str]:
    """`-i` first, then IdentityFile where it exists: OpenSSH passes over a missing one, paramiko fails on it."""
    given = kwargs.get("key_filename") or []
    named = [given] if isinstance(given, str) else list(given)
    for path in named:
        if not _readable(os.path.expanduser(path)):
            raise InputError("ssh-key-missing", f"no key file can be read: {path}", where="-i", try_=f"ls -l {path}")
    configured = [_key_path(path, options) for path in options.values.get("identityfile", ())]
    return list(dict.fromkeys([*map(os.path.expanduser, named), *filter(_readable, configured)]))


def _readable(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.R_OK)


def _key_path(path: str, options: Options) -> str:
    user = options.address.user or options.first("user") or ""
    tokens = {"%d": os.path.expanduser("~"), "%h": options.hostname, "%r": user, "%n": options.address.host}
    for token, value in tokens.items():
        path = path.replace(token, value)
    return os.path.expanduser(path)


def _open(connection: fabric.Connection, route: Route, through: fabric.Connection | None, link: Link) -> None:
    try:
        _reach(connection, route, through, link)
    except (paramiko.SSHException, OSError, EOFError, SglfabError) as error:
        raise ConnectFailed(route, error) from error


def _reach(connection: fabric.Connection, route: Route, through: fabric.Connection | None, link: Link) -> None:
    if through is not None:
        connection.connect_kwargs["sock"] = through.transport.open_channel(
            "direct-tcpip", (connection.host, connection.port), ("", 0), timeout=CHANNEL_S
        )
    elif route.proxy_command:
        # Not paramiko's ProxyCommand: that one knows no shell and spins for ever when its program ends.
        proxy = PipedProgram(_filled(route.proxy_command, connection, route))
        link.proxies.append(proxy)
        connection.connect_kwargs["sock"] = proxy.socket
    _log_in(connection)


def _log_in(connection: fabric.Connection) -> None:
    """Open it. Raises AuthenticationException for whatever goes wrong once the host has proved who it is."""
    try:
        connection.open()
    except (SglfabError, paramiko.AuthenticationException):
        raise
    except Exception as why:  # paramiko raises all kinds, a UnicodeDecodeError for instance, on a damaged key file
        transport = connection.client.get_transport()
        if transport is not None and transport.is_active() and transport.initial_kex_done:
            raise paramiko.AuthenticationException(f"{why}") from why
        raise


def _filled(command: str, connection: fabric.Connection, route: Route) -> str:
    tokens = {"%h": connection.host, "%p": str(connection.port), "%r": connection.user, "%n": route.address.host}
    for token, value in tokens.items():
        command = command.replace(token, value)
    return command.replace("%%", "%")
