"""Checks of the probe that need torch: run by the kit's interpreter (test_probe.py), each `check_…` a test of its own.

`python probe_checks.py FOLDER [NAME…]` prints {"check_…": null or what failed}.
"""

import contextlib
import functools
import importlib.util
import inspect
import io
import json
import os
import resource
import signal
import statistics
import sys
import tempfile
import time
import traceback
import zlib
from pathlib import Path

import torch
from torch.utils._python_dispatch import TorchDispatchMode

SOURCE = Path(__file__).parents[2] / "sglfab" / "patching" / "probe" / "sglfab_probe.py"
TARGET = {"tap": "target", "object": "Target.forward", "role": "target", "encloses": True, "mode": "args.batch.mode"}
LOGITS = {"tap": "logits-processor", "object": "Logits.forward", "role": "enclosing"}
DRAFT = {"tap": "draft", "object": "Draft.forward", "role": "draft", "encloses": True, "mode": "args.batch.mode"}
ABOUT = {"set": "s", "modules": ["a.py"], "max_mb": 1}


def fresh():
    """The probe as a process has it that never loaded it."""
    spec = importlib.util.spec_from_file_location("probe_under_check", SOURCE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Batch:
    def __init__(self, mode="EXTEND"):
        self.mode = type("Mode", (), {"name": mode})()


class World:
    """A patched module of our own, its probe, and its trace."""

    def __init__(self, *taps, about=ABOUT, folder=None, module="a.py"):
        self.folder = Path(folder or tempfile.mkdtemp(dir=sys.argv[1]))
        os.environ["SGLFAB_TRACE_DIR"] = str(self.folder)
        self.probe = fresh()
        self.space = self.classes()
        self.originals = {name: vars(owner)["forward"] for name, owner in self.space.items()}
        self.said = io.StringIO()
        with contextlib.redirect_stderr(self.said):
            self.probe.install(self.space, module, about, list(taps))

    @staticmethod
    def classes():
        class Logits:
            def forward(self, hidden, scale=2):
                return hidden * scale

        class Target:
            logits = Logits()

            def forward(self, ids, batch):
                return self.logits.forward(ids), [ids, ids + 1]

        class Draft(Target):
            def forward(self, ids, batch):
                return self.logits.forward(ids)

        return {"Target": Target, "Logits": Logits, "Draft": Draft}

    def call(self, name, tensor, mode="EXTEND"):
        with contextlib.redirect_stderr(self.said):
            return self.space[name]().forward(tensor, batch=Batch(mode))

    @property
    def lines(self):
        files = sorted(self.folder.glob("*.jsonl"))
        return [json.loads(line) for file in files for line in file.read_text().splitlines()]

    def records(self, *names):
        return [tuple(line.get(name) for name in names) for line in self.lines if line["kind"] == "record"]


def with_tensors(tap, **paths):
    return {**tap, "tensors": [{"name": name, "path": path} for name, path in paths.items()]}


# --- statistics -------------------------------------------------------------------------------------------------------

torch.set_num_threads(1)  # as the comparison wants it, and the machine has few cores
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


def check_statistics_are_exact_to_1e_5():
    probe = fresh()
    for what, tensor in TENSORS.items():
        assert_close(probe.cpu_statistics(tensor, 0), exact(tensor), what)


def check_statistics_made_on_the_device_are_exact_too():
    probe = fresh()
    for what, tensor in TENSORS.items():
        found = probe.device_statistics(tensor.numel(), probe.device_sums(tensor, 0).tolist())
        assert_close(found, exact(tensor), what)


def check_nan_and_inf_are_counted_and_the_rest_is_described():
    probe = fresh()
    for size in ((4, 5), (512, 1024)):
        tensor = torch.randn(*size, generator=G)
        tensor[0, 0], tensor[1, 1], tensor[2, 2], tensor[3, 3] = float("nan"), float("inf"), -float("inf"), float("nan")
        for found in (
            probe.cpu_statistics(tensor, 0),
            probe.device_statistics(tensor.numel(), probe.device_sums(tensor, 0).tolist()),
        ):
            assert (found["nan"], found["inf"]) == (2, 2)
            assert_close(found, exact(tensor), size)
            json.dumps(found, allow_nan=False)


def check_the_fingerprint_is_the_crc32_of_the_bytes():
    probe = fresh()
    for what, tensor in TENSORS.items():
        rows = tensor.reshape(1, -1) if tensor.dim() < 2 else tensor.flatten(1)
        data = rows.contiguous().view(torch.uint8).numpy().tobytes()
        assert probe.cpu_statistics(tensor, 0)["fp"] == f"{zlib.crc32(data):08x}", what


def both_prints(probe, tensor, rows=0):
    return (
        probe.cpu_statistics(tensor, rows),
        probe.device_statistics(tensor.numel(), probe.device_sums(tensor, rows).tolist()),
    )


def check_fingerprints_see_swaps_and_sign_flips_and_nothing_else():
    probe = fresh()
    base = torch.randn(64, 96, generator=G).to(torch.bfloat16)
    swapped_rows, swapped_columns, flipped = base.clone(), base.clone(), base.clone()
    swapped_rows[[3, 9]] = base[[9, 3]]
    swapped_columns[:, [3, 9]] = base[:, [9, 3]]
    flipped[5, 1], flipped[6, 1] = -base[5, 1], -base[6, 1]
    for which in (0, 1):
        print_of = base_print = both_prints(probe, base)[which]["fp"]
        for other in (swapped_rows, swapped_columns, flipped):
            print_of = both_prints(probe, other)[which]["fp"]
            assert print_of != base_print
        for same in (base.clone(), base.t().contiguous().t()):
            assert both_prints(probe, same)[which]["fp"] == base_print


def check_rows_have_their_own_fingerprints_up_to_the_limit():
    probe = fresh()
    base = torch.randn(6, 32, generator=G)
    for which in (0, 1):
        rows = both_prints(probe, base, rows=6)[which]["rows"]
        again = both_prints(probe, base[[2, 4]], rows=6)[which]["rows"]
        assert len(set(rows)) == 6
        assert again == [rows[2], rows[4]]
        assert "rows" not in both_prints(probe, base, rows=5)[which]


class Count(TorchDispatchMode):
    """Counts what would wait for a device."""

    def __init__(self):
        super().__init__()
        self.waits = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.waits += function in (torch.ops.aten._local_scalar_dense.default, torch.ops.aten.nonzero.default)
        return function(*args, **(kwargs or {}))


def check_statistics_on_a_device_wait_for_nothing():
    probe = fresh()
    with Count() as count:
        probe.device_sums(TENSORS["bfloat16"], 16)
    assert count.waits == 0
    with Count() as count:
        probe.cpu_statistics(TENSORS["tiny"], 0)
    assert count.waits > 0  # the counter counts


def check_statistics_take_less_than_a_third_of_the_plain_ones():
    probe = fresh()
    tensor = (torch.randn(4096, 7168, generator=G) * 3).to(torch.bfloat16)

    def plain():
        x = tensor.float()
        return [f().item() for f in (x.norm, x.mean, x.std, x.abs().max, x.isnan().sum, x.isinf().sum)]

    def timed(work):
        began = time.perf_counter()
        work()
        return time.perf_counter() - began

    pairs = [(timed(plain), timed(lambda: probe.cpu_statistics(tensor, 0))) for _ in range(3)]
    theirs, ours = (statistics.median(times) for times in zip(*pairs, strict=True))
    assert ours < theirs / 3, (ours, theirs)


# --- taps -------------------------------------------------------------------------------------------------------------


def check_records_say_role_mode_step_and_call():
    world = World(TARGET, LOGITS, DRAFT)
    world.call("Target", torch.ones(2, 3))
    world.call("Draft", torch.ones(2, 3))
    world.call("Draft", torch.ones(2, 3), "DECODE")
    world.call("Target", torch.ones(2, 3), "TARGET_VERIFY")
    assert world.records("tap", "role", "mode", "step", "call") == [
        ("logits-processor", "target", "EXTEND", 1, 1),
        ("target", "target", "EXTEND", 1, 1),
        ("logits-processor", "draft", "EXTEND", 1, 1),
        ("draft", "draft", "EXTEND", 1, 1),
        ("logits-processor", "draft", "DECODE", 1, 2),
        ("draft", "draft", "DECODE", 1, 2),
        ("logits-processor", "target", "TARGET_VERIFY", 2, 2),
        ("target", "target", "TARGET_VERIFY", 2, 2),
    ]


def check_the_result_is_the_very_object_that_the_method_returned():
    world = World(with_tensors(LOGITS, out="return"))
    kept = torch.ones(2)
    world.space["Same"] = type("Same", (), {"forward": lambda self, x: x})
    world.probe.install(world.space, "b.py", ABOUT, [{**LOGITS, "object": "Same.forward"}])
    assert world.space["Same"]().forward(kept) is kept


def check_the_proof_comes_with_the_first_forward_once_all_modules_are_there():
    about = {**ABOUT, "modules": ["a.py", "b.py"]}
    world = World(TARGET, about=about)
    assert not list(world.folder.iterdir())
    world.call("Target", torch.ones(1))
    assert [line["kind"] for line in world.lines] == ["waiting", "record"]
    assert world.lines[0]["modules"] == ["b.py"]
    gone = {**LOGITS, "tap": "gone", "object": "Gone.forward"}
    world.probe.install(world.space, "b.py", about, [LOGITS, gone])
    world.call("Target", torch.ones(1))
    world.call("Target", torch.ones(1))
    proofs = [line for line in world.lines if line["kind"] == "proof"]
    assert len(proofs) == 1
    proof = proofs[0]
    assert (proof["rank"], proof["pid"], proof["set"], proof["wrapped"]) == (0, os.getpid(), "s", 2)
    assert (proof["missing"], proof["files"]) == (["gone"], {"a.py": 1, "b.py": 1})


def check_what_is_no_plain_method_is_missing():
    world = World()
    world.space["Odd"] = type("Odd", (), {"model": property(lambda self: 1), "number": 3})
    taps = [{**LOGITS, "tap": name, "object": f"Odd.{name}"} for name in ("model", "number", "nothing")]
    world.probe.install(world.space, "a.py", ABOUT, taps)
    assert world.probe.Process.probe.missing == ["model", "number", "nothing"]


def check_an_inherited_method_is_wrapped_on_the_subclass_alone():
    world = World()

    class Base:
        def forward(self, x):
            return x

    class Child(Base):
        pass

    original = Base.forward
    world.probe.install({"Child": Child}, "a.py", ABOUT, [{**LOGITS, "object": "Child.forward"}])
    assert vars(Base)["forward"] is original
    assert "forward" in vars(Child)


def check_the_signature_stays():
    world = World(LOGITS)
    wrapped = world.space["Logits"].forward
    assert wrapped is not world.originals["Logits"]
    assert str(inspect.signature(wrapped)) == "(self, hidden, scale=2)"
    assert wrapped.__name__ == "forward"


def check_arguments_are_read_before_the_call_and_results_after_it():
    world = World()

    class Adder:
        def forward(self, positions):
            positions.add_(1)
            self.seen = positions
            return positions

    tap = with_tensors({**LOGITS, "object": "Adder.forward"}, before="args.positions", after="return", own="self.seen")
    tap["values"] = [{"name": "ends", "path": "args.positions", "as": "ends"}]
    world.probe.install({"Adder": Adder}, "a.py", ABOUT, [tap])
    Adder().forward(torch.zeros(3, dtype=torch.int64))
    line = world.lines[-1]
    assert [line["tensors"][name]["mean"] for name in ("before", "after", "own")] == [0, 1, 1]
    assert line["values"]["ends"] == [0, 0]


def check_values_of_every_kind():
    world = World()

    class Mode(__import__("enum").IntEnum):
        DECODE = 2

    class Thing:
        ids = torch.arange(40)
        none = None
        nan = float("nan")
        mode = Mode.DECODE
        layers = tuple(range(40))
        logits = torch.eye(3)
        zero = torch.tensor(5)
        empty = torch.zeros(0, dtype=torch.int64)

        @property
        def asserts(self):
            raise AssertionError

        def forward(self, n, flag=True):
            return 1.5

    paths = {"n": "args.n", "flag": "args.flag", "later": "args.gone", "out": "return", "first": "return.0"}
    paths |= {name: f"self.{name}" for name in ("ids", "none", "nan", "mode", "layers", "zero", "asserts", "empty")}
    values = [{"name": name, "path": path} for name, path in paths.items()]
    values += [{"name": f"ids_{verb}", "path": "self.ids", "as": verb} for verb in ("len", "ends", "list", "shape")]
    values += [{"name": "top", "path": "self.logits", "as": "argmax"}, {"name": "second", "path": "return.1"}]
    values += [{"name": "empty_ends", "path": "self.empty", "as": "ends"}, {"name": "deep", "path": "self.a.b.0.c"}]
    tap = {**LOGITS, "object": "Thing.forward", "values": values}
    world.probe.install({"Thing": Thing}, "a.py", ABOUT, [tap])
    Thing().forward(7, flag=False)
    first = list(range(16))
    assert world.lines[-1]["values"] == {
        "n": 7,
        "flag": False,
        "out": 1.5,
        "first": 1.5,
        "ids": first,
        "nan": "nan",
        "mode": "DECODE",
        "layers": first,
        "zero": 5,
        "empty": [],
        "empty_ends": [],
        "ids_len": 40,
        "ids_ends": [0, 39],
        "ids_list": first,
        "ids_shape": [40],
        "top": [0, 1, 2],
    }


def check_lists_and_packed_tensors_become_pieces():
    world = World()

    class Model:
        layers = (2, 4, 5)

        def forward(self, x, listed):
            return x, [x, x] if listed else x

    tap = {**LOGITS, "object": "Model.forward"}
    tap["tensors"] = [
        {"name": "aux", "path": "return.1", "split": "self.layers"},
        {"name": "plain", "path": "return.0"},
    ]
    world.probe.install({"Model": Model}, "a.py", ABOUT, [tap])
    packed = torch.cat([torch.full((2, 4), float(value)) for value in (1, 2, 3)], dim=1)
    Model().forward(packed, False)
    Model().forward(packed, True)
    Model().forward(packed[:, :5], False)
    found = [line["tensors"] for line in world.lines]
    assert [list(tensors) for tensors in found] == [
        ["aux.0", "aux.1", "aux.2", "plain"],
        ["aux.0", "aux.1", "plain"],
        ["aux", "plain"],
    ]
    assert [found[0][f"aux.{i}"]["mean"] for i in range(3)] == [1, 2, 3]
    assert found[0]["aux.0"]["shape"] == [2, 4]


def check_what_cannot_be_summarised_is_only_described():
    world = World()
    odd = [
        torch.empty(2, 2, device="meta"),
        torch.zeros(0, 4),
        torch.eye(2).to_sparse(),
        torch.zeros(2, dtype=torch.cfloat),
    ]

    class Odd:
        def forward(self):
            return odd

    world.probe.install({"Odd": Odd}, "a.py", ABOUT, [with_tensors({**LOGITS, "object": "Odd.forward"}, out="return")])
    Odd().forward()
    line = world.lines[-1]
    assert line["kind"] == "record"
    assert [set(tensor) for tensor in line["tensors"].values()] == [{"shape", "dtype", "device"}] * 4


def check_parameters_and_inference_tensors_are_fine():
    world = World(with_tensors(TARGET, ids="args.ids", out="return.0"))
    world.call("Target", torch.nn.Parameter(torch.ones(2, 2)))
    with torch.inference_mode():
        world.call("Target", torch.ones(2, 2))
    assert [line["tensors"]["ids"]["mean"] for line in world.lines if line["kind"] == "record"] == [1, 1]


def check_when_every_and_max_records_choose():
    only = {**TARGET, "when": ["DECODE"]}
    world = World(only)
    for mode in ("EXTEND", "DECODE", "EXTEND"):
        world.call("Target", torch.ones(1), mode)
    assert world.records("mode", "step") == [("DECODE", 2)]
    world = World({**TARGET, "every": 3}, {**LOGITS, "every": 3})
    for _ in range(7):
        world.call("Target", torch.ones(1))
    assert world.records("tap", "step") == [(tap, n) for n in (1, 4, 7) for tap in ("logits-processor", "target")]
    world = World({**TARGET, "max_records": 2})
    for _ in range(5):
        world.call("Target", torch.ones(1))
    assert world.records("step") == [(1,), (2,)]


def check_what_runs_before_any_forward_is_no_record():
    world = World({**DRAFT, "encloses": False}, TARGET)
    world.call("Draft", torch.ones(1))
    assert world.lines == []  # the rank is not known yet, so neither is the file
    world.call("Target", torch.ones(1))
    found = [(line["kind"], line.get("role"), line.get("step")) for line in world.lines]
    assert found == [("setup", "draft", 0), ("proof", None, None), ("record", "target", 1)]


# --- it never hurts ---------------------------------------------------------------------------------------------------


def check_an_exception_of_the_server_passes_and_the_role_ends_with_it():
    world = World(LOGITS)

    class Failing:
        def forward(self, batch):
            raise ValueError("the server's own")

    world.probe.install({"Failing": Failing}, "a.py", ABOUT, [{**TARGET, "object": "Failing.forward"}])
    with contextlib.suppress(ValueError):
        Failing().forward(Batch())
        raise AssertionError("it was swallowed")
    world.space["Logits"]().forward(torch.ones(1))
    assert world.lines[-1]["role"] == "unknown"


def check_a_tap_that_fails_is_off_and_the_others_go_on():
    broken = {**with_tensors(LOGITS, out="return"), "values": [{"name": "x", "path": "args.scale", "as": "len"}]}
    world = World(TARGET, broken)
    world.space["Logits"].forward.__defaults__ = None
    result = world.call("Target", torch.ones(2))
    world.space["Logits"]().forward(torch.ones(2), 3)
    assert torch.equal(result[0], torch.full((2,), 2.0))
    off = [line for line in world.lines if line["kind"] == "off"]
    assert len(off) == 1
    assert off[0]["tap"] == "logits-processor"
    assert len(world.said.getvalue().splitlines()) <= 1
    world.call("Target", torch.ones(2))
    assert [tap for (tap,) in world.records("tap")].count("target") == 2


def check_a_trace_folder_that_cannot_be_written_wraps_nothing():
    world = World(TARGET, folder="/nonexistent/trace")
    assert vars(world.space["Target"])["forward"] is world.originals["Target"]
    with contextlib.redirect_stderr(world.said):
        world.probe.install(world.space, "b.py", ABOUT, [LOGITS])
    assert vars(world.space["Logits"])["forward"] is world.originals["Logits"]
    said = world.said.getvalue().splitlines()
    assert len(said) == 1
    assert "/nonexistent/trace" in said[0]


def check_a_full_disk_ends_the_trace_and_not_the_server():
    world = World(with_tensors(TARGET, ids="args.ids"))
    world.call("Target", torch.ones(2))
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    written = sum(file.stat().st_size for file in world.folder.iterdir())
    resource.setrlimit(resource.RLIMIT_FSIZE, (written, limits[1]))
    try:
        for _ in range(3):
            result = world.call("Target", torch.ones(2))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert torch.equal(result[0], torch.full((2,), 2.0))
    assert world.said.getvalue().count("the trace ends here") == 1
    assert world.records("step") == [(1,)]


def check_after_the_size_limit_lines_are_counted_and_not_written():
    world = World(TARGET, about={**ABOUT, "max_mb": 0})
    for _ in range(9):
        world.call("Target", torch.ones(1))
    assert [line["kind"] for line in world.lines] == ["proof", *["dropped"] * 4]
    assert [line["count"] for line in world.lines[1:]] == [1, 2, 4, 8]


def check_the_trace_is_private_and_a_second_process_of_the_rank_has_its_own():
    world = World(TARGET)
    world.call("Target", torch.ones(1))
    second = World(TARGET, folder=world.folder)
    second.call("Target", torch.ones(1))
    files = sorted(file.name for file in world.folder.iterdir())
    assert files == [f"rank0.{os.getpid()}.jsonl", "rank0.jsonl"]
    assert {file.stat().st_mode & 0o777 for file in world.folder.iterdir()} == {0o600}


def check_nothing_is_recorded_while_a_graph_is_captured():
    world = World(TARGET)
    kept = torch.cuda.is_initialized, torch.cuda.is_current_stream_capturing
    torch.cuda.is_initialized = torch.cuda.is_current_stream_capturing = lambda: True
    try:
        world.call("Target", torch.ones(2))
    finally:
        torch.cuda.is_initialized, torch.cuda.is_current_stream_capturing = kept
    assert world.lines == []
    world.call("Target", torch.ones(2))
    assert world.records("step") == [(1,)]


def check_torch_compile_sees_through_a_wrapper():
    world = World(with_tensors(LOGITS, out="return"))
    model = world.space["Logits"]()
    compiled = torch.compile(lambda x: model.forward(x) + 1, backend="eager", fullgraph=True)
    assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 3.0))
    assert world.lines == []


def checks():
    return {name: work for name, work in globals().items() if name.startswith("check_")}


def outcome(work):
    try:
        work()
    except Exception:
        return traceback.format_exc(limit=-3)
    return None


if __name__ == "__main__":
    wanted = sys.argv[2:] or list(checks())
    print(json.dumps({name: outcome(functools.partial(checks()[name])) for name in wanted}))
