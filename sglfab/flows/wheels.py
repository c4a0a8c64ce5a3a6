"""The released wheels of SGLang: kept on the operator's machine, fetched by pip once."""

from __future__ import annotations

import re
import sys
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sglfab.errors import InputError
from sglfab.sglang.releases import parse
from sglfab.transports.local import Output, output

DOWNLOAD_S = 300.0
# SGLang's wheels run on Linux only, from 0.5.11 on compiled: asked for as such on whatever machine the operator has.
_LINUX = ("--only-binary=:all:", "--implementation=cp", "--python-version=3.11", "--platform=manylinux_2_34_x86_64")
_OFFERED = re.compile(r"\(from versions: (?!none)([^)]+)\)")


def cache() -> Path:
    return Path.home() / ".cache" / "sglfab" / "wheels"


def is_kept(release: str) -> bool:
    return bool(_kept(cache(), "sglang", str(parse(release))))


def wheel(release: str, distribution: str = "sglang") -> Path:
    """The wheel of a release. Raises InputError bad-release, release-unknown, wheel-not-here."""
    number, folder = str(parse(release)), cache()
    if not _kept(folder, distribution, number):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            _fetch(distribution, number, folder)
        except OSError as why:
            raise _not_here(f"{distribution}=={number}", folder, f"it cannot be kept: {why.strerror}") from None
    return _kept(folder, distribution, number)[0]


@dataclass(frozen=True)
class Sources:
    """What a wheel has: texts by module (relative to sglang/), None for one that is not there; and all its modules."""

    texts: Mapping[str, str | None]
    modules: tuple[str, ...]


def sources(path: Path, modules: Sequence[str]) -> Sources:
    """The text of each of `modules` in a wheel. Raises InputError wheel-damaged."""
    try:
        with zipfile.ZipFile(path) as archive:
            held = {n.removeprefix("sglang/"): n for n in archive.namelist() if re.match(r"sglang/.*\.py$", n)}
            texts = {m: archive.read(held[m]).decode("utf-8") if m in held else None for m in modules}
    except (zipfile.BadZipFile, UnicodeDecodeError) as why:
        raise InputError("wheel-damaged", f"not a whole wheel: {why}", where=str(path), try_=f"rm {path}") from None
    return Sources(texts, tuple(held))


def _kept(folder: Path, distribution: str, number: str) -> list[Path]:
    return sorted(folder.glob(f"{distribution.replace('-', '_')}-{number}-*.whl"))


def _fetch(distribution: str, number: str, folder: Path) -> None:
    """Into a folder of its own first: what was cut off half way is never taken for a wheel."""
    pip = (
        sys.executable,
        "-m",
        "pip",
        "download",
        "--quiet",
        "--disable-pip-version-check",
        "--no-deps",
        "--retries=1",
    )
    with tempfile.TemporaryDirectory(dir=folder) as half:
        done = output((*pip, *_LINUX, f"--dest={half}", f"{distribution}=={number}"), timeout_s=DOWNLOAD_S)
        fetched = _kept(Path(half), distribution, number)
        if done.status or not fetched:
            raise _refusal(f"{distribution}=={number}", folder, done)
        fetched[0].replace(folder / fetched[0].name)


def _refusal(wanted: str, folder: Path, done: Output) -> InputError:
    offered = _OFFERED.search(done.stderr)
    if offered:
        newest = ", ".join(offered[1].split(", ")[-3:])
        return InputError("release-unknown", f"there is no {wanted}", where="--release", try_=f"one of … {newest}")
    said = next((line for line in reversed(done.stderr.splitlines()) if line.strip()), f"pip ended with {done.status}")
    return _not_here(wanted, folder, f"pip could not fetch it: {said.strip()}")


def _not_here(wanted: str, folder: Path, why: str) -> InputError:
    return InputError(
        "wheel-not-here",
        f"no wheel of {wanted} is kept here, and {why}",
        where=str(folder),
        try_=f"--sglang-path DIR of an install or an unpacked wheel; or put the wheel there, from a machine with "
        f"network: pip download --no-deps {wanted}",
    )
