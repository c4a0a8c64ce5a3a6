"""A patch set on several hosts: the same bytes on every one of them, or none patched."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TypeVar

from sglfab.errors import PatchError, SglfabError
from sglfab.flows.identity import Operator
from sglfab.flows.patch import Patched, Preview, carry_out, locked, preview, take_back
from sglfab.patching.manifest import Entry
from sglfab.project import Project
from sglfab.transports.host import Host

T = TypeVar("T")


@dataclass(frozen=True)
class Place:
    """A host; how to ask it for the folder that holds sglang/ (None: the interpreter's own), and for its draft."""

    host: Host
    sglang_path: Callable[[], str | None]
    draft: Callable[[], Sequence[str]] = tuple

    def preview(self, project: Project, names: Sequence[str], path: str | None) -> Preview:
        return preview(project, self.host, names, sglang_path=path, draft=self.draft())


def preview_all(project: Project, places: Sequence[Place], names: Sequence[str]) -> list[Preview | SglfabError]:
    """What patching them would do, or, for every place, why none is patched."""
    seen = _each(places, lambda place: place.preview(project, names, place.sglang_path()))
    return list(_refusals(places, seen) or seen)


def patch_all(
    project: Project, places: Sequence[Place], names: Sequence[str], *, operator: Operator
) -> list[Patched | SglfabError]:
    """Lock all, look at all, compare, then write one after the other; a failure takes back what was written before.

    The answer of each place, in their order: what was done, or why it is not patched.
    """
    with ExitStack() as locks:

        def look(place: Place) -> Preview:
            path = place.sglang_path()
            locks.enter_context(locked(project, place.host, path, operator, "patch-debug"))
            return place.preview(project, names, path)

        seen = _each(places, look)
        refused = _refusals(places, seen)
        return list(refused) if refused else _Writes(project, places, names, operator).all(_entries(seen[0]))


class _Writes:
    """The second phase, and its way back."""

    def __init__(self, project: Project, places: Sequence[Place], names: Sequence[str], operator: Operator) -> None:
        self._project, self._places, self._names, self._operator = project, places, names, operator
        self._begun: list[tuple[Host, Preview]] = []

    def all(self, wanted: tuple[Entry, ...]) -> list[Patched | SglfabError]:
        done: list[Patched | SglfabError] = []
        for place in self._places:
            try:
                done.append(self._one(place, wanted))
            except SglfabError as error:
                left = self._take_back()
                return [error if p is place else left.get(p.host.label) or _because(place, error) for p in self._places]
            except BaseException:  # Ctrl-C: half of the hosts is none of the two ends that were promised
                self._take_back()
                raise
        return done

    def _one(self, place: Place, wanted: tuple[Entry, ...]) -> Patched:
        """Looked at once more: where hosts share one install, what the first wrote is there for the others."""
        seen = place.preview(self._project, self._names, place.sglang_path())
        if _entries(seen) != wanted:
            what = "its files changed while the hosts were compared"
            raise PatchError("patch-drift", what, where=place.host.label, try_="fab patch-status")
        self._begun.append((place.host, seen))
        return carry_out(place.host, seen, self._operator)

    def _take_back(self) -> dict[str, SglfabError]:
        """Undo, the last first. By label: the hosts where that failed.

        The one whose write failed is tried as well: a lost connection does not tell whether it was written. Where it
        was not, its files are not as they would be after it, and that refuses the undoing.
        """
        left: dict[str, SglfabError] = {}
        for host, seen in reversed(self._begun):
            try:
                take_back(host, seen, self._operator)
            except SglfabError as error:
                what = f"it is still patched: taking it back failed: {error.what}"
                left[host.label] = PatchError("patch-left-behind", what, where=host.label, try_="fab unpatch-debug")
        return left


def _each(places: Sequence[Place], act: Callable[[Place], T]) -> list[T | SglfabError]:
    """All of them, whatever the others answered."""
    results: list[T | SglfabError] = []
    for place in places:
        try:
            results.append(act(place))
        except SglfabError as error:
            results.append(error)
    return results


def _refusals(places: Sequence[Place], seen: Sequence[Preview | SglfabError]) -> list[SglfabError]:
    """An error for every place where one of them cannot be patched, or where they differ; empty: all may be patched."""
    failed = next(((p, found) for p, found in zip(places, seen, strict=True) if isinstance(found, SglfabError)), None)
    if failed:
        return [found if isinstance(found, SglfabError) else _because(*failed) for found in seen]
    ways = {_entries(found): place.host.label for place, found in zip(places, seen, strict=True)}
    return [_differ(ways, place.host.label) for place in places] if len(ways) > 1 else []


def _entries(seen: Preview | SglfabError) -> tuple[Entry, ...]:
    if isinstance(seen, SglfabError) or seen.writing.manifest is None:
        return ()
    return seen.writing.manifest.entries


def _because(place: Place, error: SglfabError) -> PatchError:
    what = f"not patched, because {place.host.label} could not be: {error.what}"
    return PatchError("patch-not-everywhere", what, where=error.where, try_=error.try_)


def _differ(ways: dict[tuple[Entry, ...], str], label: str) -> PatchError:
    (one, first), (other, second), *_ = ways.items()
    pairs = ((a, b) for a, b in zip(one, other, strict=False) if a != b)
    a, b = next(pairs, (None, None))
    what = f"{first} and {second} have different files to patch"
    if a and b:
        what += f": {a.path} is {a.original_sha256[:12]} on {first}, {b.original_sha256[:12]} on {second}"
    return PatchError("patch-hosts-differ", what, where=label, try_="the same SGLang everywhere, or one host a call")
