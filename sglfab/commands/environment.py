"""Where the server listens, and which names must never go through a proxy."""

from __future__ import annotations

from collections.abc import Mapping

from sglfab.model import Json

LOOPBACK = ("127.0.0.1", "localhost", "::1")
ANY_ADDRESS = {"0.0.0.0": "127.0.0.1", "::": "::1", "[::]": "::1", "": "127.0.0.1"}


def http_host(args: Mapping[str, Json]) -> str:
    """The address to ask from the host itself: that of `host` in args, loopback where it listens everywhere."""
    host = str(args.get("host", "127.0.0.1"))
    return ANY_ADDRESS.get(host, host)


def unproxied(host: str) -> str:
    """The value that NO_PROXY must contain."""
    return ",".join(dict.fromkeys([*LOOPBACK, host]))
