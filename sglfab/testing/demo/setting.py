"""What the story is told on, the real SGLang on the CPU or the stand-in; all that the demo writes is in one folder."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

import yaml

from sglfab.testing.cpu.layout import PATCHED_FILES, CpuKit, differs_from_record, pinned
from sglfab.testing.fixtures import find_free_port, is_free
from sglfab.testing.standin.build import make_models, make_standin

ROOT = Path(__file__).resolve().parents[3]
PROFILE = "cpu-demo-debug"
PROFILE_PORT = 31060  # configs/profiles/cpu-demo.yaml
BANNER = "STAND-IN, NOT REAL SGLANG"


@dataclass(frozen=True)
class Setting:
    """folder: the demo's own; model: the target's checkpoint; traced: a model runs, so that the patches have news."""

    folder: Path
    label: str
    env: dict[str, str]
    model: Path
    site_packages: Path
    port: int
    traced: bool
    launch_words: tuple[str, ...] = ()  # further words of each launch
    core: tuple[str, ...] = ()  # words before the task: -S CONFIG -H HOST
    host_state: Path | None = None  # the state folder of a host that does not get our environment

    @property
    def state_dir(self) -> Path:
        return self.host_state or self.folder / "state"

    def not_as_released(self) -> tuple[str, ...]:
        """Which of the three patched files differ from the wheel's RECORD."""
        return differs_from_record(self.site_packages, PATCHED_FILES)


def real_setting(folder: Path, kit: CpuKit) -> Setting:
    """The shipped profile on the installed kit, on its own port unless that is taken."""
    env = environment(folder) | {"SGLFAB_CPU": str(kit.root)}
    port = PROFILE_PORT if is_free(PROFILE_PORT) else find_free_port()
    words = () if port == PROFILE_PORT else ("--set", f"port={port}")
    label = f"a real SGLang {pinned('sglang')} on the CPU"
    return Setting(folder, label, env, kit.target_model, kit.site_packages, port, traced=True, launch_words=words)


def standin_setting(folder: Path) -> Setting:
    """A profile of the same name on the stand-in. It asks for no patches: without a model there is nothing to trace."""
    standin = make_standin(folder / "standin")
    target, draft = make_models(folder / "models")
    port = find_free_port()
    profile = {
        "description": BANNER,
        "python": str(standin.python),
        "port": port,
        "args": {
            "model-path": str(target),
            "tp-size": 2,
            "speculative-algorithm": "EAGLE3",
            "speculative-draft-model-path": str(draft),
            "speculative-num-steps": 3,
            "speculative-eagle-topk": 1,
            "speculative-num-draft-tokens": 4,
        },
        "env": {"SGLANG_STANDIN": json.dumps({"pace_s": 0.3})},
    }
    profiles = folder / "configs" / "profiles"
    profiles.mkdir(parents=True)
    (profiles / f"{PROFILE}.yaml").write_text(yaml.safe_dump(profile, sort_keys=False), encoding="utf-8")
    env = environment(folder) | {"SGLFAB_CONFIGS": str(folder / "configs")}
    return Setting(folder, BANNER, env, target, standin.site_packages, port, traced=False)


def environment(folder: Path) -> dict[str, str]:
    return {**os.environ, "SGLFAB_STATE_DIR": str(folder / "state"), "PYTHONUNBUFFERED": "1"}
