"""A device that is none: tensors that say `cuda:0` and live on the CPU, copies that arrive late, graphs that replay.

It stands in for what a CPU can show of a GPU: which operations would make the host wait, that nothing is read before
its event, and that a captured graph updates its buffers without any Python of the model. Streams, pinned memory and the
rules of a real capture are not in it.
"""

import contextlib
import threading

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

aten = torch.ops.aten
WAITS = {
    aten._local_scalar_dense.default,
    aten.nonzero.default,
    aten.masked_select.default,
    aten.equal.default,
    aten.is_nonzero.default,
    aten._unique2.default,
}


def waits(function, args, kwargs):
    """Would the host wait for the device: a number is asked for, a shape depends on data, or a copy blocks."""
    if function in WAITS:
        return True
    if function is aten.index.Tensor:
        return any(index is not None and index.dtype == torch.bool for index in args[1])
    if function is aten.copy_.default:
        return (
            not args[0].is_cuda and args[1].is_cuda and not (args[2] if len(args) > 2 else kwargs.get("non_blocking"))
        )
    if function is aten._to_copy.default:
        to = kwargs.get("device")
        return args[0].is_cuda and to is not None and to.type == "cpu" and not kwargs.get("non_blocking")
    return False


class OnDevice(torch.Tensor):
    """A tensor whose device says `cuda:0`; `inner` holds its numbers.

    For torch itself, which was built without CUDA, it is one of the `meta` device.
    """

    device = torch.device("cuda:0")
    is_cuda, is_cpu, is_meta = True, False, False

    @staticmethod
    def __new__(cls, inner):
        shape = {"strides": inner.stride(), "storage_offset": inner.storage_offset(), "dtype": inner.dtype}
        return torch.Tensor._make_wrapper_subclass(cls, inner.size(), device="meta", **shape)

    def __init__(self, inner):
        self.inner = inner

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        raise AssertionError(f"{function} outside of the fake device")


class Device(TorchDispatchMode):
    """Runs everything, counts what would wait, and records what is captured."""

    def __init__(self):
        super().__init__()
        self.waits = []  # names of functions
        self.copies = 0  # asynchronous ones to the host
        self.under_way = []
        self.arrive = threading.Event()  # cleared: the copies that are under way do not arrive
        self.arrive.set()
        self.graph = None

    def tensor(self, inner):
        return OnDevice(inner)

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if waits(function, args, kwargs):
            self.waits.append(str(function))
        if function is aten.copy_.default and not args[0].is_cuda and args[1].is_cuda:
            self.copies += 1
            self.under_way.append((args[0], args[1].inner.clone()))
            return args[0]
        flat, _ = tree_flatten((args, kwargs))
        device = any(isinstance(x, OnDevice) for x in flat) or getattr(kwargs.get("device"), "type", "") == "cuda"
        if kwargs.pop("pin_memory", False):
            return function(*args, **kwargs).fill_(float("nan"))
        if not device:
            return function(*args, **kwargs)
        if getattr(kwargs.get("device"), "type", "") == "cuda":
            kwargs["device"] = torch.device("cpu")
        args, kwargs = tree_map(inner_of, (args, kwargs))
        result = function(*args, **kwargs)
        if self.graph is not None:
            self.graph.operations.append((function, args, kwargs, result))
        return tree_map(lambda x: outer_of(x, flat), result)


def inner_of(value):
    return value.inner if isinstance(value, OnDevice) else value


def outer_of(value, known):
    """An operation in place returns the tensor that it was given."""
    if not isinstance(value, torch.Tensor):
        return value
    return next((x for x in known if isinstance(x, OnDevice) and x.inner is value), OnDevice(value))


def make_event(device):
    class Event:
        def __init__(self, blocking=False):
            assert blocking, "the writer would spin"

        def record(self):
            self.copies, device.under_way = device.under_way, []

        def synchronize(self):
            assert device.arrive.wait(20), "the copies never arrived"
            for target, numbers in self.copies:
                target.copy_(numbers)

    return Event


def make_graph(device):
    class Graph:
        """Replays the recorded operations into the memory that the capture used."""

        def __init__(self):
            self.operations = []

        def capture_begin(self, pool=None, capture_error_mode="global"):
            device.graph = self

        def capture_end(self):
            device.graph = None

        def replay(self):
            for function, args, kwargs, result in self.operations:
                again = function(*args, **kwargs)
                for old, new in zip(tree_flatten(result)[0], tree_flatten(again)[0], strict=True):
                    if isinstance(old, torch.Tensor) and not same_memory(old, new):
                        old.copy_(new)

    return Graph


def same_memory(one, other):
    return one.untyped_storage().data_ptr() == other.untyped_storage().data_ptr()


@contextlib.contextmanager
def fake_cuda():
    """torch.cuda as the probe uses it, and every operation of this thread, on a Device."""
    device = Device()
    fakes = {
        "Event": make_event(device),
        "CUDAGraph": make_graph(device),
        "is_initialized": lambda: True,
        "is_current_stream_capturing": lambda: device.graph is not None,
        "_lazy_init": lambda: None,
    }
    kept = {name: getattr(torch.cuda, name) for name in fakes}
    for name, fake in fakes.items():
        setattr(torch.cuda, name, fake)
    try:
        with torch.no_grad(), device:
            yield device
    finally:
        for name, original in kept.items():
            setattr(torch.cuda, name, original)
