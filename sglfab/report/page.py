"""A page of text: wrapped with hanging indents on a terminal, whole lines everywhere else."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from sglfab.report.consoles import Glyphs, glyphs, on_terminal
from sglfab.report.printable import clean, in_a_row
from sglfab.report.redact import Redactor

MAX_WIDTH = 110  # longer lines are hard to read, also where the terminal is wider
NARROWEST = 20  # columns left for text below which nothing is wrapped

Words = str | Text


class Page:
    """Writes to one console; everything on it is redacted and free of control characters."""

    def __init__(self, console: Console, redactor: Redactor | None = None) -> None:
        self.console = console
        self.redactor = redactor or Redactor()
        self.glyphs: Glyphs = glyphs(console)
        self.wraps = on_terminal(console)
        self.width = min(console.width, MAX_WIDTH)

    def safe(self, text: str) -> str:
        """Redacted, cleaned, and in signs that the console's encoding has."""
        shown = clean(self.redactor.text(text))
        encoding = self.console.encoding
        return shown.encode(encoding, "replace").decode(encoding)

    def text(self, words: str, style: str = "") -> Text:
        return Text(self.safe(words), style=style)

    def blank(self) -> None:
        self.console.print()

    def line(self, words: Words, *, indent: int = 0, hang: int = 0) -> None:
        """One paragraph: `indent` columns before it, `hang` more before its further lines."""
        text = words if isinstance(words, Text) else self.text(words)
        for number, part in enumerate(self._wrapped(text, indent, hang)):
            self.raw(Text(" " * (indent + (hang if number else 0))) + part)

    def raw(self, words: Words) -> None:
        """One line as it is, however long: what an operator copies must not be broken."""
        text = words if isinstance(words, Text) else self.text(words)
        text.rstrip()
        self.console.print(text, soft_wrap=True, highlight=False)

    def block(self, title: str, rows: Iterable[Words], *, style: str = "") -> None:
        """A titled list, one paragraph a row; nothing at all without rows."""
        listed = list(rows)
        if not listed:
            return
        self.blank()
        self.raw(Text(title, style="bold"))
        for row in listed:
            self.line(self.text(row, style) if isinstance(row, str) else row, indent=2, hang=2)

    def columns(self, header: Sequence[str], rows: Sequence[Sequence[Words]], *, indent: int = 0) -> None:
        """Aligned columns; on a terminal the last one takes what is left and wraps inside itself."""
        cells = [[self._cell(cell) for cell in row] for row in rows]
        widths = [
            max(map(cell_len, column)) for column in zip(header, *[[c.plain for c in r] for r in cells], strict=True)
        ]
        self._row([Text(title, style="dim") for title in header], widths, indent)
        for row in cells:
            self._row(row, widths, indent)

    def _cell(self, cell: Words) -> Text:
        return cell if isinstance(cell, Text) else self.text(in_a_row(cell))

    def _row(self, cells: Sequence[Text], widths: Sequence[int], indent: int) -> None:
        start = Text(" " * indent)
        for cell, width in zip(cells[:-1], widths, strict=False):
            start += cell + Text(" " * (width - cell.cell_len + 2))
        for number, part in enumerate(self._wrapped(cells[-1], start.cell_len, 0)):
            self.raw((Text(" " * start.cell_len) if number else start) + part)

    def _wrapped(self, text: Text, indent: int, hang: int) -> list[Text]:
        """The lines of a paragraph; those after the first have `hang` columns less room."""
        room = self.width - indent
        if not self.wraps or room - hang < NARROWEST:
            return list(text.split("\n", allow_blank=True)) or [text]
        first, *more = [*text.wrap(self.console, room, tab_size=4)] or [text]
        if not more:
            return [first]
        rest = text[len(first.plain) :]
        rest = rest[len(rest.plain) - len(rest.plain.lstrip()) :]
        return [first, *rest.wrap(self.console, room - hang, tab_size=4)]
