"""The probe on a real GPU: no forward synchronises, and graph-safe taps in a real CUDA graph."""

import torch
from statistics_checks import assert_close, exact
from world import LOGITS, TARGET, World, with_tensors

SAFE_TARGET = {**with_tensors(TARGET, ids="args.ids", out="return.0"), "graph_safe": True}
SAFE_TARGET["values"] = [{"name": "ends", "path": "args.ids", "as": "ends"}]
SAFE_LOGITS = {**with_tensors(LOGITS, hidden="args.hidden"), "graph_safe": True}
BATCH = type("Batch", (), {"mode": type("Mode", (), {"name": "DECODE"})()})()


def numbers(i):
    return torch.arange(1.0, 65537.0).reshape(64, 1024).mul(i).to(torch.bfloat16)


def check_a_forward_synchronises_nothing():
    world = World(SAFE_TARGET, SAFE_LOGITS)
    target, inputs = world.space["Target"](), numbers(1).cuda()
    target.forward(inputs, batch=BATCH)  # the first one makes the buffers
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        for _ in range(50):
            target.forward(inputs, batch=BATCH)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    lines = [line for line in world.lines if line["kind"] != "proof"]
    assert [line["kind"] for line in lines] == ["record"] * 102
    assert_close(lines[-1]["tensors"]["ids"], exact(numbers(1)), "eager")


def check_each_replay_of_a_real_graph_is_a_record():
    world = World(SAFE_TARGET, SAFE_LOGITS)
    target, inputs = world.space["Target"](), numbers(1).cuda()
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(20):  # warm-up, and work for the writer while the capture begins
            target.forward(inputs, batch=BATCH)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        out, _ = target.forward(inputs, batch=BATCH)
    for i in range(1, 6):
        inputs.copy_(numbers(i))
        graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(out, inputs * 2)
    replays = [line for line in world.lines if line.get("graph")]
    assert [line["kind"] for line in world.lines if line["kind"] == "off"] == []
    assert [(line["tap"], line["step"]) for line in replays] == [
        (tap, step) for step in range(21, 26) for tap in ("logits-processor", "target")
    ]
    for i, line in enumerate(replays[1::2], 1):
        assert_close(line["tensors"]["ids"], exact(numbers(i)), i)
        assert_close(line["tensors"]["out"], exact(numbers(i) * 2), i)
        assert line["values"]["ends"] == numbers(i).reshape(-1)[[0, -1]].tolist()
    assert [x["tensors"]["hidden"]["fp"] for x in replays[::2]] == [x["tensors"]["ids"]["fp"] for x in replays[1::2]]
