"""What taps choose, read and say."""

import inspect
import os

import torch
from world import ABOUT, DRAFT, LOGITS, TARGET, World, with_tensors


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
    assert world.files == []
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
