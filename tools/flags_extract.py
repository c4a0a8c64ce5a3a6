"""Read the launch flags of released SGLang wheels into configs/sglang/flags.json, by AST only.

    .venv/bin/python tools/flags_extract.py            # every final and post from 0.4.6 on, wheels cached
    .venv/bin/python tools/flags_extract.py --check    # fail when the file differs from what the wheels say

How ServerArgs declares its flags changed twice (0.5.14, 0.5.20): `parser.add_argument` calls, then annotated
dataclass fields in server_args.py, then annotated fields of namespace classes in arg_groups/fields/. One reader
takes all three.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from sglfab.flows.wheels import wheel
from sglfab.sglang.releases import in_order, parse
from tools.flags_ast import flags_of_sources

OUT = Path(__file__).resolve().parent.parent / "configs" / "sglang" / "flags.json"
OLDEST = "0.4.6"


def released(oldest: str) -> tuple[str, ...]:
    """The finals and posts that pip knows, from `oldest` on."""
    text = subprocess.run(
        [sys.executable, "-m", "pip", "index", "versions", "sglang"], capture_output=True, text=True, check=True
    ).stdout
    line = next(line for line in text.splitlines() if line.startswith("Available versions:"))
    names = [v.strip() for v in line.partition(":")[2].split(",")]
    return in_order(v for v in names if parse(v) >= parse(oldest) and not parse(v).is_prerelease)


def sources(path: Path) -> dict[str, str]:
    """The modules that declare flags: name in the wheel → text."""
    with zipfile.ZipFile(path) as archive:
        return {n: archive.read(n).decode() for n in archive.namelist() if declares_flags(n)}


def declares_flags(name: str) -> bool:
    folder = "sglang/srt/arg_groups/"
    return name == "sglang/srt/server_args.py" or (name.startswith(folder) and name.endswith(".py"))


def canonical_names(by_release: dict[str, list[dict]]) -> dict[str, str]:
    """Every spelling ever → the name that we use: the first name of the newest release that has the spelling."""
    names: dict[str, str] = {}
    for release in reversed(by_release):
        for flag in by_release[release]:
            known = next((names[n] for n in flag["names"] if n in names), flag["names"][0])
            for spelling in flag["names"]:
                names.setdefault(spelling, known)
    return names


def spans(by_release: dict[str, list[dict]]) -> dict[str, list[dict]]:
    """Canonical name → spans of consecutive releases in which the flag looked the same, oldest first."""
    names = canonical_names(by_release)
    out: dict[str, list[dict]] = {}
    previous: str | None = None
    for release, flags in by_release.items():
        for flag in flags:
            name = names[flag["names"][0]]
            shape = {k: v for k, v in flag.items() if k != "names"}
            aliases = sorted(set(flag["names"]) - {name})
            shape = {**({"aliases": aliases} if aliases else {}), **shape}
            if name not in flag["names"]:
                shape["spelled"] = flag["names"][0]
            grow(out.setdefault(name, []), shape, release=release, previous=previous)
        previous = release
    return out


def grow(found: list[dict], shape: dict, *, release: str, previous: str | None) -> None:
    """Extend the last span when it reached the previous release with the same shape; else begin one."""
    last = found[-1] if found else None
    if last and last["to"] == release:
        raise SystemExit(f"{release}: two flags share one canonical name: {last} and {shape}")
    if last and last["to"] == previous and {k: v for k, v in last.items() if k not in ("from", "to")} == shape:
        last["to"] = release
    else:
        found.append({"from": release, "to": release, **shape})


def dump(releases: tuple[str, ...], flags: dict[str, list[dict]]) -> str:
    """One flag a line, so that a new release shows as a readable diff."""

    def short(value: object) -> str:
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False)

    lines = ",\n".join(f"    {short(name)}: {short(flags[name])}" for name in sorted(flags))
    head = f'  "generated_by": "tools/flags_extract.py",\n  "releases": {short(releases)},\n  "flags": {{\n'
    return f"{{\n{head}{lines}\n  }}\n}}\n"


def extract(releases: tuple[str, ...]) -> Iterator[tuple[str, list[dict]]]:
    for release in releases:
        flags = flags_of_sources(sources(wheel(release)))
        print(f"{release}: {len(flags)} flags", file=sys.stderr)
        yield release, flags


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--oldest", default=OLDEST)
    options = parser.parse_args()
    releases = released(options.oldest)
    text = dump(releases, spans(dict(extract(releases))))
    if options.check:
        return 0 if OUT.read_text(encoding="utf-8") == text else 1
    OUT.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
