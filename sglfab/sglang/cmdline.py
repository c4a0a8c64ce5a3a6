"""What a running server's command line tells about it."""

from __future__ import annotations

import shlex

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 30000  # of SGLang, in every release 0.4.6–0.5.23


def http_address(cmdline: str) -> tuple[str, int]:
    """--host and --port of a command line, SGLang's defaults where absent or unreadable."""
    try:
        words = shlex.split(cmdline)
    except ValueError:
        words = cmdline.split()
    port = value_of(words, "--port")
    return value_of(words, "--host") or DEFAULT_HOST, int(port) if port and port.isdecimal() else DEFAULT_PORT


def value_of(words: list[str], flag: str) -> str | None:
    """The last value of a flag, `--flag value` or `--flag=value`."""
    found = None
    for word, following in zip(words, [*words[1:], ""], strict=True):
        if word == flag and following:
            found = following
        elif word.startswith(flag + "="):
            found = word.partition("=")[2]
    return found
