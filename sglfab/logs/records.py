"""Lines → records: who says it (rank), when, and what kind of text it is."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from sglfab.logs.envelope import Unwrapped

# Kinds. Only some of them may carry a cause: prompts and arguments may hold any words.
LOG, ACCESS, REQUEST, ARGS, RUNTIME = "log", "access", "request", "args", "runtime"
BAR, FRAME, CODE, TRACEBACK, CHAIN, BLANK = "bar", "frame", "code", "traceback", "chain", "blank"
NATIVE, KERNEL, PLAIN, USAGE = "native", "kernel", "plain", "usage"

PREFIX = r"\[(?P<time>\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d)(?:[.,]\d+)?(?P<rank>(?: [A-Z][A-Z_]*\d+)*)\] ?"
_PREFIXED = re.compile("^" + PREFIX)
_GLUED = re.compile(
    r"(?<!^)\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:[.,]\d+)?(?: [A-Z][A-Z_]*\d+)*\] |(?<=[\]C])Traceback \(most "
)
# Into a frame or a line of source code, an exception line or another frame may have been written too.
_GLUED_CODE = re.compile(
    _GLUED.pattern
    + r"|(?<=\S)  File \"(?=/|<)|(?<![\"'`(\[ ])(?:(?:torch|triton|safetensors\w*|requests|huggingface_hub)\.[\w.]*)?"
    r"(?:Value|Runtime|Assertion|Type|Attribute|Key|Import|ModuleNotFound|OS|FileNotFound|Permission|NotImplemented|"
    r"Index|OutOfMemory|Safetensor|DistBackend|DistNetwork|DistStore|Compilation|PTXAS)Error: "
)
_BAR = re.compile(r"\d{1,3}%(?: Completed)? ?\|")
_BAR_END = re.compile(r"(?:it/s|s/it|B/s)(?:, [^\]]*)?\]")
_ACCESS = re.compile(
    r'^(?:INFO: +)?[\w.:\[\]-]+(?: - -)? (?:- )?"(?:GET|POST|PUT|HEAD|DELETE|OPTIONS|PATCH) \S+ HTTP/[\d.]+" \d{3}'
)
_REQUEST = re.compile(
    r"^(?:INFO: +)?(?:Receive: |Finish: |Received? (?:request|output)\b|Request \S+ (?:received|finished|aborted)|"
    r"Abort(?:ed)? request|obj=|Prompt: |Input: |User: |\{['\"](?!log['\"]))|GenerateReqInput\(|ChatCompletionRequest\("
)
_RUNTIME = re.compile(r"^(?:Prefill|Decode|Mixed|Extend|Verify) batch\b")
_ARGS = re.compile(r"^server_args=")
_FRAME_CUT = re.compile(r'^ {2}File "')
_CHAIN = re.compile(
    r"^(?:During handling of the above exception, another exception occurred:|"
    r"The above exception was the direct cause of the following exception:)$"
)
_TORCH = re.compile(r"^(?:\[rank(?P<rank>\d+)\]: ?)?\[(?P<level>[IWEF])\d{3,4} \d\d:\d\d:\d\d[.\d]* [\w.]+:\d+\] ")
_RANKED = re.compile(r"^\[rank(?P<rank>\d+)\]:(?: |$)")  # torch, before every line of what ended a process
_NCCL_SAID = r"^(?:\[[\d :.-]+\] )?[\w.-]+:\d+:\d+ \[(?P<dev>\d+)\] .*?NCCL (?:WARN|INFO|ERROR)\b"
_NCCL = re.compile(_NCCL_SAID + r"|^.{0,80}\bNCCL WARN\b")
_NCCL_TIMED = re.compile(_NCCL_SAID)  # NCCL 2.28 prints SGLang's form of time in front of its own
_USAGE = re.compile(r"^(?:usage: | {12,}\[--| {12,}--)")


@dataclass(frozen=True)
class Record:
    """One statement of one process. text: without prefix; shown: as printed, collector's wrapping removed."""

    line: int
    kind: str
    text: str
    shown: str
    rank: str | None = None
    time: str | None = None
    repeated: int = 0
    level: str = ""  # of torch's C++ log: I, W, E, F
    prefixed: bool = False
    cut: bool = False  # another process wrote into the middle of this line: its rest comes later

    @property
    def source(self) -> str:
        return "kernel" if self.kind == KERNEL else "log"


def parse(line: int, unwrapped: Unwrapped) -> Iterator[Record]:
    """The records of one line: bars joined by "\\r" and log text glued to them come apart."""
    if unwrapped.kernel:
        yield Record(line, KERNEL, unwrapped.text, unwrapped.text)
        return
    text = unwrapped.text
    if not text:
        yield Record(line, BLANK, "", "")
        return
    for piece in text.split("\r") if "\r" in text else (text,):
        if piece:
            parts = tuple(_unglue(piece))
            for number, part in enumerate(parts, 1):
                record = _record(line, part, unwrapped)
                yield replace(record, cut=True) if number < len(parts) and not record.prefixed else record


def _unglue(piece: str) -> Iterator[str]:
    """A log line that another process wrote into the middle of this one starts a part of its own."""
    if piece.startswith("[20"):
        head = _PREFIXED.match(piece)
        if head and (_ARGS.match(piece, head.end()) or not _may_be_cut(piece[head.end() :])):
            yield piece
            return
    start = 0
    for found in (_GLUED if not piece.startswith(" ") else _GLUED_CODE).finditer(piece):
        if found.start() > start:
            yield piece[start : found.start()]
        start = found.start()
    yield piece[start:]


def _may_be_cut(message: str) -> bool:
    """Whether a log message may hold another one: a traceback or a bar, never a request, arguments or a quotation."""
    return not any(mark in message for mark in ("'", '"', "`")) and not _REQUEST.match(message)


def _record(line: int, text: str, unwrapped: Unwrapped) -> Record:
    repeated = unwrapped.repeated
    found = _PREFIXED.match(text) if text.startswith("[2") else None
    if found:
        message = text[found.end() :]
        if "NCCL " in message and not found["rank"] and (said := _NCCL_TIMED.match(message)):
            level = "W" if "NCCL WARN" in message else "I"
            return Record(line, NATIVE, message, text, _tp(said["dev"]), found["time"], repeated, level)
        rank = found["rank"].strip() or None
        return Record(line, _log_kind(message), message, text, rank, found["time"], repeated, prefixed=True)
    if text.startswith("[rank") and (found := _RANKED.match(text)) and not _TORCH.match(text):
        return _ranked(line, text, text[found.end() :], _tp(found["rank"]), repeated)
    if unwrapped.time and text[0] != " " and text == unwrapped.text:
        kind = _log_kind(text)
        return Record(line, kind, text, text, unwrapped.rank, unwrapped.time, repeated, prefixed=True)
    kind, rank, level = _bare_kind(text)
    return Record(line, kind, text, text, rank, None, repeated, level)


def _ranked(line: int, text: str, said: str, rank: str | None, repeated: int) -> Record:
    kind = _bare_kind(said)[0] if said else BLANK
    if kind not in (TRACEBACK, FRAME, CODE, CHAIN, BLANK):
        kind = PLAIN
    return Record(line, kind, said, text, rank, None, repeated)


def _is_bar(text: str) -> bool:
    return "%" in text and _BAR.search(text) is not None and (_BAR_END.search(text) is not None or "?" in text)


def _is_traceback(text: str) -> bool:
    return "Traceback (most recent call last):" in text and len(text) < 200


# In this order: what quotes users comes before what their words could look like.
_MESSAGES: tuple[tuple[str, Callable[[str], object]], ...] = (
    (ARGS, _ARGS.match),
    (RUNTIME, _RUNTIME.match),
    (ACCESS, _ACCESS.match),
    (REQUEST, _REQUEST.search),
    (TRACEBACK, lambda text: text.endswith("Traceback (most recent call last):")),
    (BAR, _is_bar),
)
_INDENTED: tuple[tuple[str, Callable[[str], object]], ...] = (
    (FRAME, _FRAME_CUT.match),
    (BLANK, str.isspace),
    (BAR, lambda text: "%" in text and _BAR.search(text)),
    (USAGE, _USAGE.match),
)
_BARE: tuple[tuple[str, Callable[[str], object]], ...] = (
    (BAR, _is_bar),
    (TRACEBACK, _is_traceback),
    (CHAIN, _CHAIN.match),
    (ARGS, _ARGS.match),
    (USAGE, _USAGE.match),
    (RUNTIME, _RUNTIME.match),
    (ACCESS, _ACCESS.match),
    (REQUEST, _REQUEST.search),
)


def _first(table: tuple[tuple[str, Callable[[str], object]], ...], text: str, otherwise: str) -> str:
    return next((kind for kind, test in table if test(text)), otherwise)


def _log_kind(message: str) -> str:
    return _first(_MESSAGES, message, LOG)


def _bare_kind(text: str) -> tuple[str, str | None, str]:
    """Kind, rank and level of a line without SGLang's prefix."""
    if text[0] == " ":
        return _first(_INDENTED, text, CODE), None, ""
    if text[0] == "[" and (found := _TORCH.match(text)):
        return NATIVE, _tp(found["rank"]), found["level"]
    if "NCCL" in text and (found := _NCCL.match(text)):
        return NATIVE, _tp(found["dev"]), "W" if "NCCL WARN" in text else "I"
    return _first(_BARE, text, PLAIN), None, ""


def _tp(number: str | None) -> str | None:
    return f"TP{number}" if number is not None else None
