"""The signatures nearest to a line that none of them knows."""

from __future__ import annotations

import re
from functools import lru_cache

from sglfab.diagnosis.catalogue import Catalogue
from sglfab.diagnosis.signature import Signature

_WORD = re.compile(r"[A-Za-z_]{4,}")
NEAR = 0.35
_COMMON = frozenset(
    (
        "error",
        "runtimeerror",
        "valueerror",
        "exception",
        "failed",
        "with",
        "this",
        "that",
        "from",
        "torch",
        "sglang",
        "file",
    )
)


def nearest(catalogue: Catalogue, text: str, *, limit: int = 3) -> tuple[str, ...]:
    """Ids that share the most words with the text, best first; empty when nothing is near."""
    asked = _words(text)
    scored = [
        (len(asked & (words := _signature_words(s))) / (len(words) + 4) ** 0.5, s.id)
        for s in catalogue.signatures.values()
    ]
    best = sorted((score, id_) for score, id_ in scored if score >= NEAR)
    return tuple(id_ for _, id_ in reversed(best[-limit:]))


@lru_cache(maxsize=1024)
def _words(text: str) -> frozenset[str]:
    return frozenset(w.lower() for w in _WORD.findall(text)) - _COMMON


def _signature_words(signature: Signature) -> frozenset[str]:
    return _words(" ".join((signature.title, *(n for p in signature.patterns for n in p.needles))))
