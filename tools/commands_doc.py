"""docs/commands.md from the tasks themselves: `python tools/commands_doc.py` writes it, `--check` compares."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

HEAD = """# Commands

Made by `python tools/commands_doc.py` from the tasks' own help; a test compares.
Core flags of Fabric keep their meaning: `-H host[,host]`, `-R` (the same as `--dry-run`), `-i`, `-S`, `-t`, `-r CLONE`.
Exit codes and the JSON contract: [architecture.md](architecture.md) and the README.
"""
START, END = "<!-- commands -->", "<!-- /commands -->"


def tasks() -> list:
    from tasks import namespace

    return [namespace.tasks[name] for name in sorted(namespace.tasks)]


def table() -> str:
    """One row a command, for the README."""
    rows = [f"| `fab {_name(task)}` | {_summary(task)} |" for task in tasks()]
    return "\n".join(["| command | does |", "|---|---|", *rows])


def page() -> str:
    """The whole docs/commands.md."""
    return HEAD + "".join(_section(task) for task in tasks())


def _name(task) -> str:
    return task.name.replace("_", "-")


def _summary(task) -> str:
    return (task.__doc__ or "").strip().splitlines()[0]


def _section(task) -> str:
    flags = [f"| `{_flag(arg)}` | {arg.help} |" for arg in task.get_arguments()]
    return "\n".join(["", f"## fab {_name(task)}", "", _summary(task), "", "| flag | means |", "|---|---|", *flags, ""])


def _flag(arg) -> str:
    from invoke.parser.context import to_flag

    shown = to_flag(arg.name)
    return shown if arg.kind is bool else f"{shown} {arg.name.replace('_', '-').upper()}"


def filled(readme: str) -> str:
    """The README with its table of commands made anew."""
    before, rest = readme.split(START)
    return before + START + "\n" + table() + "\n" + END + rest.split(END)[1]


def main() -> int:
    wanted = {ROOT / "docs/commands.md": page(), ROOT / "README.md": filled((ROOT / "README.md").read_text())}
    if "--check" in sys.argv:
        stale = [str(path) for path, text in wanted.items() if path.read_text() != text]
        print("stale: " + ", ".join(stale) if stale else "current")
        return 1 if stale else 0
    for path, text in wanted.items():
        path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
