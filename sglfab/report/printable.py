"""What others wrote (log lines, command lines, errors) as text that a terminal shows and does not obey."""

from __future__ import annotations

import re

# CSI, OSC (ended by BEL or ST) and two-byte escapes: colours of a log, titles, and whatever else a terminal would obey.
_ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*(?:[@-~]|\Z)|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -/]*[0-~])?")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")

_SURROGATE = re.compile(r"[\ud800-\udfff]")


def clean(text: str) -> str:
    """Without escapes and control characters; bytes that were no UTF-8 show as U+FFFD."""
    return _CONTROL.sub("", _ESCAPE.sub("", valid_unicode(text))).expandtabs(4)


def one_line(text: str) -> str:
    """`clean`, on one line: of a progress bar that was rewritten with `\\r` the last state."""
    last = next((part for part in reversed(text.rstrip().split("\r")) if part.strip()), "")
    return " ".join(clean(last).split("\n")).strip()


def in_a_row(text: str) -> str:
    """On one line of a table, with every line end of it to be seen."""
    return text.replace("\r\n", "\\r\\n").replace("\n", "\\n")


def cropped(text: str, limit: int) -> str:
    """At most `limit` characters, and how many are left out."""
    if len(text) <= limit:
        return text
    kept = max(0, limit - 16)
    return f"{text[:kept]} … (+{len(text) - kept} characters)"


def valid_unicode(text: str) -> str:
    """Without lone surrogates, which neither a terminal nor a strict JSON reader takes."""
    return _SURROGATE.sub("\ufffd", text)
