"""What collectors put around a line: compose, kubectl, container runtimes, journald, Ray, colours."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

_ANSI = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_REPEATED = re.compile(r" ?\[repeated (\d+)x across cluster\](?: \(Ray dedup.*)?$")
_KERNEL_IDENT = "kernel"
_JOURNAL = re.compile(
    r"^(?:[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)) "
    r"[\w.-]+ (?P<ident>[\w.@:/()-]+?)(?:\[\d+\])?: ?"
)
_STAMP = re.compile(
    r"^(?:(?:[A-Z][a-z]{2} [ \d]\d|\d{4}-\d\d-\d\d)[T ])?\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?(?: |$)"
)  # moreutils' ts, in its usual formats
_DMESG = re.compile(r"^\[(?: *\d+\.\d{6}|[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4})\] ")
_WRAPPERS = (
    re.compile(r"^\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d\.\d{3,9}(?:Z|[+-]\d\d:?\d\d) (?:std(?:out|err) [FP] ?)?"),
    re.compile(r"^\((?:[A-Za-z_][\w.:-]*(?: |, ))?(?:pid|ip)=[\w.:]+(?:, (?:ip|node|actor)[\w_]*=[\w.:]+)*\) ?"),
    re.compile(r"^\[(?:pod/)?[a-z0-9][a-z0-9.-]*/[a-z0-9][\w./-]*\] ?"),
    re.compile(r"^[A-Za-z0-9][\w.-]{0,62} *\| ?"),
)
# What a start-up prints first; text before it that names a pod or a task is a collector's.
_PREFIXED = re.compile(
    r"^(?P<head>[^\[\]|(\"'=]{2,120}? )"
    r"(?:\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[^\]]*\] |Traceback \(most recent call last\):|usage: |"
    r"  File \"|/\S+\.py:\d+: \w+Warning: )"
)
_BRACKETED = re.compile(r"^\[\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)\] ")  # SGLang's has no zone
_OWN = ("[20", '  File "', "Traceback (most", "usage: ")  # what only the program prints: a stamp stands right before it
_INDENTED = re.compile(r"([ \t]*)\[20\d\d-\d\d-\d\d \d\d:\d\d:\d\d")
_LABEL = re.compile(r" ?\d{1,4}: ")  # srun --label: the number of the task
_BARE_HEAD = re.compile(r"^(?: ?\d{1,4}: |[a-z0-9][a-z0-9.-]*(?: [›>:|])?(?: [a-z0-9][a-z0-9.-]*)?(?: ?[:>›|])? )$")


@dataclass(frozen=True)
class Unwrapped:
    """The line as the program printed it. repeated: how often Ray says that it came again."""

    text: str
    kernel: bool = False
    repeated: int = 0


class Unwrapper:
    """Strips what collectors add. It learns one fixed head (stern, srun --label) from lines that SGLang prefixed."""

    def __init__(self) -> None:
        self._heads: list[str] = []
        self._stamped = False
        self._labelled = False
        self._margin: str | None = None  # of the first line that SGLang prefixed: a log pasted into a page is indented

    def unwrap(self, raw: bytes) -> Unwrapped:
        text = raw.decode("utf-8", "replace")
        if text.startswith('{"log":'):
            text = _docker_json(text)
        if "\x1b" in text:
            text = _ANSI.sub("", text)
        text = self._outdented(text.rstrip("\r\n"))
        kernel = False
        for _ in range(3):
            shorter, is_kernel = self._strip_one(_BRACKETED.sub("", text) if text.startswith("[20") else text)
            kernel = kernel or is_kernel
            if shorter == text:
                break
            text = shorter
        repeated = 0
        if text.endswith(("cluster]", ")")) and (said := _REPEATED.search(text)):
            text, repeated = text[: said.start()], int(said[1])
        return Unwrapped(text, kernel, repeated)

    def _outdented(self, text: str) -> str:
        if self._margin is None and (found := _INDENTED.match(text)):
            self._margin = found[1]
        return text.removeprefix(self._margin) if self._margin else text

    def _strip_one(self, text: str) -> tuple[str, bool]:
        if text[:1] in " \t" or text.startswith("[20"):
            return self._strip_learned(text), False
        journal = _JOURNAL.match(text)
        kernel = journal is not None and journal["ident"] == _KERNEL_IDENT
        if not kernel and (found := _STAMP.match(text)) and (self._stamped or text.startswith(_OWN, found.end())):
            self._stamped = True
            return text[found.end() :], False
        if journal:
            return text[journal.end() :], kernel
        if found := _DMESG.match(text):
            return text[found.end() :], True
        for wrapper in _WRAPPERS:
            if found := wrapper.match(text):
                return text[found.end() :], False
        return self._strip_learned(text), False

    def _strip_learned(self, text: str) -> str:
        for head in self._heads:
            if text.startswith(head):
                return text[len(head) :]
        if self._labelled and (label := _LABEL.match(text)):
            return text[label.end() :]
        found = _PREFIXED.match(text)
        if not found or not _BARE_HEAD.match(found["head"]) or len(self._heads) > 8:
            return text
        self._labelled = self._labelled or _LABEL.fullmatch(found["head"]) is not None
        self._heads.append(found["head"])
        return text[len(found["head"]) :]


def _docker_json(text: str) -> str:
    try:
        inner = json.loads(text)["log"]
    except (ValueError, KeyError, TypeError):
        return text
    return inner if isinstance(inner, str) else text
