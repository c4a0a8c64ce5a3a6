"""The diagnosis of a log file alone: the same fold as a live wait, with log observations only."""

from __future__ import annotations

from collections.abc import Iterable

from sglfab.diagnosis.catalogue import Catalogue
from sglfab.diagnosis.expectation import Expectation
from sglfab.diagnosis.judge import Judge
from sglfab.model import Verdict


def diagnose(catalogue: Catalogue, chunks: Iterable[bytes], *, path: str, sglang_version: str | None = None) -> Verdict:
    """The verdict on the last run in a log. path: as the operator named it, for the notes."""
    judge = Judge(catalogue, expect=Expectation(sglang_version=sglang_version))
    for chunk in chunks:
        judge.feed_log(chunk)
    return judge.offline_verdict(path)
