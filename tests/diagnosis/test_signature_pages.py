"""One page a finding, current with the catalogue."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from sglfab.diagnosis import catalogue
from sglfab.errors import InputError
from sglfab.project import Project

ROOT = Path(__file__).resolve().parents[2]


def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("signature_pages", ROOT / "tools" / "signature_pages.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_pages_are_current() -> None:
    assert tool().stale() == [], "run: .venv/bin/python tools/signature_pages.py"


def test_a_page_tells_what_to_do_and_when_that_is_wrong() -> None:
    page = catalogue.page(catalogue.load(Project(ROOT)), "memory.cuda_graph")
    assert "lower mem-fraction-static" in page
    assert "When this advice is wrong" in page
    assert "OutOfMemoryError" in page


def test_an_unknown_id_names_the_nearest_one() -> None:
    with pytest.raises(InputError) as raised:
        catalogue.page(catalogue.load(Project(ROOT)), "memory.cudagraph")
    assert raised.value.code == "finding-unknown"
    assert "memory.cuda_graph" in raised.value.try_
