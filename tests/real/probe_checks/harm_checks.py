"""Whatever goes wrong, the server goes on."""

import contextlib
import os
import resource
import signal

import torch
from world import ABOUT, LOGITS, TARGET, Batch, World, with_tensors


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


def check_a_line_that_cannot_be_computed_switches_its_tap_off_and_the_others_go_on():
    """A dtype that torch copies and does not convert: only the writer finds out."""

    class Passing:
        def forward(self, x):
            return x

    odd = torch.zeros(4, dtype=torch.uint8).view(torch.bits8)
    world = World(TARGET)
    world.probe.install(
        {"Passing": Passing}, "a.py", ABOUT, [with_tensors({**LOGITS, "object": "Passing.forward"}, x="return")]
    )
    with contextlib.redirect_stderr(world.said):
        for _ in range(3):
            assert Passing().forward(odd) is odd
            world.call("Target", torch.ones(1))
    assert [line["kind"] for line in world.lines] == ["off", "proof", "record", "record", "record"]
    assert world.said.getvalue().count("is off") == 1
