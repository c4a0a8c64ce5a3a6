"""Lines of README and runbooks that need no server are really typed; the exit code is what the page promises."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from sglfab.testing.fab import Fab

ROOT = Path(__file__).resolve().parents[2]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs" / "runbooks").glob("*.md")))

# line → exit code, on a machine where no server of ours runs
TYPED = {
    "fab profiles": 0,
    "fab render --profile eagle3": 0,
    "fab render --profile eagle3 --release 0.5.12": 0,
    "fab explain memory.kv_pool": 0,
    "fab status": 0,
    "fab stop": 0,
    "fab wait-health": 2,
}


@pytest.fixture(scope="module")
def typed(tmp_path_factory) -> Fab:
    return Fab(env={"SGLFAB_STATE_DIR": str(tmp_path_factory.mktemp("state"))})


@pytest.mark.parametrize("line", list(TYPED))
def test_a_line_of_the_pages_does_what_they_say(typed, line):
    assert any(line in page.read_text() for page in PAGES), f"no page has: {line}"
    done = typed(*shlex.split(line)[1:])
    assert done.code == TYPED[line], done
    assert done.said.strip()
    assert "Traceback" not in done.err
