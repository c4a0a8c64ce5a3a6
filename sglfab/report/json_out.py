"""`--json`: exactly one object on stdout, whatever the number of hosts."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import TextIO

from sglfab.model import SCHEMA, Json
from sglfab.report.printable import valid_unicode
from sglfab.report.redact import Redactor


def hosts_json(per_host: Sequence[Json]) -> Json:
    """The only host's object itself, else `{"schema": 1, "hosts": […]}`."""
    return per_host[0] if len(per_host) == 1 else {"schema": SCHEMA, "hosts": list(per_host)}


def print_json(value: Json, *, stream: TextIO | None = None, redactor: Redactor | None = None) -> None:
    """`value`, redacted, as one object on stdout unless told otherwise. ASCII only: it survives every locale."""
    safe = (redactor or Redactor()).value(value)
    # Bytes of a log that were no UTF-8 are lone surrogates in our strings; strict JSON readers refuse them.
    whole = valid_unicode(json.dumps(safe, ensure_ascii=False, default=str))
    out = stream or sys.stdout
    out.write(json.dumps(json.loads(whole, parse_constant=lambda _: None), indent=2) + "\n")  # NaN is no JSON
    out.flush()
