"""Where the kit lies on disk, and when it counts as installed."""

from __future__ import annotations

import base64
import csv
import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
PINS = HERE / "pins.txt"
STUBS = HERE / "stubs"
MODEL_SCRIPTS = (HERE / "tiny_models.py", HERE / "wired_pair.py")
# What a test or a patch can edit: the files that `fab patch-debug` touches, relative to sglang/.
PATCHED_FILES = ("srt/models/deepseek_v2.py", "srt/models/llama_eagle3.py", "srt/layers/logits_processor.py")


@dataclass(frozen=True)
class CpuKit:
    """A folder with SGLang for the CPU, the stand-in for its kernel package, and a pair of tiny models."""

    root: Path

    @property
    def venv(self) -> Path:
        return self.root / "venv"

    @property
    def python(self) -> Path:
        return self.venv / "bin" / "python"

    @property
    def site_packages(self) -> Path:
        found = sorted(self.venv.glob("lib/python3.*/site-packages"))
        return found[0] if found else self.venv / "lib" / "site-packages"

    @property
    def sglang(self) -> Path:
        return self.site_packages / "sglang"

    @property
    def dist_info(self) -> Path:
        return self.site_packages / f"sglang-{pinned('sglang')}.dist-info"

    @property
    def stubs(self) -> Path:
        return self.root / "stubs"

    @property
    def models(self) -> Path:
        return self.root / "models"

    @property
    def target_model(self) -> Path:
        return self.models / "deepseek_v3"

    @property
    def draft_model(self) -> Path:
        return self.models / "eagle3"

    @property
    def venv_marker(self) -> Path:
        return self.venv / "sglfab-pins"

    @property
    def ready_file(self) -> Path:
        return self.root / "ready.json"


def default_kit(environ: Mapping[str, str] | None = None) -> CpuKit:
    """$SGLFAB_CPU, else ~/.cache/sglfab/cpu."""
    given = (os.environ if environ is None else environ).get("SGLFAB_CPU")
    return CpuKit(Path(given).expanduser() if given else Path.home() / ".cache" / "sglfab" / "cpu")


def pins() -> tuple[str, ...]:
    return tuple(line for line in PINS.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#"))


def pinned(name: str) -> str:
    """The pinned version of one package."""
    return next(pin.partition("==")[2] for pin in pins() if pin.partition("==")[0] == name)


def content_hash(files: Iterable[Path]) -> str:
    """sha256 over names and bytes, so that a rename counts too."""
    digest = hashlib.sha256()
    for file in sorted(files):
        digest.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()


def wanted() -> dict[str, str]:
    """What a ready kit was made from; any difference makes that part again."""
    stubs = [f for f in STUBS.rglob("*.py") if "__pycache__" not in f.parts]
    return {"pins": content_hash([PINS]), "stubs": content_hash(stubs), "models": content_hash(MODEL_SCRIPTS)}


def recorded(kit: CpuKit) -> dict[str, object]:
    """ready.json, or nothing where it is missing or not whole."""
    try:
        found = json.loads(kit.ready_file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def whole_venv(kit: CpuKit) -> bool:
    """The environment was installed to its end from these pins, and its main parts are still there."""
    try:
        marked = kit.venv_marker.read_text(encoding="utf-8").strip()
    except OSError:
        return False
    parts = (kit.python, kit.sglang / "launch_server.py", kit.dist_info / "RECORD", kit.site_packages / "torch")
    return marked == wanted()["pins"] and all(part.exists() for part in parts)


def whole_models(kit: CpuKit) -> bool:
    return all(any(folder.glob("model*.safetensors")) for folder in (kit.target_model, kit.draft_model))


def is_ready(kit: CpuKit) -> bool:
    known = recorded(kit)
    same = all(known.get(part) == value for part, value in wanted().items())
    return same and whole_venv(kit) and whole_models(kit) and (kit.stubs / "sgl_kernel").is_dir()


def edited_files(kit: CpuKit) -> tuple[str, ...]:
    """Which of the three files that `fab patch-debug` touches differ from the wheel's; paths relative to sglang/."""
    return differs_from_record(kit.site_packages, PATCHED_FILES)


def differs_from_record(site_packages: Path, files: Iterable[str]) -> tuple[str, ...]:
    """Which of the files of sglang (paths relative to sglang/) are not as the distribution's RECORD has them."""
    record = recorded_sha256(site_packages)
    now = {f: hashlib.sha256((site_packages / "sglang" / f).read_bytes()).hexdigest() for f in files}
    return tuple(f for f, digest in now.items() if digest != record[f"sglang/{f}"])


def recorded_sha256(site_packages: Path) -> dict[str, str]:
    """sha256 (hex) of every file of sglang as its RECORD has it, by path relative to site-packages."""
    (record,) = site_packages.glob("sglang-*.dist-info/RECORD")
    with record.open(newline="", encoding="utf-8") as lines:
        rows = [(path, digest) for path, digest, _ in csv.reader(lines) if digest.startswith("sha256=")]
    return {path: base64.urlsafe_b64decode(digest[len("sha256=") :] + "=").hex() for path, digest in rows}
