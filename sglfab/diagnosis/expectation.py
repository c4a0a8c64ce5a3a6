"""What a wait expects of the server, beside what the observations tell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import ceil
from statistics import median

from sglfab.model import Json

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
# Why these numbers: docs/decisions/0005-allowances-from-former-runs.md
ENOUGH_RUNS = 3
FORMER_FLOOR_S = 600.0
FORMER_FACTOR = 2.0


@dataclass(frozen=True, order=True)
class Allowance:
    """How long progress may stand still, and whose word that is."""

    seconds: float
    source: str

    def __str__(self) -> str:
        return f"{self.seconds:g} s ({self.source})"


@dataclass(frozen=True)
class Expectation:
    """deadline_s: hard cap (None: none). allowances: stage → seconds, over the rest; also `serving_s` style keys.

    patches, tp_size and draft are completed by the `start` observation and the arguments in the log.
    former: `share(stage, draft)` → the seconds that it took in each of this profile's former starts.
    """

    deadline_s: float | None = None
    allowances: Mapping[str, float] = field(default_factory=dict)
    patches: tuple[str, ...] = ()
    tp_size: int | None = None
    draft: bool | None = None
    is_generation: bool = True
    trace_allowance_s: float = 10.0
    former: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    host: str | None = None
    url: str | None = None
    profile: str | None = None
    run: str | None = None
    sglang_version: str | None = None

    def allowance_s(self, stage: str) -> float:
        return self.allowance(stage).seconds

    def allowance(self, stage: str) -> Allowance:
        """The profile's word, else this profile's former starts, else what has been healthy in the field."""
        for key in (stage, f"{stage}_s", stage.replace("-", "_") + "_s"):
            if key in self.allowances:
                return Allowance(float(self.allowances[key]), "wait.allowances of the profile")
        shares = [took for draft in (False, True) if (took := self.former.get(share(stage, draft)))]
        runs = max((len(took) for took in shares), default=0)
        if runs < ENOUGH_RUNS:
            return Allowance(ALLOWANCES[stage], "the default")
        longest = max(percentile(took, 0.95) for took in shares)
        return Allowance(max(FORMER_FLOOR_S, FORMER_FACTOR * longest), f"from {runs} former starts")

    def usual_s(self, stage: str, draft: bool) -> float | None:
        """What the stage took in former starts, the median."""
        took = self.former.get(share(stage, draft))
        return median(took) if took else None

    def to_json(self) -> dict[str, Json]:
        return asdict(self)


def expectation_from_json(shape: Mapping[str, Json]) -> Expectation:
    """What `to_json` gave. Raises TypeError, KeyError or ValueError for anything else."""
    values = dict(shape)
    values["deadline_s"] = None if values["deadline_s"] is None else float(values["deadline_s"])
    values["allowances"] = {stage: float(seconds) for stage, seconds in values["allowances"].items()}
    values["former"] = {part: tuple(map(float, took)) for part, took in values["former"].items()}
    values["patches"] = tuple(values["patches"])
    return Expectation(**values)


def share(stage: str, draft: bool) -> str:
    """The name of a stage's part of a start: the draft goes through most stages a second time."""
    return f"{stage}/draft" if draft else stage


def percentile(values: Sequence[float], part: float) -> float:
    """The smallest of the values that `part` of them do not exceed: of a few values the largest."""
    return sorted(values)[ceil(part * len(values)) - 1]
