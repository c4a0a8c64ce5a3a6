"""The trace files of the patches, counted as they grow: is the probe active on every rank, and does it write?"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from typing import Any, Callable, Dict, List

from sglfab.hostside.reading import first_part, trace_files

Json = Dict[str, Any]
Put = Callable[[str, Json], None]
_PIECE = 4 << 20
_PROOF = re.compile(rb'"kind":\s*"proof"')
_RECORD = re.compile(rb'"kind":\s*"record"')
_ROLE = re.compile(rb'"role":\s*"([\w-]+)"')


class TraceWatch:
    """Puts `trace` when a count changed."""

    def __init__(self, run_dir: str, put: Put) -> None:
        self._dir, self._put = run_dir, put
        self._traces: Dict[str, RankTrace] = {}

    def poll(self) -> None:
        changed = False
        for rank, path in trace_files(self._dir):
            trace = self._traces.setdefault(first_part(path), RankTrace(str(rank)))
            changed |= trace.read(path)
        if changed:
            ranks = sorted({trace.rank for trace in self._traces.values()}, key=int)
            self._put("trace", {"ranks": {rank: self._shape(rank) for rank in ranks}})

    def _shape(self, rank: str) -> Json:
        """Data-parallel replicas have files of the same rank: proven when each is, and counted together."""
        traces = [trace for trace in self._traces.values() if trace.rank == rank]
        return {
            "proof": all(trace.proof for trace in traces),
            "wrapped": min(trace.wrapped for trace in traces),
            "missing": sorted({str(name) for trace in traces for name in trace.missing}),
            "records": dict(sum((trace.records for trace in traces), Counter())),
        }


class RankTrace:
    """What one process of a rank wrote, in all its parts: the last proof line, and how many records of each role."""

    def __init__(self, rank: str) -> None:
        self.rank = rank
        self.records: "Counter[str]" = Counter()
        self.proof, self.wrapped = False, 0
        self.missing: List[Any] = []
        self._offsets: "Counter[str]" = Counter()

    def read(self, path: str) -> bool:
        """Count the whole lines of this part that are new; at most 4 MiB a call. True when there were any."""
        try:
            with open(path, "rb") as file:
                if os.fstat(file.fileno()).st_size == self._offsets[path]:
                    return False
                file.seek(self._offsets[path])
                data = file.read(_PIECE)
        except OSError:
            return False
        whole = data[: data.rfind(b"\n") + 1]
        self._offsets[path] += len(whole)
        self._count(whole)
        return bool(whole)

    def _count(self, lines: bytes) -> None:
        for line in lines.splitlines():
            if _RECORD.search(line, 0, 400):
                self.records[_role(line)] += 1
            elif _PROOF.search(line):
                self._note_proof(line)

    def _note_proof(self, line: bytes) -> None:
        try:
            value = json.loads(line.decode("utf-8", "replace"))
        except ValueError:
            return
        if isinstance(value, dict):
            self.proof, self.wrapped, self.missing = (
                True,
                int(value.get("wrapped") or 0),
                list(value.get("missing") or []),
            )


def _role(line: bytes) -> str:
    match = _ROLE.search(line)
    return match.group(1).decode("ascii") if match else "unknown"
