"""Records → matches: which pattern of which signature a line hits, with what stood around it."""

from __future__ import annotations

from dataclasses import dataclass, field

from sglfab.diagnosis.catalogue import Catalogue
from sglfab.diagnosis.signature import Pattern, Signature
from sglfab.logs import records
from sglfab.logs.records import Record
from sglfab.logs.tracebacks import Failure, Placed

KEEP = 16  # matches kept of one pattern; the others are only counted
_KIND_OF = {
    records.LOG: "log",
    records.NATIVE: "native",
    records.PLAIN: "plain",
    records.CODE: "plain",
    records.KERNEL: "kernel",
    records.ACCESS: "access",
    records.RUNTIME: "runtime",
    records.BAR: "bar",
}


@dataclass(frozen=True)
class Match:
    """One line that hit a pattern. epoch: how often the overall stage had changed by then."""

    signature: Signature
    pattern: int
    record: Record
    failure: Failure | None
    captures: dict[str, str]
    stage: str
    draft: bool
    epoch: int


@dataclass
class Matcher:
    """All matches of one run, bounded."""

    catalogue: Catalogue
    matches: dict[str, list[Match]] = field(default_factory=dict)
    counts: dict[tuple[str, int], int] = field(default_factory=dict)
    others: dict[tuple[str, str, int], dict[str, str]] = field(default_factory=dict)  # also, unless: first captures
    transient: dict[str, int] = field(default_factory=dict)  # the last line of signatures that may be survived
    done: frozenset[str] = frozenset()  # signatures for which more lines change nothing

    def feed(self, record: Record, placed: Placed | None, *, stage: str, draft: bool, epoch: int) -> None:
        kind = kind_of(record, placed)
        if kind is None:
            return
        for signature, pattern, role in self.catalogue.needles.in_text(record.text):
            if kind not in pattern.kinds or signature.id in self.done:
                continue
            found = pattern.compiled.search(record.text)
            if not found:
                continue
            captures = {k.rstrip("0123456789"): v.strip() for k, v in found.groupdict().items() if v}
            if role != "match":
                index = getattr(signature.when, role).index(pattern)
                self.others.setdefault((signature.id, role, index), captures)
                if role == "unless":
                    self.done |= {signature.id}
                continue
            index = signature.patterns.index(pattern)
            count = self.counts.get((signature.id, index), 0) + 1
            self.counts[signature.id, index] = count
            if signature.transient:
                self.transient[signature.id] = record.line
            if count <= KEEP:
                failure = placed.failure if placed else None
                match = Match(signature, index, record, failure, captures, stage, draft, epoch)
                self.matches.setdefault(signature.id, []).append(match)
            elif not signature.when.unless and not signature.transient and len(signature.patterns) == 1:
                self.done |= {signature.id}


def kind_of(record: Record, placed: Placed | None) -> str | None:
    """The kind of line as signatures name it; None for text that never tells a cause (prompts, arguments, hints)."""
    if placed:
        if placed.role in ("raised", "detail"):
            return "exception"
        return "code" if placed.role == "frame" and record.kind == records.CODE else None
    if record.kind == records.NATIVE and record.level == "I":
        return None
    return _KIND_OF.get(record.kind)


def pattern_of(match: Match) -> Pattern:
    return match.signature.patterns[match.pattern]
