"""The log of a run, or its trace, line by line."""

from __future__ import annotations

from collections.abc import Iterator

from sglfab.transports.host import Host

ANSWER_S = 60.0


def lines(host: Host, run_id: str, *, trace: bool, count: int, follow: bool) -> Iterator[str]:
    """The last `count` lines, then, when following, every new one until the caller stops. Unfinished lines wait."""
    request = {"run_id": run_id, "which": "trace" if trace else "log", "lines": count, "follow": follow}
    rest: dict[str, str] = {}
    # A followed log may be silent for as long as it likes; a dead connection is found by the transport.
    with host.stream("tail", request, idle_s=None if follow else ANSWER_S) as stream:
        for event in stream:
            source = str(event.get("rank", ""))
            *whole, rest[source] = (rest.get(source, "") + event["data"]).split("\n")
            yield from whole
    yield from (tail for tail in rest.values() if tail)
