"""What must hold of the repository as a whole: its documents' command lines, its pins, its silence about hosts."""

from __future__ import annotations

import re
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from invoke.exceptions import ParseError
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from sglfab.testing.fab_lines import FabLine, fab_lines, parse
from tasks import namespace

ROOT = Path(__file__).resolve().parents[1]

# In pieces, so that this file does not name them.
REGISTRY_HOSTS = re.compile(
    "|".join(
        re.escape(name + "." + domain)
        for name, domain in (
            *(("pypi", "org"), ("pythonhosted", "org"), ("download.pytorch", "org"), ("registry.npmjs", "org")),
            *(("deb.debian", "org"), ("archive.ubuntu", "com"), ("proxy.golang", "org"), ("crates", "io")),
        )
    ),
    re.IGNORECASE,
)


def tracked() -> list[Path]:
    """Every file that git has or would add."""
    ask = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(ask, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    return [path for name in names if (path := ROOT / name).is_file()]


def test_no_file_names_a_package_registry() -> None:
    texts = ((p, p.read_text(encoding="utf-8", errors="replace")) for p in tracked())
    assert [str(p.relative_to(ROOT)) for p, text in texts if REGISTRY_HOSTS.search(text)] == []


@pytest.mark.parametrize("name", ["pypi", "download.pytorch", "deb.debian"])
def test_the_pattern_for_registries_finds_one(name: str) -> None:
    assert REGISTRY_HOSTS.search("see https://" + name + ".org/simple")


def documents() -> Iterator[Path]:
    yield from (p for p in tracked() if p.suffix == ".md" and (p.parent == ROOT or p.is_relative_to(ROOT / "docs")))


def complaint(found: FabLine) -> str | None:
    """What Fabric has against the line. In running text `fab TASK` is the task's name, and needs no arguments."""
    if not found.typed and len(found.words) == 1 and found.words[0] in namespace.task_names:
        return None
    try:
        parse(found.words, namespace)
    except ParseError as why:
        return str(why)
    return None


def test_every_fab_line_of_the_documents_is_one_that_fabric_parses() -> None:
    lines = [(path, found) for path in documents() for found in fab_lines(path.read_text(encoding="utf-8"))]
    wrong = [f"{p.relative_to(ROOT)}:{f.line}: {f.text}: {why}" for p, f in lines if (why := complaint(f))]
    assert "\n".join(wrong) == ""
    assert len(lines) >= 20  # the documents are read at all


@pytest.mark.parametrize(
    ("text", "known"), [("`fab explain`", True), ("    fab explain", False), ("`fab lunch`", False)]
)
def test_naming_a_task_is_not_typing_it(text: str, known: bool) -> None:
    (found,) = fab_lines(text)
    assert (complaint(found) is None) is known


def test_the_readme_has_fab_lines() -> None:
    assert any(fab_lines((ROOT / "README.md").read_text(encoding="utf-8")))


UNKNOWN = {
    "an unknown task": "lunch --profile eagle3",
    "an unknown flag": "launch --profil eagle3",
    "an unknown core flag": "--hostz gpu1 launch --profile eagle3",
    "a flag of another task": "stop --set args.tp-size=4",
    "a positional argument": "explain memory.kv_pool extra",
}


@pytest.mark.parametrize("case", UNKNOWN)
def test_line_that_fabric_does_not_know_is_caught(case: str) -> None:
    with pytest.raises(ParseError):
        parse(tuple(UNKNOWN[case].split()), namespace)


KNOWN = {
    "hosts before the task": ("-H gpu1,gpu2 launch --profile eagle3-debug", ("launch",)),
    "a dry run": ("-R launch --profile eagle3", ("launch",)),
    "the list": ("--list", ()),
    "a clone elsewhere": ("-r CLONE stop", ("stop",)),
    "its options' help": ("--help launch", ()),
    "two tasks in a row": ("stop status", ("stop", "status")),
    "a short flag": ("logs -f", ("logs",)),
}


@pytest.mark.parametrize("case", KNOWN)
def test_line_that_fabric_knows_is_left_alone(case: str) -> None:
    line, names = KNOWN[case]
    assert parse(tuple(line.split()), namespace) == names


EXTRACTED = {
    "a fenced block, with a prompt": ("```console\n$ fab stop\nstopped\n```", ["fab stop"]),
    "a fenced block without a prompt": ("```\nfab stop\n```", ["fab stop"]),
    "an indented block": ("Text:\n\n    $ fab stop\n    stopped", ["fab stop"]),
    "variables before it": ("    $ SGLFAB_OPERATOR=ada fab -H gpu1 stop", ["fab -H gpu1 stop"]),
    "a pipe after it": ("    $ fab status --json | jq .run", ["fab status --json"]),
    "a comment after it": ("    fab stop   # now", ["fab stop"]),
    "a redirection after it": ("    fab logs > server.txt", ["fab logs"]),
    "a line that goes on": ("    fab launch \\\n        --profile eagle3", ["fab launch --profile eagle3"]),
    "a code span": ("Type `fab stop` or `fab runs --prune`.", ["fab stop", "fab runs --prune"]),
    "quotes": ("    fab launch --set 'env.A=x y'", ["fab launch --set 'env.A=x y'"]),
    "plain text": ("We use fab stop to stop it.", []),
    "a way of speaking": ("Quote `fab …` lines, such as `fab -r CLONE …`.", []),
    "another program": ("    $ fabulous stop", []),
    "text after a closed fence": ("```\nx\n```\nfab stop", []),
}


@pytest.mark.parametrize("case", EXTRACTED)
def test_extraction(case: str) -> None:
    markdown, expected = EXTRACTED[case]
    assert [line.text for line in fab_lines(markdown)] == expected


# --- pins -------------------------------------------------------------------------------------------------------------


def pins() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pairs = (line.split("==") for line in lines if line and not line.startswith("#"))
    return {canonicalize_name(name): version for name, version in pairs}


def test_every_dependency_is_locked_within_its_range() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    needs = [Requirement(r) for r in [*project["dependencies"], *project["optional-dependencies"]["dev"]]]
    locked = pins()
    assert [n.name for n in needs if canonicalize_name(n.name) not in locked] == []
    assert [n.name for n in needs if not n.specifier.contains(locked[canonicalize_name(n.name)])] == []


def test_make_has_the_targets_of_the_issue() -> None:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", text, re.M))
    assert {"demo", "test", "test-all", "check", "bench", "docs", "fmt", "clean"} <= targets


def test_ci_makes_test_and_demo() -> None:
    text = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert text.startswith("#!/bin/bash\n")
    assert "\nset -euo pipefail\n" in text
    assert re.search(r"^make test\b", text, re.M)
    assert re.search(r"^make demo\b", text, re.M)
