"""An operator's error: what, where, what to try. Never a traceback."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from sglfab.errors import SglfabError
from sglfab.model import SCHEMA, Json
from sglfab.report.consoles import progress_console
from sglfab.report.page import Page
from sglfab.report.redact import Redactor


def print_error(error: SglfabError, console: Console | None = None, redactor: Redactor | None = None) -> None:
    """`error[code]: what`, then where and what to try, each only if there is one. On stderr unless told otherwise."""
    page = Page(console or progress_console(), redactor)
    page.line(Text(f"error[{error.code}]: ", style="bold red") + page.text(error.what), hang=2)
    for name, words in (("where", error.where), ("try", error.try_)):
        # Whole lines: both are copied into an editor or a shell.
        for number, line in enumerate(words.splitlines()):
            page.raw(Text("  " + (f"{name + ':':<7}" if number == 0 else " " * 7), style="bold") + page.text(line))


def error_json(error: SglfabError, redactor: Redactor | None = None) -> Json:
    """The error object of product.md."""
    shape: Json = (redactor or Redactor()).value({"schema": SCHEMA, "verdict": None, "error": error.to_json()})
    return shape
