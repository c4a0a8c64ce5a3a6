"""The catalogue of signatures: every YAML file of the project's `signatures` folders, checked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from sglfab.diagnosis import attention, pages, reading
from sglfab.diagnosis.needles import Needles
from sglfab.diagnosis.signature import KINDS, Pattern, Signature
from sglfab.errors import InputError
from sglfab.logs.literals import Screen
from sglfab.project import Project

_OUTSIDE = frozenset(KINDS) - {"exception", "code"}  # those two stand inside of tracebacks, where every line is read


@dataclass(frozen=True)
class Catalogue:
    """Signatures by id; the team's own replace ours of the same id."""

    signatures: Mapping[str, Signature]

    @cached_property
    def needles(self) -> Needles[tuple[Signature, Pattern, str]]:
        """All patterns by their needles: (signature, pattern, role of the pattern: match, also or unless)."""
        entries = [
            (needle, (signature, pattern, role))
            for signature in self.signatures.values()
            if not signature.retired
            for role, patterns in _patterns(signature)
            for pattern in patterns
            for needle in pattern.needles
        ]
        return Needles(entries)

    @cached_property
    def _screens(self) -> dict[frozenset[str], Screen]:
        return {}

    def screen(self, done: frozenset[str]) -> Screen:
        """What makes a line worth reading outside of tracebacks; `done`: signatures that can learn nothing more."""
        if done not in self._screens:
            literals = [
                needle
                for signature in self.signatures.values()
                if signature.id not in done
                for _, patterns in _patterns(signature)
                for pattern in patterns
                if _OUTSIDE.intersection(pattern.kinds)
                for needle in pattern.needles
            ]
            self._screens[done] = Screen((*literals, *attention.TEXTS))
        return self._screens[done]

    def __getitem__(self, id_: str) -> Signature:
        try:
            return self.signatures[id_]
        except KeyError:
            near = reading.closest(id_, self.signatures)
            raise InputError(
                "finding-unknown",
                f"no finding is called {id_!r}",
                where="fab explain",
                try_=f"fab explain {near}" if near else "fab explain memory.kv_pool",
            ) from None


def _patterns(signature: Signature) -> Iterable[tuple[str, tuple[Pattern, ...]]]:
    yield "match", signature.patterns
    yield "also", signature.when.also
    yield "unless", signature.when.unless


def load(project: Project) -> Catalogue:
    """Read every signature. Raises InputError."""
    found: dict[str, Signature] = {}
    for path in project.listing("signatures", "*/*.yaml"):
        signature = reading.read(project, path)
        found[signature.id] = signature
    _check_links(found)
    return Catalogue(dict(sorted(found.items())))


def _check_links(found: Mapping[str, Signature]) -> None:
    for signature in found.values():
        for other in signature.yields_to:
            if other not in found:
                near = reading.closest(other, found)
                raise InputError(
                    "signature-unknown-link",
                    f"{signature.id} yields to {other!r}, which is no signature",
                    where=signature.path,
                    try_=near or "remove it",
                )


UNKNOWN = """# unknown

The server ended, and no signature of the catalogue knows why.

The evidence is the first cause line of the log, and nothing is guessed beyond it.
"Nearest known findings" share words with it; read their pages before you believe them.

What to do
- read the first cause line, the frames above it and the lines around it
- add a signature of your team: `signatures/` in the folder that SGLFAB_CONFIGS names, written as in configs/signatures/
"""


def page(catalogue: Catalogue, id_: str) -> str:
    """The page of one finding, as Markdown. Raises InputError for an unknown id."""
    return UNKNOWN if id_ == "unknown" else pages.page_of(catalogue[id_])
