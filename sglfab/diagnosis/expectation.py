"""What a wait expects of the server, beside what the observations tell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

# Seconds of silence that have been healthy in the field, with room: shard gaps of minutes on slow storage, 20-minute
# DeepGEMM sessions, 22-minute graph capture and two-hour repacking after the last shard.
ALLOWANCES: Mapping[str, float] = {
    "import": 600.0,
    "args": 900.0,
    "init-distributed": 900.0,
    "load-weights": 3600.0,
    "post-load": 7800.0,
    "kv-cache": 900.0,
    "capture-graphs": 3000.0,
    "http": 600.0,
    "warmup": 1800.0,
    "serving": 60.0,
}


@dataclass(frozen=True)
class Expectation:
    """deadline_s: hard cap (None: none). allowances: stage → seconds, over the defaults; also `serving_s` style keys.

    patches, tp_size and draft are completed by the `start` observation and the arguments in the log.
    former: stage → seconds that this profile's former runs took (the median), for the ETA.
    """

    deadline_s: float | None = None
    allowances: Mapping[str, float] = field(default_factory=dict)
    patches: tuple[str, ...] = ()
    tp_size: int | None = None
    draft: bool | None = None
    is_generation: bool = True
    trace_allowance_s: float = 10.0
    former: Mapping[str, float] = field(default_factory=dict)
    host: str | None = None
    url: str | None = None
    profile: str | None = None
    run: str | None = None
    sglang_version: str | None = None

    def allowance_s(self, stage: str) -> float:
        for key in (stage, f"{stage}_s", stage.replace("-", "_") + "_s"):
            if key in self.allowances:
                return float(self.allowances[key])
        return ALLOWANCES[stage]
