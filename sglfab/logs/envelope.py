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
    r"^(?:(?:[A-Z][a-z]{2} [ \d]\d|\d{4}-\d\d-\d\d)[T ])?\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?(?:[ \t]|$)"
)  # moreutils' ts, in its usual formats
_DMESG = re.compile(r"^\[(?: *\d+\.\d{6}|[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4})\] ")
_WRAPPERS = (
    re.compile(r"^\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d\.\d{3,9}(?:Z|[+-]\d\d:?\d\d)(?:\t| (?:std(?:out|err) [FP] ?)?)"),
    re.compile(
        r"^\((?:[A-Za-z_][\w.:-]*(?: |, ))?(?:rank=\d+, )?(?:pid|ip)=[\w.:]+(?:, (?:ip|node|actor)[\w_]*=[\w.:]+)*\) ?"
    ),
    re.compile(r"^\[(?:pod/)?[a-z0-9][a-z0-9.-]*/[a-z0-9][\w./-]*\] ?"),
    re.compile(r"^[A-Za-z0-9][\w.@-]{0,62} *\| ?"),
    re.compile(r"^\[\d+,\d+\]<std(?:out|err)>:|^\[default\d+\]:"),  # mpirun, torchrun
)
# What stands outermost, by the character that it begins with: a pane's frame; a process manager's own bracket
# before the program's; CloudWatch (milliseconds, time, text); Kibana.
_PANE = "│┃"
_BRACKET = re.compile(r"^\[\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:[.,]\d+)?\] (?:\[[^\[\]\s]{1,60}\]: )?")
_INNER = re.compile(r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:[.,]\d+)?(?: [A-Z][A-Z_]*\d+)*\] ")
_CLOUDWATCH = re.compile(r"^\d{13}\t")
_KIBANA = re.compile(r"^[A-Z][a-z]{2} \d{1,2}, \d{4} @ \d\d:\d\d:\d\d\.\d{3}(?:\t| {4}| )")
# Python's logging with another format than SGLang's: its usual one, loguru, Dynamo, one with pid, rank and file.
_LEVEL = r"(?:TRACE|DEBUG|INFO|WARN|WARNING|ERROR|CRITICAL|FATAL)"
_LOGGER = re.compile(
    r"^(?P<time>\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d)(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?(?:"
    rf" - [\w.-]+ - {_LEVEL} - | \| {_LEVEL} *\| [\w.:<>-]+ - | +{_LEVEL} +[\w.]+(?:::[\w.]+)*: |"
    rf" {_LEVEL} (?:\d+ )?\[ ?(?P<rank>(?:[A-Z][A-Z_]*\d+ )*)[\w.]+\.py:\d+\] )"
)
_BASIC = re.compile(rf"^{_LEVEL}:[\w.]+:(?=\[20\d\d-|  File \"|Traceback \(most|usage: )")
_JSON_KEYS = ('"log":', '"textPayload":')
_JSON_SIBLINGS = {"stream", "time", "date", "timestamp", "@timestamp", "kubernetes", "container_name", "container_id"}
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
    time: str | None = None  # of a logger with a format of its own, in place of SGLang's prefix
    rank: str | None = None


class Unwrapper:
    """Strips what collectors add. It learns one fixed head (stern, srun --label) from lines that SGLang prefixed."""

    def __init__(self) -> None:
        self._heads: list[str] = []
        self._stamped = False
        self._labelled = False
        self._margin: str | None = None  # of the first line that SGLang prefixed: a log pasted into a page is indented
        self._bracketed = False
        self._relayed = False

    def unwrap(self, raw: bytes) -> Unwrapped:
        text = raw.decode("utf-8", "replace")
        if text.startswith('{"') and any(key in text for key in _JSON_KEYS):
            text = _json_text(text)
        if "\x1b" in text:
            text = _ANSI.sub("", text)
        text = self._outermost(self._outdented(text.rstrip()))
        if text.startswith('  File \\"'):
            text = text.replace('\\"', '"')  # cut out of a JSON log
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
        if logged := _LOGGER.match(text):
            return self._logged(text[logged.end() :], repeated, logged)
        return Unwrapped(text, kernel, repeated)

    def _outdented(self, text: str) -> str:
        if self._margin is None and (found := _INDENTED.match(text)):
            self._margin = found[1]
        return text.removeprefix(self._margin) if self._margin else text

    def _outermost(self, text: str) -> str:
        first = text[:1]
        if first and first in _PANE:
            return text[1:].removesuffix(first).rstrip().removeprefix(" ")
        found = _BRACKET.match(text) if first == "[" else _CLOUDWATCH.match(text) or _KIBANA.match(text)
        if found is None:
            return text
        if first == "[":
            self._bracketed = self._bracketed or self._reveals(text, found)
        return text[found.end() :] if first != "[" or self._bracketed else text

    @staticmethod
    def _reveals(text: str, bracket: re.Match[str]) -> bool:
        """Whether what follows a bracketed time shows that it is not SGLang's own."""
        own = _OWN if text[bracket.end() - 2] == ":" else '  File "'
        return _INNER.match(text, bracket.end()) is not None or text.startswith(own, bracket.end())

    def _logged(self, text: str, repeated: int, head: re.Match[str]) -> Unwrapped:
        """The head of the program's own logger, or of one that relays the lines of a server with their own prefix."""
        self._relayed = self._relayed or text.startswith(("[20", '  File "'))
        if self._relayed:
            return Unwrapped(text, repeated=repeated)
        return Unwrapped(text, repeated=repeated, time=head["time"], rank=(head["rank"] or "").strip() or None)

    def _strip_one(self, text: str) -> tuple[str, bool]:
        if text[:1] in " \t" or text.startswith("[20") or _LOGGER.match(text):
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
        if (found := _BASIC.match(text)) and len(self._heads) <= 8:
            self._heads.append(found[0])
            return text[found.end() :]
        found = _PREFIXED.match(text)
        if not found or not _BARE_HEAD.match(found["head"]) or len(self._heads) > 8:
            return text
        self._labelled = self._labelled or _LABEL.fullmatch(found["head"]) is not None
        self._heads.append(found["head"])
        return text[len(found["head"]) :]


def _json_text(text: str) -> str:
    """What a container runtime, Fluent Bit or Cloud Logging keeps in an object a line; any other object stays."""
    try:
        entry = json.loads(text)
    except ValueError:
        return text
    alone = next(iter(entry)) == "log"
    inner = entry.get("textPayload", entry.get("log") if alone or _JSON_SIBLINGS & entry.keys() else None)
    return inner if isinstance(inner, str) else text
