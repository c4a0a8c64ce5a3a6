"""Statistics and fingerprints: exact, cheap, and the same whichever way they are made."""

import functools
import json
import statistics
import time
import zlib

import torch
from world import fresh

PROBE = fresh()
G = torch.Generator().manual_seed(7)
TENSORS = {
    "bfloat16": (torch.randn(128, 7168, generator=G) * 3 + 0.05).to(torch.bfloat16),
    "one number over and over": torch.full((160, 7168), 1.1, dtype=torch.bfloat16),
    "a mean that dwarfs the spread": torch.randn(64, 4096, generator=G) + 1000,
    "magnitudes from 1e-8 to 1e8": torch.exp(torch.randn(64, 4096, generator=G) * 5),
    "squares beyond float32": torch.randn(8, 64, generator=G) * 1e25,
    "tiny": torch.randn(3, 5, generator=G),
    "one row of a million": torch.rand(1, 1_000_000, generator=G),
    "one dimension": torch.randn(1000, generator=G),
    "three dimensions": torch.randn(4, 8, 16, generator=G),
    "a view with strides": torch.randn(64, 96, generator=G)[::2, 1::3],
    "transposed": torch.randn(64, 96, generator=G).t(),
    "a scalar": torch.tensor(2.5),
    "integers": torch.arange(1000).reshape(10, 100),
    "booleans": torch.rand(10, 10, generator=G) > 0.5,
    "float64": torch.randn(100, 100, generator=G, dtype=torch.float64),
    "float8": torch.randn(64, 64, generator=G).to(torch.float8_e4m3fn),
    "all zero": torch.zeros(10, 10),
}


def exact(tensor):
    wide = tensor.to(torch.float64).reshape(-1)
    good = wide[wide.isfinite()]
    return {
        "norm": good.norm().item(),
        "mean": good.mean().item(),
        "std": good.std(unbiased=False).item(),
        "absmax": good.abs().max().item(),
        "nan": int(wide.isnan().sum()),
        "inf": int(wide.isinf().sum()),
    }


def assert_close(found, wanted, what):
    for name, value in wanted.items():
        # A mean near nothing is compared on the scale of the elements, as float32 rounds them.
        scale = max(abs(value), wanted["absmax"] * (1e-2 if name in ("mean", "std") else 0), 1e-30)
        assert abs(found[name] - value) <= 1e-5 * scale, (what, name, found[name], value)


def blocked(tensor, rows=0):
    """As a big tensor of the CPU is summed up, in the forward."""
    return PROBE.cpu_statistics(PROBE.rows_of(tensor), rows)


def on_a_device(tensor, rows=0):
    flat = PROBE.rows_of(tensor)
    return PROBE.device_statistics(flat.numel(), PROBE.device_sums(flat, rows, PROBE.kept_weights).tolist())


def by_the_writer(tensor, rows=0, company=()):
    """As a small tensor of the CPU is summed up, by the writer, with what is there besides."""
    readings = PROBE.Readings()
    for name, one in (("it", tensor), *enumerate(company)):
        readings.add_tensor(name, one, rows, 0)
    PROBE.sum_up(readings.kept)
    readings.finish()
    return {name: value for name, value in readings.tensors["it"].items() if name not in ("shape", "dtype", "device")}


WAYS = (blocked, on_a_device, by_the_writer)


def check_statistics_are_exact_to_1e_5_each_way():
    for way in WAYS:
        for what, tensor in TENSORS.items():
            assert_close(way(tensor), exact(tensor), (way, what))


def check_nan_and_inf_are_counted_and_the_rest_is_described():
    for size in ((4, 5), (512, 1024)):
        tensor = torch.randn(*size, generator=G)
        tensor[0, 0], tensor[1, 1], tensor[2, 2], tensor[3, 3] = float("nan"), float("inf"), -float("inf"), float("nan")
        for way in WAYS:
            found = way(tensor)
            assert (found["nan"], found["inf"]) == (2, 2)
            assert_close(found, exact(tensor), (way, size))
            json.dumps(found, allow_nan=False)


def check_the_fingerprint_of_the_cpu_is_the_crc32_of_the_bytes():
    for way in (blocked, by_the_writer):
        for what, tensor in TENSORS.items():
            rows = tensor.reshape(1, -1) if tensor.dim() < 2 else tensor.flatten(1)
            data = rows.contiguous().view(torch.uint8).numpy().tobytes()
            assert way(tensor)["fp"] == f"{zlib.crc32(data):08x}", (way, what)


def check_company_changes_nothing():
    for what in ("tiny", "one dimension", "a view with strides", "float8"):
        tensor = TENSORS[what]
        alone = by_the_writer(tensor, rows=16)
        for others in (1, 6, 40):
            assert by_the_writer(tensor, 16, [tensor * i for i in range(others)] if what != "float8" else []) == alone


def check_fingerprints_see_swaps_and_sign_flips_and_nothing_else():
    base = torch.randn(64, 96, generator=G).to(torch.bfloat16)
    swapped_rows, swapped_columns, flipped = base.clone(), base.clone(), base.clone()
    swapped_rows[[3, 9]] = base[[9, 3]]
    swapped_columns[:, [3, 9]] = base[:, [9, 3]]
    flipped[5, 1], flipped[6, 1] = -base[5, 1], -base[6, 1]
    for way in WAYS:
        for other in (swapped_rows, swapped_columns, flipped):
            assert way(other)["fp"] != way(base)["fp"]
        for same in (base.clone(), base.t().contiguous().t()):
            assert way(same)["fp"] == way(base)["fp"]


def check_rows_have_their_own_fingerprints_up_to_the_limit():
    base = torch.randn(6, 32, generator=G)
    for way in WAYS:
        rows = way(base, 6)["rows"]
        assert len(set(rows)) == 6
        assert way(base[[2, 4]], 6)["rows"] == [rows[2], rows[4]]
        assert "rows" not in way(base, 5)


def plain(tensor):
    """The statistics as one writes them at first."""
    x = tensor.float()
    return [f().item() for f in (x.norm, x.mean, x.std, x.abs().max, x.isnan().sum, x.isinf().sum)]


def timed(work):
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def compared(repeats):
    """Median seconds of the plain statistics and of ours, side by side, for 4096 × 7168 bf16 on one thread."""
    tensor = (torch.randn(4096, 7168, generator=G) * 3).to(torch.bfloat16)
    pairs = [(timed(lambda: plain(tensor)), timed(lambda: blocked(tensor))) for _ in range(repeats)]
    assert_close(blocked(tensor), exact(tensor), "4096 × 7168")
    return [statistics.median(times) for times in zip(*pairs, strict=True)]


def compared_small(repeats):
    """Least seconds of 30 tensors of 4 × 128 bf16: plain, ours in the forward, ours in the writer."""
    tensors = [torch.randn(4, 128, generator=G).to(torch.bfloat16) for _ in range(30)]

    def forward():
        readings = PROBE.Readings()
        for i, tensor in enumerate(tensors):
            readings.add_tensor(str(i), tensor, 0, 0)
        return readings

    def writer(readings):
        PROBE.sum_up(readings.kept)
        readings.finish()

    ways = (lambda: [plain(tensor) for tensor in tensors], forward, functools.partial(writer, forward()))
    return [min(timed(way) for _ in range(repeats)) for way in ways]


def check_statistics_take_less_than_a_third_of_the_plain_ones():
    theirs, ours = compared(3)
    assert ours < theirs / 3, (ours, theirs)


def check_a_sample_of_rows_is_evenly_spaced_and_says_so():
    tensor = torch.arange(10.0).reshape(10, 1).expand(10, 3)
    for sample, taken in ((3, [0, 4, 8]), (4, [0, 3, 6, 9]), (9, [0, 2, 4, 6, 8]), (1, [0])):
        readings = PROBE.Readings()
        readings.add_tensor("it", tensor, 16, sample)
        readings.finish()
        line = readings.tensors["it"]
        assert line["sampled"] == [len(taken), 10]
        assert (line["shape"], line["mean"]) == ([10, 3], sum(taken) / len(taken))
    for sample in (0, 10, 11):
        readings = PROBE.Readings()
        readings.add_tensor("it", tensor, 16, sample)
        assert "sampled" not in readings.tensors["it"]
