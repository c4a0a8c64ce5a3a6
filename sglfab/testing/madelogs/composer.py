"""A plot → the bytes of a log and the numbers of its cause lines.

Notation of a told line: `!` first marks a cause line, `~` a line that must not be taken for it; then `@ ` the
launcher's time prefix, `@* ` one line from every rank, `@3 ` a line of rank 3; anything else stands as it is.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from sglfab.testing.madelogs import collectors, startup
from sglfab.testing.madelogs.stacks import stack

_BETWEEN = {
    "during": "During handling of the above exception, another exception occurred:",
    "direct": "The above exception was the direct cause of the following exception:",
}


@dataclass(frozen=True)
class Line:
    text: str
    cause: bool = False
    noise: bool = False


@dataclass
class Made:
    """A made log. Lines are counted from 1."""

    log: bytes
    cause_lines: list[int] = field(default_factory=list)
    noise_lines: list[int] = field(default_factory=list)


def make(plot: dict[str, Any]) -> Made:
    teller = _Teller(plot)
    told: list[Line] = []
    for run in plot.get("runs") or [plot]:
        told += teller.run({**plot, **run})
    for mark in plot.get("marks", ()):
        told = [replace(line, **{mark["as"]: True}) if re.search(mark["match"], line.text) else line for line in told]
    stamp = teller.clock
    data, first_of = collectors.collect(plot.get("collector", "plain"), [line.text for line in told], start=stamp)
    if cut := plot.get("cut_bytes"):
        data = data[:-cut]
    return Made(
        data,
        [first_of[i] for i, line in enumerate(told) if line.cause],
        [first_of[i] for i, line in enumerate(told) if line.noise],
    )


class _Teller:
    """Tells the lines of a plot with a clock that only goes forward."""

    def __init__(self, plot: dict[str, Any]) -> None:
        self.dice = random.Random(plot["id"])  # the same plot makes the same log
        self.clock = datetime(
            2025, 1 + self.dice.randrange(12), 1 + self.dice.randrange(28), self.dice.randrange(24), 7
        )

    def run(self, plot: dict[str, Any]) -> list[Line]:
        self.server = startup.Server(
            plot["release"],
            model=plot.get("model", "DeepseekV3ForCausalLM"),
            path=plot.get("path", "/models/deepseek-r1"),
            draft=plot.get("draft"),
            flags=plot.get("flags", ""),
            one_line_bars=plot.get("one_line_bars", False),
        )
        self.ranks = _prefixes(plot.get("ranks", "TP8"), self.server.version)
        self.site = plot.get("site", "/usr/local/lib/python3.12/dist-packages")
        self.carets = "3.10" not in self.site
        told = [line for text in plot.get("before", "").splitlines() for line in self._tell(text)]
        upto = plot.get("upto")
        steps = self.server.steps()
        for step in steps[: steps.index(upto) + 1] if upto else ():
            self._pass(2)
            for text in startup.lines(self.server, step):
                told += self._tell(text)
        for part in plot.get("then", ()):
            told += self._part(part)
        return told

    def _part(self, part: str | dict[str, Any]) -> list[Line]:
        if isinstance(part, str):
            return [line for text in part.splitlines() for line in self._tell(text)]
        [(kind, value)] = part.items()
        if kind == "wait":
            self._pass(value)
            return []
        if kind == "serve":
            return list(self._serve(**value))
        if kind == "die":
            return self._die(**value)
        if kind == "traceback":
            return [line for text in self._traceback([value], "") for line in self._tell(text)]
        raise ValueError(f"a part of a plot is told, wait, serve, die or traceback, not {kind}")

    def _serve(self, lines: int, accept: float | None = None) -> Iterator[Line]:
        for n in range(lines):
            self._pass(1)
            if n % 4 == 0:
                yield from self._tell(startup.prefill(self.server))
                yield from self._tell('@ INFO:     10.4.0.2:48007 - "POST /v1/chat/completions HTTP/1.1" 200 OK')
            yield from self._tell(startup.decode(self.server, accept))

    def _die(self, ranks: Any = "all", weave: str = "whole", end: str = "sigquit", **what: Any) -> list[Line]:
        """Tracebacks of the ranks: `whole`, alternating in `lines`, `glued` into each other's lines, or `cut` short."""
        chosen = range(len(self.ranks)) if ranks == "all" else ranks
        order = self.dice.sample(list(chosen), len(chosen))
        parts = what.get("chain") or [what]
        blocks = [
            [
                line
                for text in self._traceback(parts, f"@{rank} Scheduler hit an exception: ")
                for line in self._tell(text, rank)
            ]
            for rank in order
        ]
        if weave == "lines":
            told = _alternate(blocks, self.dice)
        elif weave == "glued":
            told = _glued(blocks, self.dice)
        else:
            if weave == "cut":
                blocks[1:] = [[line for line in block[: len(block) // 2] if not line.cause] for block in blocks[1:]]
            told = [line for block in blocks for line in (*block, Line(""))]
        if end == "sigquit":
            told += self._tell("~@ Received sigquit from a child process. It usually means the child failed.")
        return told

    def _traceback(self, parts: list[dict[str, Any]], head: str) -> Iterator[str]:
        for n, part in enumerate(parts):
            if n:
                yield ""
                yield _BETWEEN[part.get("how", "during")]
                yield ""
            yield ("" if n else head) + "Traceback (most recent call last):"
            frames = [*stack(part["in"], self.server.version), *(tuple(f) for f in part.get("frames", ()))]
            for file, function, code in frames:
                place = file if file.startswith(("/", "<")) else f"{self.site}/{file}"
                at = random.Random(f"{self.server.release} {file} {function} {code}").randrange(40, 4000)
                yield f'  File "{place}", line {at}, in {function}'
                if code:
                    yield f"    {code}"
                if self.carets and code.endswith("("):
                    yield "    " + " " * code.find("self") + "^" * max(3, len(code) - code.find("self"))
            yield from part["error"].splitlines()

    def _tell(self, text: str, rank: int | None = None) -> list[Line]:
        cause, noise = text.startswith("!"), text.startswith("~")
        text = text[1:] if cause or noise else text
        said = re.match(r"@(\*|\d*) ", text)
        body = text[said.end() :] if said else text
        if said is None:
            told = [body]
        elif said[1] == "":
            told = [f"[{self._now()}] {body}"]
        else:
            whom = range(len(self.ranks)) if said[1] == "*" else [int(said[1])]
            order = self.dice.sample(list(whom), len(whom))
            told = [
                f"[{self._now()}{self.ranks[r]}] {body.replace('{rank}', str(r))}" for r in order if r < len(self.ranks)
            ]
        if rank is not None:
            told = [t.replace("{rank}", str(rank)) for t in told]
        return [Line(t, cause, noise) for t in told]

    def _now(self) -> str:
        return f"{self.clock:%Y-%m-%d %H:%M:%S}"

    def _pass(self, seconds: float) -> None:
        self.clock += timedelta(seconds=seconds)


def _prefixes(spec: str, version: startup.Version) -> list[str]:
    """`TP8` → [" TP0", …]; dimensions of size 1 show nothing, but 0.4.6 always names TP."""
    sizes = {name: int(size) for name, size in re.findall(r"([A-Z_]+?)(\d+)", spec)}
    count = max(sizes.get("TP", 1) * sizes.get("PP", 1), sizes.get("EP", 1), sizes.get("DP", 1))
    order = ("DP", "TP", "EP", "PP") if version < (0, 5, 6) else ("DP", "PP", "TP", "EP")
    shown = []
    for n in range(count):
        index = {"TP": n % sizes.get("TP", 1), "PP": n // sizes.get("TP", 1), "EP": n % sizes.get("EP", 1)}
        index["DP"] = n * sizes.get("DP", 1) // count
        names = [d for d in order if sizes.get(d, 1) > 1 or (d == "TP" and version < (0, 4, 7))]
        shown.append("".join(f" {d}{index[d]}" for d in names))
    return shown


def _alternate(blocks: list[list[Line]], dice: random.Random) -> list[Line]:
    """Blocks told at the same time, a few lines of each in turn."""
    told, left = [], [list(b) for b in blocks]
    while any(left):
        for block in left:
            take = dice.randrange(1, 5)
            told += block[:take]
            del block[:take]
    return told


def _glued(blocks: list[list[Line]], dice: random.Random) -> list[Line]:
    """Each block begins inside a frame line of the one before, whose rest follows it."""
    told = blocks[-1]
    for block in reversed(blocks[:-1]):
        frames = [n for n, line in enumerate(block) if line.text.startswith("  File ")]
        at = dice.choice(frames)
        text, cut = block[at].text, dice.randrange(8, len(block[at].text) - 8)
        glued = replace(told[0], text=text[:cut] + told[0].text)
        told = [*block[:at], glued, *told[1:], Line(text[cut:]), *block[at + 1 :]]
    return told
