"""`python -m sglfab.testing.demo [--standin]`: 0 when every step went as expected, 1 otherwise."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from sglfab.testing.cpu.layout import default_kit
from sglfab.testing.demo.setting import ROOT, Setting, real_setting, standin_setting
from sglfab.testing.demo.story import Unexpected, clean_up, tell

EXIT_UNAVAILABLE = 3
MARK = ".made-by-the-demo"


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m sglfab.testing.demo", description=__doc__)
    parser.add_argument("--standin", action="store_true", help="do not install SGLang, use the scripted stand-in")
    parser.add_argument("--folder", type=Path, default=ROOT / ".demo", help="what the demo writes (default .demo)")
    args = parser.parse_args(argv)
    folder = args.folder.resolve()
    try:
        empty(folder)
    except FileExistsError as why:
        print(why, file=sys.stderr)
        return 2
    setting = choose(folder, standin=args.standin, environ=os.environ)
    if setting is None:
        return 1
    return run(setting)


def empty(folder: Path) -> None:
    """Make the folder anew. Raises FileExistsError for one that no demo made."""
    mark = folder / MARK
    if folder.exists() and any(folder.iterdir()) and not mark.exists():
        raise FileExistsError(f"{folder} is not empty and no demo made it; name another with --folder")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    mark.touch()


def choose(folder: Path, *, standin: bool, environ: Mapping[str, str]) -> Setting | None:
    """The real SGLang where it can be had; else the stand-in, with the reason; in CI the stand-in is a failure."""
    if not standin:
        code = subprocess.run([sys.executable, "-m", "sglfab.testing.cpu", "install"], cwd=ROOT, check=False).returncode
        if code == 0:
            return real_setting(folder, default_kit())
        if code != EXIT_UNAVAILABLE:
            print("The demo needs the installation above to succeed, or --standin.", file=sys.stderr)
            return None
    if environ.get("CI") == "true":
        print("CI: the demo must run on the real SGLang, and it would run on the stand-in", file=sys.stderr)
        return None
    return standin_setting(folder)


def run(setting: Setting) -> int:
    began = time.monotonic()
    try:
        tell(setting)
    except Unexpected as why:
        print(f"\nThe demo did not go as expected: {why}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\ninterrupted", file=sys.stderr)
        return 130
    finally:
        clean_up(setting)
    print(f"\nEvery step went as expected, in {time.monotonic() - began:.0f} s, on {setting.label}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
