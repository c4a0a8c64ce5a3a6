"""What a checkpoint filled: the record of a tap on load_weights; and inserted statements."""

import concurrent.futures
import threading

import torch
from fake_cuda import fake_cuda
from world import ABOUT, LOGITS, TARGET, Batch, World

LOAD = {"tap": "draft-weights", "object": "Draft.load_weights", "role": "draft", "weights": "args.weights"}
LOAD["values"] = [{"name": "hot", "path": "self.hot_token_id", "as": "ends"}]


class Draft(torch.nn.Module):
    """As SGLang's LlamaForCausalLMEagle3: stacked parameters, a shard of one, an attribute from d2t, t2d left out."""

    def __init__(self):
        super().__init__()
        self.hot_token_id = None
        self.qkv = torch.nn.Parameter(torch.zeros(6, 4))
        self.fc = torch.nn.Linear(4, 3, bias=False)
        self.embed = torch.nn.Embedding(5, 4)
        self.register_buffer("scales", torch.ones(2))


def name_by_name(self, weights):
    parameters = dict(self.named_parameters())
    for name, weight in weights:
        if name == "d2t":
            self.hot_token_id = weight + torch.arange(weight.shape[0])
        elif name in ("q", "k", "v"):
            place = "qkv".index(name) * 2
            self.qkv.data[place : place + 2].copy_(weight)
        elif name in parameters:
            parameters[name].data.copy_(weight)
        elif name == "scales":
            self.scales.copy_(weight)


def all_at_once(self, weights):
    name_by_name(self, iter(list(weights)))


def in_threads(self, weights):
    for pair in weights:
        worker = threading.Thread(target=name_by_name, args=(self, [pair]))
        worker.start()
        worker.join()


def moved(self, weights):
    for name, weight in weights:
        if name == "fc.weight":
            self.fc.weight.data = weight
        elif name == "q":
            self.qkv.data[:2].copy_(weight)


def failing(self, weights):
    next(weights)
    raise KeyError("the server's own")


FULL = {
    "d2t": torch.tensor([0, 3, 5]),
    "t2d": torch.tensor([True, False]),
    "q": torch.ones(2, 4),
    "k": torch.ones(2, 4),
    "v": torch.ones(2, 4),
    "fc.weight": torch.ones(3, 4),
    "scales": torch.ones(2),
    "wide": torch.ones(6, 4),
}


def loaded(loader, names=tuple(FULL)[:7], weights=iter):
    """The values of the record, and the model, of one load."""
    world, owner = World(TARGET), type("Draft", (Draft,), {"load_weights": loader})
    world.probe.install({"Draft": owner}, "a.py", ABOUT, [LOAD])
    model = owner()
    with torch.no_grad():
        model.load_weights(weights([(name, FULL.get(name, torch.ones(1))) for name in names]))
    world.call("Target", torch.ones(1))
    (line,) = (line for line in world.lines if line["kind"] == "setup")
    return line["values"], model


def unfilled(values):
    return {x["name"]: (x["filled"], x["of"]) for x in values["unfilled"]["first"]}


def check_a_whole_checkpoint_leaves_the_embedding_that_the_target_shares():
    values, model = loaded(name_by_name)
    assert values["weights_seen"] == 7
    assert values["unmatched"] == {"total": 1, "first": ["t2d"]}
    assert unfilled(values) == {"embed.weight": (0, 20)}
    assert values["hot"] == [0, 7]
    assert model.qkv.sum() == 24


def check_names_that_nobody_takes_and_parameters_that_nobody_fills_are_named():
    values, _ = loaded(name_by_name, ("d2t", "q", "model.fc_norm.weight", "q"))
    assert values["unmatched"] == {"total": 1, "first": ["model.fc_norm.weight"]}
    assert unfilled(values) == {"qkv": (8, 24), "fc.weight": (0, 12), "embed.weight": (0, 20)}  # q twice counts once


def check_padding_counts_as_filled_and_a_parameter_that_is_only_cleared_does_not():
    def padded(self, weights):
        for _, weight in weights:
            self.qkv.data[:5].copy_(weight[:5])
            self.qkv.data[5:].fill_(0)
            self.fc.weight.data.zero_()

    values, _ = loaded(padded, ("wide",))
    assert unfilled(values) == {"fc.weight": (0, 12), "embed.weight": (0, 20)}


def check_an_attribute_that_is_set_again_is_a_match_each_time():
    def again(self, weights):
        for name, weight in weights:
            if name == "q":
                self.qkv.data[:2].copy_(weight)
            elif name == "d2t":
                self.hot_token_id = None  # the new tensor may lie where the old one was
                self.hot_token_id = weight + 1

    values, _ = loaded(again, ["q", *["d2t", "t2d"] * 20])
    assert values["unmatched"] == {"total": 20, "first": ["t2d"] * 16}


def check_long_lists_are_cut_and_counted():
    values, _ = loaded(name_by_name, [f"experts.{i}" for i in range(40)] + ["fc.weight"])
    assert values["unmatched"]["total"] == 40
    assert values["unmatched"]["first"] == [f"experts.{i}" for i in range(16)]


def check_a_loader_that_takes_all_names_first_is_not_judged_by_name():
    values, _ = loaded(all_at_once)
    assert values["unmatched"] is None
    assert values["unmatched_why"] == "the loader took every name before it copied anything"
    assert unfilled(values) == {"embed.weight": (0, 20)}


def check_a_loader_with_threads_is_not_judged_at_all():
    values, model = loaded(in_threads)
    assert (values["unmatched"], values["unfilled"]) == (None, None)
    assert "threads" in values["unmatched_why"]
    assert model.qkv.sum() == 24


def read_by_threads(pairs):
    """As SGLang's buffered_multi_thread_safetensors_weights_iterator, its default from 0.5.10 on."""
    with concurrent.futures.ThreadPoolExecutor(max_workers=4) as readers:
        for reading in [readers.submit(lambda pair=pair: pair) for pair in pairs]:
            yield reading.result()


def check_threads_that_read_the_files_are_none_that_copy():
    values, _ = loaded(name_by_name, weights=read_by_threads)
    assert values["unmatched"] == {"total": 1, "first": ["t2d"]}
    assert unfilled(values) == {"embed.weight": (0, 20)}
    values, _ = loaded(in_threads, weights=read_by_threads)
    assert (values["unmatched"], values["unfilled"]) == (None, None)


def check_weights_that_are_no_iterator_reach_the_loader_as_they_are():
    def measured(self, weights):
        assert len(weights) == 7
        name_by_name(self, weights)

    values, _ = loaded(measured, weights=list)
    assert (values["weights_seen"], values["unmatched"]) == (None, None)
    assert values["unmatched_why"] == "the weights come as a list"
    assert unfilled(values) == {"embed.weight": (0, 20)}


def check_a_parameter_with_new_memory_is_not_called_unfilled():
    values, _ = loaded(moved)
    assert unfilled(values) == {"qkv": (8, 24), "embed.weight": (0, 20)}


def check_an_exception_of_the_loader_passes():
    passed = None
    try:
        loaded(failing)
    except KeyError as error:
        passed = error
    assert passed.args == ("the server's own",)


def check_loading_is_the_same_with_and_without_the_probe():
    plain = Draft()
    name_by_name(plain, iter(FULL.items()))
    _, traced = loaded(name_by_name)
    for name, parameter in plain.named_parameters():
        if name != "embed.weight":
            assert torch.equal(parameter, dict(traced.named_parameters())[name])
    assert torch.equal(plain.hot_token_id, traced.hot_token_id)


# --- inserted statements ----------------------------------------------------------------------------------------------

LOCAL = {"tap": "rows", "insert": True, "role": "enclosing", "tensors": [{"name": "x", "path": "locals.doubled"}]}
LOCAL["values"] = [{"name": "n", "path": "locals.count"}, {"name": "gone", "path": "locals.nothing"}]
EDITED = """
_sglfab_local = None


class Inner:
    def forward(self, x, count=3):
        doubled = x * 2
        if _sglfab_local is not None: _sglfab_local("rows", locals())
        return doubled


class Outer:
    def forward(self, ids, batch):
        return Inner().forward(ids)
"""
OUTER = {**TARGET, "object": "Outer.forward"}


def edited(*taps):
    world, space = World(), {}
    exec(EDITED, space)  # what a patched module is, after its insertion
    world.probe.install(space, "a.py", ABOUT, list(taps))
    return world, space


def check_an_inserted_statement_records_local_variables():
    world, space = edited(OUTER, LOCAL)
    space["Outer"]().forward(torch.ones(2), batch=Batch("DECODE"))
    space["Inner"]().forward(torch.ones(2))
    proof, inner, _, alone = world.lines
    assert (proof["wrapped"], proof["missing"]) == (2, [])
    assert (inner["tap"], inner["role"], inner["mode"], inner["step"]) == ("rows", "target", "DECODE", 1)
    assert inner["tensors"]["x"]["mean"] == 2
    assert inner["values"] == {"n": 3}
    assert alone["role"] == "unknown"


def check_an_inserted_statement_never_raises():
    bad = {**LOCAL, "values": [{"name": "n", "path": "locals.count", "as": "len"}]}
    world, space = edited(OUTER, bad)
    for _ in range(2):
        assert space["Inner"]().forward(torch.ones(2)).sum() == 4
    space["_sglfab_local"]("nobody", {})
    assert [line["kind"] for line in world.lines] == ["off"]


def check_an_inserted_statement_without_the_probe_does_nothing():
    space = {}
    exec(EDITED, space)
    assert space["Inner"]().forward(torch.ones(2)).sum() == 4


def check_an_inserted_statement_is_silent_while_a_graph_is_captured_unless_it_is_safe():
    for safe, count in ((False, 0), (True, 2)):
        with fake_cuda() as device:
            world, space = edited(OUTER, {**LOCAL, "graph_safe": safe})
            inputs, graph = device.tensor(torch.ones(2)), torch.cuda.CUDAGraph()
            graph.capture_begin()
            space["Inner"]().forward(inputs)
            graph.capture_end()
            graph.replay()
            graph.replay()
            world.flush()
        assert len(world.lines) == count


def check_torch_compile_takes_an_edited_method():
    _, space = edited({**LOGITS, "object": "Inner.forward"}, LOCAL)
    compiled = torch.compile(space["Inner"]().forward, backend="eager")
    assert compiled(torch.ones(2)).sum() == 4
    assert compiled(torch.ones(2)).sum() == 4
