"""No forward waits for a device, and nothing is read before it arrived."""

import contextlib
import time

import torch
from fake_cuda import fake_cuda, waits
from statistics_checks import G, assert_close, exact
from torch.utils._python_dispatch import TorchDispatchMode
from world import ABOUT, DRAFT, LOGITS, TARGET, World, with_tensors

FULL = with_tensors(TARGET, ids="args.ids", logits="return.0")
FULL["tensors"] += [
    {"name": "pair", "path": "return.1", "rows": 16},
    {"name": "some", "path": "args.ids", "sample_rows": 2},
]
FULL["values"] = [{"name": verb, "path": "args.ids", "as": verb} for verb in ("list", "ends", "argmax", "len", "shape")]


class Count(TorchDispatchMode):
    """Counts what would wait, were the tensors on a device."""

    def __init__(self):
        super().__init__()
        self.waits = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if waits(function, args, kwargs or {}):
            self.waits.append(str(function))
        return function(*args, **(kwargs or {}))


def check_a_forward_on_a_device_waits_for_nothing():
    data = torch.randn(6, 32, generator=G)
    with fake_cuda() as device:
        world = World(FULL, with_tensors(LOGITS, out="return"), DRAFT)
        for _ in range(3):
            world.space["Target"]().forward(device.tensor(data), batch=None)
        assert device.waits == []
        assert device.copies == 6  # one a record
        world.flush()
        assert device.waits == []
    lines = [line for line in world.lines if line["kind"] == "record"]
    assert [line["tap"] for line in lines] == ["logits-processor", "target"] * 3
    target = lines[-1]["tensors"]
    wanted = {"ids": data, "logits": data * 2, "pair.0": data, "pair.1": data + 1, "some": data[::3]}
    for name, tensor in wanted.items():
        assert_close(target[name], exact(tensor), name)
        assert target[name]["device"] == "cuda:0"
    assert target["some"]["sampled"] == [2, 6]
    assert len(set(target["pair.0"]["rows"])) == 6
    assert target["pair.0"]["fp"] == target["ids"]["fp"] != target["logits"]["fp"]
    flat = data.reshape(-1)
    values = lines[-1]["values"]
    assert values["list"] == flat[:16].tolist()
    assert values["ends"] == flat[[0, -1]].tolist()
    assert values["argmax"] == data.argmax(dim=-1).tolist()
    assert (values["len"], values["shape"]) == (6, [6, 32])


def check_the_counter_sees_what_a_naive_patch_does():
    with fake_cuda() as device:
        tensor = device.tensor(torch.ones(4))
        for naive in (lambda: tensor.mean().item(), tensor.cpu, lambda: tensor[tensor > 0], tensor.nonzero):
            before = len(device.waits)
            with contextlib.suppress(Exception):
                naive()
            assert len(device.waits) > before
    with Count() as count:
        torch.ones(4).mean().item()
    assert len(count.waits) == 1


def check_a_forward_on_the_cpu_asks_for_no_number_either():
    """Small tensors are summed up by the writer; of big ones the host reads its own memory."""
    world = World(FULL, with_tensors(LOGITS, out="return"))
    broken = torch.full((600, 600), float("nan"))
    for tensor in (torch.randn(6, 32), torch.randn(600, 600), broken, torch.randn(600, 600) + 1000):
        with Count() as count:
            world.space["Target"]().forward(tensor, batch=None)
        assert count.waits == []
    assert len(world.records("tap")) == 8


def check_a_line_waits_for_its_numbers_and_the_forward_does_not():
    with fake_cuda() as device:
        world = World(with_tensors(TARGET, ids="args.ids"))
        device.arrive.clear()
        world.space["Target"]().forward(device.tensor(torch.ones(2, 2)), batch=None)
        time.sleep(0.1)
        assert not any("record" in (world.folder / name).read_text() for name in world.files)
        device.arrive.set()
    assert [line["tensors"]["ids"]["mean"] for line in world.lines if line["kind"] == "record"] == [1]


def check_arguments_on_a_device_are_read_before_the_call_changes_them():
    class Adder:
        def forward(self, positions):
            positions.add_(1)
            return positions

    tap = with_tensors({**LOGITS, "object": "Adder.forward"}, before="args.positions", after="return")
    tap["values"] = [{"name": "first", "path": "args.positions", "as": "list"}]
    for dtype in (torch.int64, torch.float64, torch.float32):
        with fake_cuda() as device:
            world = World()
            world.probe.install({"Adder": Adder}, "a.py", ABOUT, [tap])
            Adder().forward(device.tensor(torch.zeros(3, dtype=dtype)))
            world.flush()
        (line,) = (line for line in world.lines if line["kind"] == "record")
        assert [line["tensors"][name]["mean"] for name in ("before", "after")] == [0, 1]
        assert line["values"]["first"] == [0, 0, 0]


def check_numbers_that_are_none_stay_json():
    with fake_cuda() as device:
        world = World({**TARGET, "values": [{"name": "first", "path": "args.ids", "as": "list"}]})
        world.space["Target"]().forward(device.tensor(torch.tensor([float("nan"), 1.0, float("inf")])), batch=None)
        world.flush()
    assert world.records("values") == [({"first": ["nan", 1.0, "inf"]},)]
