"""hostside as one deterministic file named by its hash, and the command line that brings it to life on a host."""

from __future__ import annotations

import base64
import hashlib
import io
import zipfile
from dataclasses import dataclass
from functools import cache
from importlib import resources

_NEWEST_DOS_TIME = (1980, 1, 1, 0, 0, 0)
_ROOT_MAIN = "import sys\n\nfrom sglfab.hostside.__main__ import main\n\nsys.exit(main())\n"

# No '' on sys.path before the first import: a json.py in the operator's folder must not become ours.
# Words of letters, digits and base64 between single quotes mean the same to sh, bash, dash, zsh, csh and fish.
_LOADER = "import sys;sys.path[:]=[p for p in sys.path if p];import base64;exec(base64.b64decode(sys.argv[1]))"


@dataclass(frozen=True)
class Bundle:
    """A zip application with hostside in it, and the sha256 (hex) of its bytes."""

    data: bytes
    sha: str

    def framed(self) -> bytes:
        """What the bootstrap reads after it said `need`: 16 digits, then the bytes."""
        return b"%016d" % len(self.data) + self.data


@cache
def bundle() -> Bundle:
    """The bundle of this checkout; the same bytes for the same sources, on any machine."""
    return pack(sources())


def pack(files: dict[str, bytes]) -> Bundle:
    """Zip `path in the archive → bytes`. Stored, not deflated: zlib's output differs between builds of zlib."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(files):
            entry = zipfile.ZipInfo(name, _NEWEST_DOS_TIME)
            entry.create_system, entry.external_attr = 3, 0o600 << 16
            archive.writestr(entry, files[name])
    data = buffer.getvalue()
    return Bundle(data, hashlib.sha256(data).hexdigest())


def sources() -> dict[str, bytes]:
    """Path in the archive → bytes."""
    # Under its own package path, so that `from sglfab.hostside.x import y` means the same here and there.
    files = {"__main__.py": _ROOT_MAIN.encode(), "sglfab/__init__.py": b""}
    for source in resources.files("sglfab.hostside").iterdir():
        if source.name.endswith(".py"):
            files[f"sglfab/hostside/{source.name}"] = source.read_bytes()
    return files


def bootstrap_argv(python: str, sha: str, state_dir: str | None) -> tuple[str, ...]:
    """The argv that finds or asks for the bundle of that hash and becomes it (hostside/bootstrap.py)."""
    return (
        python,
        "-c",
        _LOADER,
        _bootstrap_text(),
        sha,
        _base64((state_dir or "").encode("utf-8", "surrogateescape")),
    )


@cache
def _bootstrap_text() -> str:
    return _base64(resources.files("sglfab.hostside").joinpath("bootstrap.py").read_bytes())


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")
