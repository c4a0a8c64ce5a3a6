"""What a log collector makes of the lines of a server."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime, timedelta

_DECORATE: dict[str, Callable[[str, datetime, int], str]] = {
    "plain": lambda text, at, n: text,
    "compose": lambda text, at, n: f"sglang-1  | {text}",
    "compose-colour": lambda text, at, n: f"\x1b[36mllm-server-1  | \x1b[0m{text}",
    "pod": lambda text, at, n: f"[pod/sglang-0/main] {text}",
    "iso": lambda text, at, n: f"{at:%Y-%m-%dT%H:%M:%S}.{n % 1000:03d}123456Z {text}",
    "cri": lambda text, at, n: f"{at:%Y-%m-%dT%H:%M:%S}.{n % 1000:03d}123456+00:00 stderr F {text}",
    "journald": lambda text, at, n: f"{at:%b %d %H:%M:%S} node7 sglang[4711]: {text}",
    "journald-iso": lambda text, at, n: f"{at:%Y-%m-%dT%H:%M:%S}+0000 node7 python3[4711]: {text}",
    "ray": lambda text, at, n: f"\x1b[36m(SGLangEngine pid=3111, ip=10.0.0.4)\x1b[0m {text}",
    "ts": lambda text, at, n: f"{at:%b %d %H:%M:%S} {text}",
    "slurm": lambda text, at, n: f"{n % 2}: {text}",
    "docker-json": lambda text, at, n: json.dumps(
        {"log": f"{text}\n", "stream": "stderr", "time": f"{at:%Y-%m-%dT%H:%M:%S}Z"}
    ),
    "crlf": lambda text, at, n: f"{text}\r",
}


def collect(name: str, told: list[str], *, start: datetime) -> tuple[bytes, list[int]]:
    """The file, and for each told line the number of its line in it."""
    decorate = _DECORATE[name]
    lines = [
        text if _kernel(text) else decorate(text, start + timedelta(milliseconds=n), n) for n, text in enumerate(told)
    ]
    data = "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogateescape")
    return data, list(range(1, len(lines) + 1))


def _kernel(text: str) -> bool:
    """A line that the collector took from another source, and that stands as it is."""
    return " kernel: " in text
