"""Writes docs/signatures/: one page a finding, from configs/signatures. `--check` only tells what is not current."""

from __future__ import annotations

import sys
from pathlib import Path

from sglfab.diagnosis import catalogue
from sglfab.diagnosis.signature import shown
from sglfab.project import Project

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "signatures"


def pages(root: Path = ROOT) -> dict[str, str]:
    """File name → text of every page, README.md with the list among them."""
    found = catalogue.load(Project(root))
    texts = {f"{id_}.md": catalogue.page(found, id_) for id_ in found.signatures}
    return texts | {"README.md": _index(found)}


def _index(found: catalogue.Catalogue) -> str:
    rows = [f"| [{s.id}]({s.id}.md) | {s.severity} | {shown(s.title)} |" for s in found.signatures.values()]
    head = (
        "# Findings\n\nGenerated from `configs/signatures` by `tools/signature_pages.py`.\n"
        "`fab explain ID` shows a page.\n\n"
    )
    return head + "| id | severity | what it says |\n|---|---|---|\n" + "\n".join(rows) + "\n"


def stale(root: Path = ROOT) -> list[str]:
    """Pages that are missing, differ, or belong to no signature."""
    wanted = pages(root)
    folder = root / "docs" / "signatures"
    there = {p.name: p.read_text(encoding="utf-8") for p in folder.glob("*.md")}
    return sorted(name for name in wanted.keys() | there.keys() if wanted.get(name) != there.get(name))


def main(argv: list[str]) -> int:
    if "--check" in argv:
        for name in stale():
            print(f"not current: docs/signatures/{name}")
        return 1 if stale() else 0
    FOLDER.mkdir(parents=True, exist_ok=True)
    wanted = pages()
    for path in FOLDER.glob("*.md"):
        if path.name not in wanted:
            path.unlink()
    for name, text in wanted.items():
        (FOLDER / name).write_text(text, encoding="utf-8")
    print(f"{len(wanted)} pages in {FOLDER.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
