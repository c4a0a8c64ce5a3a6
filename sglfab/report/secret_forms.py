"""The ways one secret value is written: as it is, quoted for a URL, JSON, Python, a shell or HTML."""

from __future__ import annotations

import html
import json
import shlex
from collections.abc import Callable, Iterable
from urllib.parse import quote, quote_plus

SHORTEST = 4  # a shorter value would blot out half of every text
SHORTEST_LINE = 8  # of a value of several lines, such as a PEM key: text is redacted line by line


def _json(value: str) -> str:
    return json.dumps(value)[1:-1]


def _json_unicode(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)[1:-1]


def _python(value: str) -> str:
    return repr(value)[1:-1]


def _shell(value: str) -> str:
    quoted = shlex.quote(value)
    return quoted[1:-1] if quoted != value else value


def _url(value: str) -> str:
    return quote(value, safe="", errors="replace")


def _url_path(value: str) -> str:
    return quote(value, errors="replace")


def _url_form(value: str) -> str:
    return quote_plus(value, errors="replace")


_WRITERS: tuple[Callable[[str], str], ...] = (
    _json,
    _json_unicode,
    _python,
    _shell,
    _url,
    _url_path,
    _url_form,
    html.escape,
)


def written_forms(value: str) -> frozenset[str]:
    """Every way `value` may stand in a text, also quoted twice (a repr inside JSON); forms of at least 4."""
    values = {value, *(line for line in value.splitlines() if len(line) >= SHORTEST_LINE)}
    once = values | _written(values)
    return frozenset(form for form in once | _written(once) if len(form) >= SHORTEST)


def _written(values: Iterable[str]) -> set[str]:
    return {write(value) for value in values for write in _WRITERS}
