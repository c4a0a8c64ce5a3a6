"""The log of a run, or its trace, line by line."""

from __future__ import annotations

from collections.abc import Iterator

from sglfab.transports.base import ChannelIdle
from sglfab.transports.host import Host

POLL_S = 3600.0


def lines(host: Host, run_id: str, *, trace: bool, count: int, follow: bool) -> Iterator[str]:
    """The last `count` lines, then, when following, every new one until the caller stops. Unfinished lines wait."""
    request = {"run_id": run_id, "which": "trace" if trace else "log", "lines": count, "follow": follow}
    rest: dict[str, str] = {}
    with host.stream("tail", request, idle_s=POLL_S) as stream:
        try:
            for event in stream:
                source = str(event.get("rank", ""))
                *whole, rest[source] = (rest.get(source, "") + event["data"]).split("\n")
                yield from whole
        except ChannelIdle:
            return
    yield from (tail for tail in rest.values() if tail)
