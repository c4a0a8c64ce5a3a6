"""Releases of SGLang: order, and which known release speaks for one that we have not read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from packaging.version import InvalidVersion, Version

from sglfab.errors import InputError
from sglfab.project import Project


def parse(text: str) -> Version:
    """The release as an ordered value: rc < final < post. Raises InputError where it is none."""
    try:
        return Version(text.strip())
    except InvalidVersion:
        raise InputError(
            "bad-release",
            f"'{text}' is not a release of SGLang",
            where="--release",
            try_="--release 0.5.12, or one such as 0.5.12.post1",
        ) from None


def in_order(releases: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(releases, key=parse))


def newest_known(project: Project) -> str:
    """The newest release whose flags were read (configs/sglang/flags.json)."""
    return str(project.sglang_facts("flags")["releases"][-1])


def asked(project: Project, text: str) -> str:
    """The release that an operator typed, as SGLang spells it. Raises InputError for one before the oldest known:
    against the flags of another generation half of a profile would be called wrong."""
    version = parse(text)
    oldest = str(project.sglang_facts("flags")["releases"][0])
    if version < parse(oldest):
        what = f"SGLang {version} is older than every release that fab knows ({oldest} to {newest_known(project)})"
        raise InputError("release-unknown", what, where="--release", try_=f"--release {oldest}")
    return str(version)


@dataclass(frozen=True)
class Basis:
    """The known release whose facts stand for `wanted`. relation: same, between, newer or older (than all known)."""

    wanted: str
    release: str
    relation: str

    def note(self) -> str | None:
        """What a person must know about it; None where the facts are of that very release."""
        if self.relation == "same":
            return None
        why = {
            "newer": f"SGLang {self.wanted} is newer than every release that fab knows",
            "older": f"SGLang {self.wanted} is older than every release that fab knows",
            "between": f"fab has not read SGLang {self.wanted}",
        }[self.relation]
        return f"{why}: checked against the flags of {self.release}"


def basis(wanted: str, known: Sequence[str]) -> Basis:
    """Which of `known` (oldest first) speaks for `wanted`: itself, the final of its rc, else the nearest lower."""
    version = parse(wanted)
    same = [r for r in known if parse(r) == Version(version.public)]
    final = [r for r in known if version.is_prerelease and r == version.base_version]
    lower = [r for r in known if parse(r) <= version]
    if same:
        return Basis(wanted, same[0], "same")
    if final:
        return Basis(wanted, final[0], "between")
    if not lower:
        return Basis(wanted, known[0], "older")
    return Basis(wanted, lower[-1], "newer" if lower[-1] == known[-1] else "between")
