"""`python -m sglfab.testing.cpu install|status`: the kit's own command line, used by the Makefile and the demo."""

from __future__ import annotations

import argparse
import sys

from sglfab.testing.cpu import layout
from sglfab.testing.cpu.install import KitBrokenError, KitUnavailableError, install, make_pristine

EXIT_NOT_READY, EXIT_UNAVAILABLE = 1, 3


def main(argv: list[str] | None = None) -> int:
    """0: installed, or ready before. 1: it failed, or is not ready (status). 3: not to be had on this machine."""
    parser = argparse.ArgumentParser(
        prog="python -m sglfab.testing.cpu", description="SGLang on the CPU, for demo and tests"
    )
    parser.add_argument("what", choices=["install", "status"])
    parser.add_argument("--pristine", action="store_true", help="undo edits of the installed SGLang")
    kit, args = layout.default_kit(), parser.parse_args(argv)
    if args.what == "status":
        ready = layout.is_ready(kit)
        print(f"{kit.root}: {'ready' if ready else 'not ready'}")
        return 0 if ready else EXIT_NOT_READY
    try:
        done = install(kit)
        if args.pristine:
            make_pristine(kit)
    except KitUnavailableError as why:
        print(f"SGLang cannot be installed here: {why}", file=sys.stderr)
        return EXIT_UNAVAILABLE
    except (KitBrokenError, OSError) as why:
        print(f"installing SGLang for the CPU failed: {why}", file=sys.stderr)
        return EXIT_NOT_READY
    print(f"SGLang for the CPU is {'installed' if done else 'ready'}: {kit.root}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
