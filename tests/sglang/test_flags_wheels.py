"""flags.json against the released wheels themselves, two of each generation of ServerArgs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from sglfab.flows.wheels import wheel
from sglfab.project import Project
from sglfab.sglang.flags import Flag, read_flags
from tools.flags_ast import flags_of_sources
from tools.flags_extract import sources


@pytest.mark.slow
@pytest.mark.parametrize("release", ["0.4.6", "0.5.9", "0.5.14", "0.5.19", "0.5.20", "0.5.23"])
def test_the_list_is_that_of_the_wheel(release: str) -> None:
    declared = flags_of_sources(sources(wheel(release)))
    listed = read_flags(Project(Path(__file__).resolve().parents[2])).at(release)
    assert listed.basis.relation == "same"
    assert {f.spelled or f.name: (f.kind, f.nargs, f.deprecated) for f in listed.flags.values()} == {
        _canonical(flag["names"], listed.flags): (flag["kind"], flag.get("nargs"), flag.get("deprecated", False))
        for flag in declared
    }


def _canonical(names: list[str], flags: Mapping[str, Flag]) -> str:
    """The wheel's own first name may be an alias of ours (`tensor-parallel-size` until 0.5.13)."""
    return next((name for name in names if name in flags), names[0])
