"""Graph-safe taps: part of what is captured, read after each replay; and nothing of any other tap is captured."""

import sys
import time

import torch
from fake_cuda import fake_cuda
from statistics_checks import assert_close, exact
from world import DRAFT, LOGITS, TARGET, World, with_tensors

SAFE = {"graph_safe": True}
SAFE_TARGET = {**with_tensors(TARGET, ids="args.ids", out="return.0"), **SAFE}
SAFE_TARGET["values"] = [
    {"name": "ends", "path": "args.ids", "as": "ends"},
    {"name": "rows", "path": "args.ids", "as": "len"},
]
SAFE_LOGITS = {**with_tensors(LOGITS, hidden="args.hidden"), **SAFE}


class Server:
    """Runs forwards as SGLang does: eager ones, then a capture into fixed inputs, then replays."""

    def __init__(self, device, *taps):
        self.device = device
        self.world = World(*taps)

    def forward(self, name, tensor, mode="DECODE"):
        batch = type("Batch", (), {"mode": type("Mode", (), {"name": mode})()})()
        return self.world.space[name]().forward(tensor, batch=batch)

    def capture(self, *calls):
        """A graph of the forwards `calls`: (name, input tensor of the graph)."""
        graph = torch.cuda.CUDAGraph()
        graph.capture_begin()
        for name, tensor in calls:
            self.forward(name, tensor)
        graph.capture_end()
        return graph

    def replay(self, graph, tensor, numbers):
        tensor.copy_(self.device.tensor(numbers))
        graph.replay()

    def said(self):
        self.world.flush()
        return [line for line in self.world.lines if line["kind"] in ("record", "off")]


def check_each_replay_writes_what_passed_through_it():
    with fake_cuda() as device:
        server = Server(device, SAFE_TARGET, SAFE_LOGITS)
        inputs = device.tensor(torch.zeros(3, 4))
        server.forward("Target", inputs)  # warm-up
        graph = server.capture(("Target", inputs))
        before = len(server.said())
        for i in range(1, 4):
            server.replay(graph, inputs, torch.arange(12.0).reshape(3, 4) * i)
        assert device.waits == []
        lines = server.said()
    assert before == 2  # of the warm-up: a capture leaves no line
    lines = lines[2:]
    assert [(line["tap"], line["step"], line["call"], line["graph"]) for line in lines] == [
        (tap, step, step, True) for step in (2, 3, 4) for tap in ("logits-processor", "target")
    ]
    for i, line in enumerate(lines[1::2], 1):
        numbers = torch.arange(12.0).reshape(3, 4) * i
        assert_close(line["tensors"]["ids"], exact(numbers), i)
        assert_close(line["tensors"]["out"], exact(numbers * 2), i)
        assert line["values"] == {"ends": [0, 11 * i], "rows": 3}
        assert (line["role"], line["mode"]) == ("target", "DECODE")
    prints = [line["tensors"]["ids"]["fp"] for line in lines[1::2]]
    assert len(set(prints)) == 3
    assert [line["tensors"]["hidden"]["fp"] for line in lines[::2]] == prints


def check_the_buffers_change_without_any_python_of_the_model():
    with fake_cuda() as device:
        server = Server(device, SAFE_TARGET)
        inputs = device.tensor(torch.zeros(3, 4))
        graph = server.capture(("Target", inputs))
        (slot,) = graph.sglfab_captured.slots
        seen = []

        def profile(frame, event, arg):
            seen.append(frame.f_code.co_name)

        for i in (1, 2):
            inputs.copy_(device.tensor(torch.full((3, 4), float(i))))
            profiled(profile, lambda: type(graph).replay.__wrapped__(graph))
            assert slot.inner[:2].tolist() == [12.0 * i, 12.0 * i * i]  # sum and squares of `ids`
        assert "forward" not in seen
        assert "sglfab_wrapper" not in seen
        assert "replay" in seen


def profiled(profile, work):
    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.setprofile(None)


def check_a_capture_takes_in_nothing_of_other_taps():
    with fake_cuda() as device:
        plain, traced = (
            Server(device),
            Server(device, with_tensors(TARGET, ids="args.ids"), with_tensors(LOGITS, x="return")),
        )
        inputs = device.tensor(torch.ones(3, 4))
        traced.forward("Target", inputs)
        bare = plain.capture(("Target", inputs))
        graph = traced.capture(("Target", inputs))
        assert [str(o[0]) for o in graph.operations] == [str(o[0]) for o in bare.operations]
        graph.replay()
        assert len(traced.said()) == 2


def check_a_graph_safe_tap_inside_a_forward_that_is_not_keeps_its_role():
    with fake_cuda() as device:
        server = Server(device, TARGET, SAFE_LOGITS)
        inputs = device.tensor(torch.ones(3, 4))
        graph = server.capture(("Target", inputs))
        graph.replay()
        graph.replay()
        assert [(line["tap"], line["role"], line["step"]) for line in server.said()] == [
            ("logits-processor", "target", 1),
            ("logits-processor", "target", 2),
        ]


def check_graphs_do_not_write_into_each_others_buffers_and_their_steps_join():
    with fake_cuda() as device:
        draft = {**with_tensors(DRAFT, ids="args.ids"), **SAFE}
        server = Server(device, SAFE_TARGET, draft)
        verify, small, chain = (device.tensor(torch.zeros(n, 4)) for n in (4, 1, 2))
        graphs = [server.capture(("Target", verify)), server.capture(("Target", small))]
        drafting = server.capture(("Draft", chain), ("Draft", chain))  # several forwards in one graph
        server.replay(graphs[1], small, torch.full((1, 4), 1.0))
        server.replay(drafting, chain, torch.full((2, 4), 2.0))
        server.replay(graphs[0], verify, torch.full((4, 4), 3.0))
        server.replay(drafting, chain, torch.full((2, 4), 4.0))
        found = [(x["role"], x["step"], x["call"], x["tensors"]["ids"]["mean"]) for x in server.said()]
    assert found == [
        ("target", 1, 1, 1),
        ("draft", 1, 1, 2),
        ("draft", 1, 2, 2),
        ("target", 2, 2, 3),
        ("draft", 2, 3, 4),
        ("draft", 2, 4, 4),
    ]


def check_when_every_and_max_records_choose_among_replays():
    for choice, steps in (({"every": 3}, [1, 4, 7]), ({"max_records": 2}, [1, 2]), ({"when": ["EXTEND"]}, [])):
        with fake_cuda() as device:
            server = Server(device, {**SAFE_TARGET, **choice})
            inputs = device.tensor(torch.ones(3, 4))
            graph = server.capture(("Target", inputs))
            for _ in range(7):
                graph.replay()
            assert [line["step"] for line in server.said()] == steps


def check_what_is_on_the_cpu_is_not_taken_for_what_a_replay_saw():
    with fake_cuda() as device:
        tap = {**with_tensors(LOGITS, hidden="args.hidden", scale="args.scale"), **SAFE}
        tap["values"] = [{"name": "scale", "path": "args.scale", "as": "list"}]
        server = Server(device, TARGET, tap)
        inputs = device.tensor(torch.ones(3, 4))
        logits, graph = server.world.space["Logits"](), torch.cuda.CUDAGraph()
        graph.capture_begin()
        logits.forward(inputs, scale=torch.tensor(2.0))
        graph.capture_end()
        graph.replay()
        (line,) = server.said()
    assert line["tensors"]["hidden"]["mean"] == 1
    assert set(line["tensors"]["scale"]) == {"shape", "dtype", "device"}
    assert line["values"] == {}


def check_the_writer_leaves_the_device_alone_while_a_graph_is_captured():
    with fake_cuda() as device:
        server = Server(device, SAFE_TARGET)
        inputs = device.tensor(torch.ones(3, 4))
        server.forward("Target", inputs)
        server.said()
        graph = torch.cuda.CUDAGraph()
        server.world.probe.GATHER_S = 0
        server.forward("Target", inputs)  # on its way to the writer
        graph.capture_begin()
        written = len(server.world.read("rank0.jsonl"))
        asked = []
        event = torch.cuda.Event
        kept, event.synchronize = event.synchronize, lambda self: asked.append(1) or kept(self)
        server.world.trace.put(server.world.probe.Line("record", {}, landed(server.world.probe, event)))
        time.sleep(0.1)
        assert asked == []
        graph.capture_end()
        server.world.flush()
        assert len(asked) in (1, 2)  # the forward's own as well, where the writer had not come to it before the capture
        assert len(server.world.read("rank0.jsonl")) > written


def landed(probe, event):
    """Readings with numbers that are under way, as an eager forward before the capture leaves them."""
    readings, landing = probe.Readings(), object.__new__(probe.Landing)
    landing._event, landing._host, landing.numbers = event(blocking=True), torch.zeros(1), []
    landing._event.record()
    readings.landing = landing
    return readings


def check_a_tap_that_fails_in_a_capture_is_off_and_the_capture_goes_on():
    with fake_cuda() as device:
        broken = {**SAFE_LOGITS, "values": [{"name": "x", "path": "args.hidden.shape.0", "as": "len"}]}
        server = Server(device, SAFE_TARGET, broken)
        inputs = device.tensor(torch.ones(3, 4))
        graph = server.capture(("Target", inputs))
        graph.replay()
        lines = server.said()
    assert [(line["kind"], line["tap"]) for line in lines] == [("off", "logits-processor"), ("record", "target")]


def check_a_server_without_graphs_never_notices():
    with fake_cuda() as device:
        server = Server(device, SAFE_TARGET)
        server.forward("Target", device.tensor(torch.ones(3, 4)))
        (line,) = server.said()
        assert "graph" not in line
