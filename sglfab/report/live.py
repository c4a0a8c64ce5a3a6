"""What a waiting person sees: a live picture in a terminal, plain lines everywhere else."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import TracebackType

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from sglfab.flows.clock import Clock, SystemClock
from sglfab.flows.events import Event, Said, Step, Watched
from sglfab.model import WatchView
from sglfab.report.consoles import progress_console
from sglfab.report.durations import spoken, time_of_day
from sglfab.report.page import Page
from sglfab.report.plain_progress import PlainProgress
from sglfab.report.redact import Redactor
from sglfab.report.stage_table import headline, table

REFRESH_HZ = 4.0
WORTH_SAYING_S = 1.0  # how long a step took, where it took long
_STYLES = {"done": "green", "failed": "red", "skipped": "dim"}


@dataclass(frozen=True)
class _Now:
    """What goes on: replaced as a whole, so that the drawing thread never sees half of it."""

    step: str = ""
    text: str = ""
    since_s: float = 0.0
    view: WatchView | None = None
    view_at_s: float = 0.0


class LiveView:
    """The flows' report callback, `view(event)`, and a context manager that always gives the terminal back."""

    def __init__(
        self,
        console: Console | None = None,
        redactor: Redactor | None = None,
        *,
        clock: Clock | None = None,
        heartbeat_s: float = 15.0,
        auto_refresh: bool = True,
    ) -> None:
        self._console = console = console or progress_console()
        self._page = Page(console, redactor)
        self._clock = clock or SystemClock()
        self._plain = PlainProgress(self._page.redactor, heartbeat_s=heartbeat_s)
        self._now = _Now()
        self._spinner = Spinner("dots" if not console.options.ascii_only else "line")
        self._draws = console.is_interactive
        self._auto_refresh = auto_refresh
        self._live: Live | None = None

    def _new_live(self) -> Live:
        # stdout is not redirected: it carries the answer, and must not end up on the console of the progress.
        return Live(
            console=self._console,
            get_renderable=self.picture,
            refresh_per_second=REFRESH_HZ,
            auto_refresh=self._auto_refresh,
            transient=True,
            redirect_stdout=False,
        )

    def __enter__(self) -> LiveView:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._hide()

    def _show(self) -> None:
        """Only while something goes on: a question or an answer in between owns the terminal."""
        if self._draws and self._live is None:
            self._live = self._new_live()
            self._live.start(refresh=True)

    def _hide(self) -> None:
        live, self._live = self._live, None
        if live is None:
            return
        try:
            live.stop()
        finally:
            self._console.show_cursor(True)  # a second Ctrl-C may have cut stop() short

    def __call__(self, event: Event) -> None:
        match event:
            case Step():
                self._step(event)
            case Said():
                self._said(event)
            case Watched():
                self._watched(event.view)

    def _step(self, step: Step) -> None:
        if step.state == "begin":
            self._begin(step)
        else:
            self._end(step)

    def _begin(self, step: Step) -> None:
        """A step that begins again only has something new to say."""
        again = step.name == self._now.step
        since_s = self._now.since_s if again else self._clock.now_s()
        self._now = _Now(step.name, step.text, since_s)
        self._show()
        if not self._draws:
            self._print_plain(f"{step.name}{'' if again else ' begins'}" + (f": {step.text}" if step.text else ""))

    def _end(self, step: Step) -> None:
        took_s = self._clock.now_s() - self._now.since_s if self._now.step == step.name else 0.0
        took = spoken(took_s) if took_s >= WORTH_SAYING_S else ""
        self._now = _Now()
        self._hide()
        if self._draws:
            self._page.line(self._mark(step, took), hang=2)
        else:
            self._print_plain(_ended(step, took))

    def _said(self, said: Said) -> None:
        warns = said.level == "warning"
        if not self._draws:
            self._print_plain(("warning: " if warns else "") + said.text)
            return
        mark = Text(f"{self._page.glyphs.warning} ", style="yellow") if warns else Text("  ")
        self._page.line(mark + self._page.text(said.text), hang=2)

    def _watched(self, view: WatchView) -> None:
        now_s = self._clock.now_s()
        view = replace(view, http_detail=self._page.safe(view.http_detail))
        self._now = _Now(self._now.step, self._now.text, self._now.since_s, view, now_s)
        self._show()
        if not self._draws:
            for line in self._plain.lines(view, now_s):
                self._print_plain(line)

    def _print_plain(self, line: str) -> None:
        self._page.raw(f"{time_of_day(self._clock.wall_s())} {line}")

    def _mark(self, step: Step, took: str) -> Text:
        signs = self._page.glyphs
        sign = {"done": signs.done, "failed": signs.failed}.get(step.state, signs.skipped)
        line = Text(f"{sign} ", style=_STYLES.get(step.state, ""))
        line += Text(step.name) + self._page.text(f"  {step.text}" if step.text else "", style="dim")
        return line + Text(f"  {took}", style="dim") if took else line

    def picture(self) -> Group:
        """What is drawn now. Never higher than the screen, or the terminal could not be wound back."""
        now = self._now
        if not now.step and now.view is None:
            return Group()
        lines: list[RenderableType] = [self._headline(now)]
        if now.view is not None:
            lines += self._below(now.view)
        return Group(*lines)

    def _headline(self, now: _Now) -> Table:
        words = self._page.text(f"{now.step}  " if now.step else "")
        if now.view is None:
            words += self._page.text(f"{now.text}  ".lstrip(), style="dim")
            words += Text(spoken(int(self._clock.now_s() - now.since_s)), style="dim")
        else:
            words += headline(now.view, self._elapsed_s(now), self._page.glyphs)
        words.truncate(self._console.width - 3, overflow="ellipsis")
        line = Table.grid(padding=(0, 1))
        line.add_row(self._spinner, words)
        return line

    def _below(self, view: WatchView) -> list[Text]:
        size = self._console.size
        lines = table(
            view,
            redactor=self._page.redactor,
            signs=self._page.glyphs,
            width=size.width - 3,
            height=size.height - 2,
        )
        return [Text("  ") + line for line in lines]

    def _elapsed_s(self, now: _Now) -> float:
        """Runs on between two snapshots."""
        return (now.view.elapsed_s if now.view else 0.0) + self._clock.now_s() - now.view_at_s


def _ended(step: Step, took: str) -> str:
    return f"{step.name} {step.state}" + (f": {step.text}" if step.text else "") + (f" ({took})" if took else "")
