"""Make an environment that holds the stand-in, as pip would have installed it, and tiny checkpoints to serve."""

from __future__ import annotations

import base64
import hashlib
import json
import shutil
import struct
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sglfab.testing.environment import make_environment

SITE = Path(__file__).resolve().parent / "site"
METADATA = "Metadata-Version: 2.1\nName: sglang\nVersion: {release}\nSummary: a stand-in for SGLang, not SGLang\n"
WHEEL = "Wheel-Version: 1.0\nGenerator: sglfab\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
SHARD_BYTES = 4096


@dataclass(frozen=True)
class Standin:
    """An environment whose python runs the stand-in as `python -m sglang.launch_server`."""

    root: Path
    release: str

    @property
    def python(self) -> Path:
        return self.root / "bin" / "python"

    @property
    def site_packages(self) -> Path:
        return self.root / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"

    @property
    def sglang(self) -> Path:
        return self.site_packages / "sglang"

    @property
    def dist_info(self) -> Path:
        return self.site_packages / f"sglang-{self.release}.dist-info"


def make_standin(folder: Path, *, release: str = "0.5.23") -> Standin:
    """An environment with the stand-in that calls itself that release. The lines it prints are those of 0.5.23."""
    made = Standin(folder, release)
    make_environment(folder)
    shutil.copytree(SITE / "sglang", made.sglang, ignore=shutil.ignore_patterns("__pycache__"))
    (made.sglang / "version.py").write_text(f'__version__ = "{release}"\n', encoding="utf-8")
    made.dist_info.mkdir()
    texts = {"METADATA": METADATA.format(release=release), "WHEEL": WHEEL, "INSTALLER": "pip\n"}
    for name, text in {**texts, "top_level.txt": "sglang\n"}.items():
        (made.dist_info / name).write_text(text, encoding="utf-8")
    write_record(made.site_packages, made.dist_info)
    return made


def write_record(site_packages: Path, dist_info: Path) -> None:
    """RECORD as a wheel's installer writes it: path, sha256, size of every file, itself without."""
    files = sorted(f for top in (site_packages / "sglang", dist_info) for f in top.rglob("*") if f.is_file())
    rows = [f"{f.relative_to(site_packages)},{record_digest(f.read_bytes())},{f.stat().st_size}" for f in files]
    own = (dist_info / "RECORD").relative_to(site_packages)
    (dist_info / "RECORD").write_text("\n".join([*rows, f"{own},,"]) + "\n", encoding="utf-8")


def record_digest(data: bytes) -> str:
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


# --- checkpoints without torch ----------------------------------------------------------------------------------------


def make_models(folder: Path) -> tuple[Path, Path]:
    """A target of two shards with an index, and a draft: right headers, zeros as weights. Returns (target, draft)."""
    target, draft = folder / "deepseek_v3", folder / "eagle3"
    target.mkdir(parents=True)
    draft.mkdir()
    shards = [f"model-{n:05d}-of-00002.safetensors" for n in (1, 2)]
    for number, name in enumerate(shards):
        write_shard(target / name, {f"model.layers.{number}.weight": SHARD_BYTES})
    weight_map = {f"model.layers.{number}.weight": name for number, name in enumerate(shards)}
    index = {"metadata": {"total_size": 2 * SHARD_BYTES}, "weight_map": weight_map}
    common = {"hidden_size": 128, "vocab_size": 320, "torch_dtype": "bfloat16"}
    write_json(target / "model.safetensors.index.json", index)
    config = {"architectures": ["DeepseekV3ForCausalLM"], "model_type": "deepseek_v3", "num_hidden_layers": 8, **common}
    write_json(target / "config.json", config)
    write_json(target / "tokenizer_config.json", {"tokenizer_class": "PreTrainedTokenizerFast"})
    write_shard(draft / "model.safetensors", {"fc.weight": SHARD_BYTES})
    draft_config = {
        "architectures": ["LlamaForCausalLMEagle3"],
        "model_type": "llama",
        "num_hidden_layers": 1,
        **common,
    }
    write_json(draft / "config.json", {**draft_config, "draft_vocab_size": 128, "target_hidden_size": 128})
    return target, draft


def write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, indent=1), encoding="utf-8")


def write_shard(path: Path, tensors: Mapping[str, int]) -> None:
    """A safetensors file of bfloat16 zeros; tensors: name → size in bytes."""
    header, at = {}, 0
    for name, size in tensors.items():
        header[name] = {"dtype": "BF16", "shape": [size // 2], "data_offsets": [at, at + size]}
        at += size
    head = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(head)) + head + bytes(at))
