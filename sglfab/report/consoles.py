"""Where the answer and the progress go, and what the terminal there can show."""

from __future__ import annotations

from dataclasses import dataclass

from rich.console import Console


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Rich would end the program here, with status 1; what a lost reader means is the task's to say."""
        raise  # noqa: PLE0704 - Rich calls this while it handles the BrokenPipeError


def answer_console() -> Console:
    """stdout: the answer."""
    return _console(stderr=False)


def progress_console() -> Console:
    """stderr: the progress."""
    return _console(stderr=True)


def _console(*, stderr: bool) -> Console:
    """Honours NO_COLOR, FORCE_COLOR and COLUMNS, as Rich does.

    Interactive only on a real terminal: CI that asks for colours (FORCE_COLOR) still gets whole, plain lines.
    """
    plain = Console(stderr=stderr)
    interactive = plain.file.isatty() and not plain.is_dumb_terminal
    # A size of 0, as some CI runners and serial lines have it, means that it is not known.
    unknown = 0 in plain.size
    return _Console(
        stderr=stderr,
        highlight=False,
        markup=False,
        emoji=False,
        force_interactive=interactive,
        width=80 if unknown else None,
        height=25 if unknown else None,
    )


@dataclass(frozen=True)
class Glyphs:
    """The signs that the console's encoding can write."""

    done: str
    failed: str
    skipped: str
    warning: str
    bar: str
    track: str
    slowest: str
    dot: str
    ellipsis: str


UNICODE = Glyphs("✓", "✗", "–", "!", "━", "─", "◂ slowest", " · ", "…")
ASCII = Glyphs("+", "x", "-", "!", "#", ".", "< slowest", " | ", "...")


def glyphs(console: Console) -> Glyphs:
    return ASCII if console.options.ascii_only else UNICODE


def on_terminal(console: Console) -> bool:
    """Whether lines are wrapped for a person; elsewhere they stay whole, for grep."""
    return console.is_interactive
