"""The probe: wraps methods of a running SGLang and writes what passes through them, as JSON lines, one file a rank.

Shipped to the host as one file (hence its length) and loaded by path from the footers of the patched modules, once a
process. It stores no tensor, takes part in no collective, is silent while a CUDA graph is captured and under
torch.compile, and never raises into the server: a tap that fails is switched off with one line in the trace and one on
stderr. Standard library; torch only where SGLang has imported it already. Python 3.8 syntax. The lines that it writes
are described in docs/runbooks/read-the-debug-trace.md.
"""

from __future__ import annotations

import contextlib
import enum
import functools
import inspect
import json
import math
import os
import sys
import tempfile
import threading
import time
import zlib
from typing import Any, Callable, Dict, List, Optional, Tuple

Json = Dict[str, Any]

LIST_LIMIT = 16  # of small values: ids, accepted tokens
CPU_BLOCK = 1 << 18  # elements: 1 MiB of float32, which stays in the L2 cache
DOT = 4096  # elements of one float32 sum of squares
DEVICE_BLOCK = 1 << 20  # elements: 8 MiB of float64 and a few temporaries beside a server that has filled its GPU


def torch() -> Any:
    return sys.modules["torch"]


# --- where the lines go -----------------------------------------------------------------------------------------------


class Trace:
    """`<folder>/rank<N>.jsonl` of this process, opened at the first line, when the rank is known.

    A second process with the same rank (data-parallel replicas, a restart into the same folder) writes
    `rank<N>.<pid>.jsonl`. After `max_bytes` nothing is written but how many lines were dropped, at each power of two.
    """

    def __init__(self, folder: str, max_bytes: int) -> None:
        self.folder, self.max_bytes = folder, max_bytes
        self.rank, self.written, self.dropped, self.dead = 0, 0, 0, False
        self._fd: Optional[int] = None
        self._early: List[Tuple[str, Json]] = []  # what was said before the rank was known
        self._lock = threading.Lock()

    def write(self, kind: str, line: Json) -> None:
        with self._lock:
            if self.dead:
                return
            try:
                self._early.append((kind, line))
                if self._fd is not None or kind != "setup" or ranks_are_known():
                    while self._early:
                        self._put(*self._early.pop(0))
            except OSError as error:
                self.dead = True
                say("the trace ends here: %s" % error)

    def _put(self, kind: str, line: Json) -> None:
        fd = self._fd = self._open() if self._fd is None else self._fd
        if self.written >= self.max_bytes and kind == "record":
            self.dropped += 1
            if self.dropped & (self.dropped - 1):
                return
            kind, line = "dropped", {"count": self.dropped, "max_mb": self.max_bytes >> 20}
        head = {"kind": kind, "time": round(time.time(), 6), "rank": self.rank}
        data = json.dumps({**head, **line}, separators=(",", ":")).encode() + b"\n"
        # One write a line: a reader never sees half of one, unless the disk is full.
        self.written += os.write(fd, data)

    def _open(self) -> int:
        self.rank = world_rank()
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_EXCL
        path = os.path.join(self.folder, "rank%d.jsonl" % self.rank)
        try:
            return os.open(path, flags, 0o600)
        except FileExistsError:
            return os.open(path[: -len("jsonl")] + "%d.jsonl" % os.getpid(), flags, 0o600)


def say(text: str) -> None:
    with contextlib.suppress(Exception):  # a closed stderr is no reason to disturb the server
        sys.stderr.write("sglfab: [pid %d] %s\n" % (os.getpid(), text))
        sys.stderr.flush()


def ranks_are_known() -> bool:
    distributed = torch().distributed
    return bool(distributed.is_available() and distributed.is_initialized())


def world_rank() -> int:
    return int(torch().distributed.get_rank()) if ranks_are_known() else 0


def parallel_ranks() -> Json:
    """SGLang's own tp_rank and pp_rank, where this release tells them by these names."""
    state, ranks = sys.modules.get("sglang.srt.distributed.parallel_state"), {}
    for name, kind in (("tp_rank", "tensor"), ("pp_rank", "pipeline")):
        with contextlib.suppress(Exception):
            ranks[name] = int(getattr(state, "get_%s_model_parallel_rank" % kind)())
    return ranks


# --- paths of the patch set -------------------------------------------------------------------------------------------


def steps_of(path: str) -> List[Any]:
    return [int(step) if step.isdigit() else step for step in path.split(".")]


def walk(value: Any, steps: List[Any]) -> Any:
    """The value at the end of a path; None where this release, or this call, has none."""
    for step in steps:
        if value is None:
            return None
        if not isinstance(step, int):
            value = attribute(value, step)
        elif isinstance(value, (tuple, list)):
            value = value[step] if step < len(value) else None
        elif step:
            return None  # what is no tuple counts as a tuple of one
    return value


def attribute(value: Any, name: str) -> Any:
    try:
        return getattr(value, name, None)
    except Exception:
        return None  # a property of SGLang that asserts


class Call:
    """One call of a wrapped method, as the paths see it."""

    def __init__(self, names: Dict[str, int], args: Tuple[Any, ...], kwargs: Json) -> None:
        self._names, self._args, self._kwargs = names, args, kwargs
        self.result: Any = None

    def at(self, steps: List[Any]) -> Any:
        root = steps[0]
        if root == "args":
            return walk(self._argument(steps[1]), steps[2:])
        return walk(self.result if root == "return" else self._args[0], steps[1:])

    def _argument(self, name: str) -> Any:
        if name in self._kwargs:
            return self._kwargs[name]
        place = self._names.get(name, len(self._args))
        return self._args[place] if place < len(self._args) else None


# --- small values -----------------------------------------------------------------------------------------------------


def is_tensor(value: Any) -> bool:
    return isinstance(value, torch().Tensor)


def plain(value: Any) -> Any:
    """A small value as JSON, None for what is not small: numbers, texts, enum names, lists of them."""
    if isinstance(value, enum.Enum):
        return value.name
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, (tuple, list)):
        return [plain(item) for item in value[:LIST_LIMIT]]
    return None


def small_tensor(value: Any, verb: str) -> Any:
    """The few numbers of a tensor that `verb` asks for, still a tensor."""
    if verb == "argmax":
        return value[:LIST_LIMIT].argmax(dim=-1).reshape(-1)
    flat = value.detach().reshape(-1)
    if verb == "ends":
        return flat[:: max(1, flat.shape[0] - 1)][:2]
    return flat[:LIST_LIMIT]


def measure(value: Any, verb: str) -> Any:
    """`len` and `shape`, which need no look into the tensor."""
    if verb == "shape":
        return list(value.shape) if is_tensor(value) else None
    return int(value.shape[0]) if is_tensor(value) and value.dim() else len(value)


# --- statistics -------------------------------------------------------------------------------------------------------


def describe(tensor: Any) -> Json:
    return {"shape": list(tensor.shape), "dtype": str(tensor.dtype).replace("torch.", ""), "device": str(tensor.device)}


def rows_of(tensor: Any) -> Any:
    """The tensor as [rows, width], without a copy where it has two dimensions or fewer."""
    return tensor.reshape(1, -1) if tensor.dim() < 2 else tensor.flatten(1)


def blocks(rows: Any, size: int) -> Any:
    height = max(1, size // max(1, rows.shape[1]))
    return (rows[start : start + height] for start in range(0, rows.shape[0], height))


def summary(count: int, sums: List[float]) -> Json:
    """norm, mean, population std and absmax of the finite elements, from [sum, squares, absmax, nan, inf]."""
    total, squares, absmax, nan, inf = sums
    finite = max(1, count - int(nan) - int(inf))
    mean = total / finite
    spread = math.sqrt(max(0.0, squares / finite - mean * mean))
    return {"norm": math.sqrt(squares), "mean": mean, "std": spread, "absmax": absmax, "nan": int(nan), "inf": int(inf)}


def rounded(result: Json) -> Json:
    """Eight digits: float32 has no more, and a trace is read by people too."""
    return {name: float("%.8g" % x) if isinstance(x, float) else x for name, x in result.items()}


_scratch = threading.local()


def scratch(size: int) -> Any:
    """The one float32 buffer of this thread."""
    if getattr(_scratch, "buffer", None) is None or _scratch.buffer.shape[0] < size:
        _scratch.buffer = torch().empty(max(size, CPU_BLOCK), dtype=torch().float32)
    return _scratch.buffer[:size]


def cpu_statistics(tensor: Any, row_limit: int) -> Json:
    """One pass over blocks of rows through one float32 buffer; fp is the crc32 of the tensor's bytes in row order."""
    rows, sums, crc = rows_of(tensor), [0.0, 0.0, 0.0, 0, 0], 0
    for block in blocks(rows, CPU_BLOCK):
        flat = scratch(block.numel())
        flat.view(block.shape).copy_(block)
        add_block(sums, flat)
        crc = zlib.crc32(raw_bytes(block), crc)
    result = summary(tensor.numel(), sums)
    if sums[0] and result["std"] < 0.1 * abs(result["mean"]):
        result["std"] = shifted_spread(rows, result["mean"])  # a mean that dwarfs the spread cancels in float32
    result = rounded(result)
    result["fp"] = "%08x" % crc
    if 1 < rows.shape[0] <= row_limit:
        result["rows"] = ["%08x" % zlib.crc32(raw_bytes(row)) for row in rows]
    return result


def add_block(sums: List[float], flat: Any) -> None:
    squares = sum_of_squares(flat)
    if not math.isfinite(squares):
        add_wide_block(sums, flat)
        return
    low, high = flat.aminmax()
    sums[0] += float(flat.sum())
    sums[1] += squares
    sums[2] = max(sums[2], -float(low), float(high))


def sum_of_squares(flat: Any) -> float:
    """Short dot products, added up in float64: one long float32 sum of like numbers is off by 2e-5 (torch 2.13)."""
    whole = flat.shape[0] - flat.shape[0] % DOT
    total = float(flat[whole:].dot(flat[whole:]))
    if whole:
        lines = flat[:whole].view(-1, 1, DOT)
        total += float(lines.bmm(lines.transpose(1, 2)).sum(dtype=torch().float64))
    return total


def add_wide_block(sums: List[float], flat: Any) -> None:
    """A block with NaN or Inf, or whose squares overflow float32."""
    sums[3] += int(flat.isnan().sum())
    sums[4] += int(flat.isinf().sum())
    wide = flat.double().nan_to_num_(0.0, 0.0, 0.0)
    sums[0] += float(wide.sum())
    sums[1] += float(wide.dot(wide))
    sums[2] = max(sums[2], float(wide.abs().max()))


def shifted_spread(rows: Any, mean: float) -> float:
    total, count = 0.0, 0
    for block in blocks(rows, CPU_BLOCK):
        wide = block.double().sub_(mean)
        wide = wide[wide.isfinite()]
        total, count = total + float(wide.dot(wide)), count + wide.numel()
    return math.sqrt(total / max(1, count))


def raw_bytes(block: Any) -> Any:
    return block.contiguous().view(torch().uint8).numpy()


def device_sums(tensor: Any, row_limit: int) -> Any:
    """[sum, squares, absmax, nan, inf, fp high, fp low, then high and low a row] as float64, without a transfer.

    fp is a weighted sum of the words modulo 2**64: unlike a plain sum, it sees swapped rows and columns.
    """
    t, rows = torch(), rows_of(tensor)
    parts: List[Any] = []
    row_prints = []
    for block in blocks(rows, DEVICE_BLOCK):
        wide = block.to(t.float64)
        nan, inf = wide.isnan().sum(), wide.isinf().sum()
        wide = wide.nan_to_num(0.0, 0.0, 0.0)
        parts.append(t.stack([wide.sum(), (wide * wide).sum(), wide.abs().amax(), nan.double(), inf.double()]))
        row_prints.append((words(block) * weights(block.shape[1], block.device)).sum(dim=1))
    stacked, prints = t.stack(parts), t.cat(row_prints)
    sums = stacked.sum(dim=0)
    sums[2] = stacked[:, 2].amax()
    whole = (prints * weights(prints.shape[0], prints.device)).sum().reshape(1)
    kept = prints if 1 < rows.shape[0] <= row_limit else prints[:0]
    return t.cat([sums, halves(t.cat([whole, kept]))])


def halves(prints: Any) -> Any:
    """64-bit integers as pairs of 32-bit ones, which float64 holds exactly."""
    return torch().stack([(prints >> 32) & 0xFFFFFFFF, prints & 0xFFFFFFFF], dim=1).reshape(-1).double()


def words(block: Any) -> Any:
    t = torch()
    kinds = {1: t.uint8, 2: t.int16, 4: t.int32, 8: t.int64}
    return block.contiguous().view(kinds[block.element_size()]).to(t.int64)


@functools.lru_cache(maxsize=32)
def weights(size: int, device: Any) -> Any:
    """Odd 64-bit weights, far from linear in their place (the mixing steps of splitmix64)."""
    mixed = (torch().arange(1, size + 1, dtype=torch().int64, device=device)) * -7046029254386353131
    mixed = (mixed ^ (mixed >> 30)) * -4658895280553007687
    return (mixed ^ (mixed >> 27)) | 1


def device_statistics(count: int, sums: List[float]) -> Json:
    result = rounded(summary(count, sums[:5]))
    prints = ["%08x" % (int(sums[i]) ^ int(sums[i + 1])) for i in range(5, len(sums), 2)]
    result["fp"] = prints[0]
    if prints[1:]:
        result["rows"] = prints[1:]
    return result


class Readings:
    """What one record will say. Numbers that are still on a device wait here and come over in one transfer."""

    def __init__(self) -> None:
        self.tensors: Json = {}
        self.values: Json = {}
        self._waiting: List[Tuple[Any, Callable[[List[float]], None]]] = []

    def add_tensor(self, name: str, tensor: Any, row_limit: int) -> None:
        line = self.tensors[name] = describe(tensor)
        if not tensor.numel() or tensor.device.type == "meta" or tensor.is_sparse or tensor.is_complex():
            return
        tensor = tensor.detach()
        if tensor.device.type == "cpu":
            line.update(cpu_statistics(tensor, row_limit))
            return
        count = tensor.numel()
        self._later(device_sums(tensor, row_limit), lambda sums: line.update(device_statistics(count, sums)))

    def add_value(self, name: str, value: Any, verb: str) -> None:
        if value is None:
            return
        if verb in ("len", "shape"):
            self.values[name] = measure(value, verb)
        elif is_tensor(value):
            small = small_tensor(value, verb)
            scalar, number = not value.dim(), (float if small.is_floating_point() else int)
            self._later(small, lambda found: self._set(name, [number(x) for x in found], scalar))
        else:
            self.values[name] = plain(value)

    def _set(self, name: str, found: List[Any], scalar: bool) -> None:
        self.values[name] = found[0] if scalar else found

    def _later(self, tensor: Any, finish: Callable[[List[float]], None]) -> None:
        if tensor.device.type == "cpu":
            finish(tensor.tolist())
        else:
            self._waiting.append((tensor.double(), finish))

    def fetch(self) -> None:
        if not self._waiting:
            return
        numbers = torch().cat([tensor for tensor, _ in self._waiting]).tolist()
        for tensor, finish in self._waiting:
            finish(numbers[: tensor.shape[0]])
            numbers = numbers[tensor.shape[0] :]


# --- taps -------------------------------------------------------------------------------------------------------------


class Tap:
    """One tap of the patch set in this process, with the paths taken apart."""

    def __init__(self, shape: Json, names: Dict[str, int]) -> None:
        self.name, self.role, self.encloses = shape["tap"], shape["role"], shape.get("encloses", False)
        self.when, self.every = frozenset(shape.get("when", ())), shape.get("every", 1)
        self.max_records = shape.get("max_records", 0)
        self.mode = steps_of(shape["mode"]) if "mode" in shape else None
        self.tensors = [
            (r["name"], steps_of(r["path"]), self._split(r), r.get("rows", 0)) for r in shape.get("tensors", ())
        ]
        self.values = [(r["name"], steps_of(r["path"]), r.get("as", "")) for r in shape.get("values", ())]
        self.names, self.records, self.off = names, 0, False

    @staticmethod
    def _split(rule: Json) -> Optional[List[Any]]:
        return steps_of(rule["split"]) if "split" in rule else None

    def read(self, call: Call, readings: Readings, before: bool) -> None:
        """Arguments before the call (SGLang changes some in place), the rest after it."""
        for name, steps, split, row_limit in self.tensors:
            if (steps[0] == "args") == before:
                for label, tensor in pieces(name, call.at(steps), call.at(split) if split else None):
                    readings.add_tensor(label, tensor, row_limit)
        for name, steps, verb in self.values:
            if (steps[0] == "args") == before:
                readings.add_value(name, call.at(steps), verb)


def pieces(name: str, value: Any, split: Any) -> List[Tuple[str, Any]]:
    """A tensor, the tensors of a list, or a packed tensor cut into as many pieces as `split` is long."""
    if isinstance(value, (tuple, list)):
        return [("%s.%d" % (name, i), item) for i, item in enumerate(value) if is_tensor(item)]
    if not is_tensor(value):
        return []
    count = split if isinstance(split, int) else len(split or ())
    if count < 2 or not value.dim() or value.shape[-1] % count:
        return [(name, value)]
    return [("%s.%d" % (name, i), item) for i, item in enumerate(value.chunk(count, dim=-1))]


class Forward:
    """The outermost forward that runs now: what records inside it inherit."""

    def __init__(self, role: str, mode: Any, step: int, call: int) -> None:
        self.role, self.mode, self.step, self.call = role, mode, step, call


class Probe:
    """All taps of one process."""

    def __init__(self, about: Json, trace: Trace) -> None:
        self.about, self.trace = about, trace
        self.files: Dict[str, int] = {}
        self.missing: List[str] = []
        self.calls: Dict[str, int] = {}
        self.step, self.proved, self.waited = 0, False, False
        self._local = threading.local()

    def install(self, namespace: Json, module: str, taps: List[Json]) -> None:
        """Wrap the objects of one module. Those that are not there are told by the proof."""
        wrapped = 0
        for shape in taps:
            owner_name, method = shape["object"].split(".")
            owner = namespace.get(owner_name)
            original = getattr(owner, method, None)
            if not inspect.isclass(owner) or not inspect.isfunction(original):
                self.missing.append(shape["tap"])
                continue
            setattr(owner, method, self.wrap(Tap(shape, parameter_places(original)), original))
            wrapped += 1
        self.files[module] = wrapped

    def wrap(self, tap: Tap, original: Callable[..., Any]) -> Callable[..., Any]:
        compiling, cuda = torch().compiler.is_compiling, torch().cuda

        @functools.wraps(original)  # SGLang asks for the signature of model.forward
        def sglfab_wrapper(*args: Any, **kwargs: Any) -> Any:
            if compiling():
                return original(*args, **kwargs)
            if cuda.is_initialized() and cuda.is_current_stream_capturing():
                return original(*args, **kwargs)
            call = Call(tap.names, args, kwargs)
            forward = self._enter(tap, call)
            try:
                readings = self._begin(tap, call, forward)
                call.result = result = original(*args, **kwargs)
                if readings is not None:
                    self._end(tap, call, forward, readings)
                return result
            finally:
                if tap.encloses:
                    self._stack().pop()

        return sglfab_wrapper

    def _stack(self) -> List[Forward]:
        if not hasattr(self._local, "stack"):
            self._local.stack = []
        stack: List[Forward] = self._local.stack
        return stack

    def _enter(self, tap: Tap, call: Call) -> Forward:
        stack = self._stack()
        if not tap.encloses:
            return stack[-1] if stack else Forward("unknown", None, self.step, 0)
        self.step += tap.role == "target"
        number = self.calls[tap.role] = self.calls.get(tap.role, 0) + 1
        mode = call.at(tap.mode) if tap.mode else None
        stack.append(Forward(tap.role, getattr(mode, "name", None), self.step, number))
        if not self.proved:
            self._prove()
        return stack[-1]

    def _prove(self) -> None:
        """The proof line, at the first forward after every module of the set was installed."""
        waiting = [module for module in self.about["modules"] if module not in self.files]
        if waiting:
            if not self.waited:
                self.trace.write("waiting", {"modules": waiting})
            self.waited = True
            return
        self.proved = True
        line = {"pid": os.getpid(), "set": self.about["set"], "wrapped": sum(self.files.values())}
        self.trace.write("proof", {**line, "missing": self.missing, "files": self.files, **parallel_ranks()})

    def _begin(self, tap: Tap, call: Call, forward: Forward) -> Optional[Readings]:
        if tap.off or not self._wanted(tap, forward):
            return None
        readings = Readings()
        return readings if self._guarded(tap, tap.read, call, readings, True) else None

    def _wanted(self, tap: Tap, forward: Forward) -> bool:
        if tap.max_records and tap.records >= tap.max_records:
            return False
        if tap.when and forward.mode not in tap.when:
            return False
        return tap.every == 1 or not forward.call or forward.step % tap.every == 1

    def _end(self, tap: Tap, call: Call, forward: Forward, readings: Readings) -> None:
        if self._guarded(tap, tap.read, call, readings, False) and self._guarded(tap, readings.fetch):
            self._guarded(tap, self._record, tap, forward, readings)

    def _record(self, tap: Tap, forward: Forward, readings: Readings) -> None:
        tap.records += 1
        role = forward.role if tap.role == "enclosing" else tap.role
        place = {"role": role, "tap": tap.name, "mode": forward.mode, "step": forward.step, "call": forward.call}
        # What runs while the server is set up is told apart: only a forward's record proves that the forward is traced.
        kind = "record" if forward.call or tap.role == "enclosing" else "setup"
        self.trace.write(kind, {**place, "tensors": readings.tensors, "values": readings.values})

    def _guarded(self, tap: Tap, work: Callable[..., None], *args: Any) -> bool:
        try:
            with torch().no_grad():
                work(*args)
        except Exception as error:
            tap.off = True
            self.trace.write("off", {"tap": tap.name, "why": repr(error)[:500]})
            say("tap %s is off: %r" % (tap.name, error))
        return not tap.off


def parameter_places(original: Callable[..., Any]) -> Dict[str, int]:
    return {name: place for place, name in enumerate(inspect.signature(original).parameters)}


class Process:
    """What the three footers of one process share. refused: the trace folder cannot be written, nothing is wrapped."""

    probe: Optional[Probe] = None
    refused = False


def install(namespace: Json, module: str, about: Json, taps: List[Json]) -> None:
    """What the footer of a patched module calls: its globals, its path below sglang/, the set, and its taps."""
    if Process.refused:
        return
    if Process.probe is None:
        folder = os.environ["SGLFAB_TRACE_DIR"]
        try:
            with tempfile.TemporaryFile(dir=folder) as file:
                file.write(b"x")
                file.flush()
        except OSError as error:
            Process.refused = True
            say("no trace, nothing is wrapped: cannot write to %s: %s" % (folder, error))
            return
        Process.probe = Probe(about, Trace(folder, about["max_mb"] << 20))
    Process.probe.install(namespace, module, taps)
