"""`--json`: exactly one object on stdout, whatever the number of hosts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TextIO

from sglfab.model import SCHEMA, Json
from sglfab.report.printable import valid_unicode
from sglfab.report.redact import Redactor


def one_object(per_host: Sequence[Json], *, several: bool | None = None) -> Json:
    """The only host's object itself, else `{"schema": 1, "hosts": […]}`. several: say so although one answered."""
    wrapped = len(per_host) != 1 if several is None else several
    return {"schema": SCHEMA, "hosts": list(per_host)} if wrapped else per_host[0]


def write_json(value: Json, stream: TextIO, redactor: Redactor | None = None) -> None:
    """`value`, redacted, and a newline. ASCII only, so that it survives every locale and pipe."""
    safe = (redactor or Redactor()).value(value)
    whole = valid_unicode(json.dumps(safe, ensure_ascii=False, allow_nan=False, default=str))
    stream.write(json.dumps(json.loads(whole), indent=2) + "\n")
    stream.flush()
