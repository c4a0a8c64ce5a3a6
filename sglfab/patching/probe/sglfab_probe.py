"""The probe: wraps methods of a running SGLang and writes what passes through them, as JSON lines, one file a rank.

Shipped to the host as one file (hence its length) and loaded by path from the footers of the patched modules, once a
process. It stores no tensor, takes part in no collective, makes no forward wait for a device, and never raises into
the server: a tap that fails is switched off with one line in the trace and one on stderr. While a CUDA graph is
captured only `graph_safe` taps work (docs/decisions/0003-graph-safe-taps.md); torch.compile sees none. Standard
library; torch only where SGLang has imported it already. Python 3.8 syntax. The lines that it writes are described in
docs/runbooks/read-the-debug-trace.md.
"""

from __future__ import annotations

import atexit
import bisect
import contextlib
import enum
import functools
import inspect
import json
import math
import os
import queue
import sys
import tempfile
import threading
import time
import zlib
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

Json = Dict[str, Any]

LIST_LIMIT = 16  # of small values: ids, accepted tokens
KEPT_BYTES = 1 << 16  # a tensor on the CPU up to this size is copied, and summed up by the writer
CPU_BLOCK = 1 << 18  # elements: 1 MiB of float32, which stays in the L2 cache
DOT = 4096  # elements of one float32 sum of squares
DEVICE_BLOCK = 1 << 20  # elements: 8 MiB of float64 and a few temporaries beside a server that has filled its GPU
SLOTS = 1 << 16  # float64 numbers of one buffer for graph-safe taps: 512 KiB
GATHER_S = 0.01  # lines come in bursts: one change of threads a burst, not one a line
BATCH = 512  # lines written at once
QUEUE_BYTES = 64 << 20  # of lines and copies that wait for the writer
LINE_BYTES = 2048  # what a waiting line counts beside its copies

encode = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode


def torch() -> Any:
    return sys.modules["torch"]


def say(text: str) -> None:
    with contextlib.suppress(Exception):  # a closed stderr is no reason to disturb the server
        sys.stderr.write("sglfab: [pid %d] %s\n" % (os.getpid(), text))
        sys.stderr.flush()


# --- where the lines go -----------------------------------------------------------------------------------------------


class Line:
    """One line of the trace on its way to the writer, with what is still to be computed for it."""

    def __init__(self, kind: str, place: Json, readings: Optional[Readings] = None, tap: Optional[Tap] = None) -> None:
        self.kind, self.place, self.readings, self.tap = kind, place, readings, tap
        self.time = time.time()
        self.size = LINE_BYTES + (readings.size if readings else 0)

    def text(self, rank: int) -> str:
        head = {"kind": self.kind, "time": round(self.time, 6), "rank": rank, **self.place}
        if self.readings is not None:
            self.readings.finish()
            head["tensors"], head["values"] = self.readings.tensors, self.readings.values
        return encode(head) + "\n"


class Parts:
    """The files of one process: `rank<N>.jsonl` with the beginning, then `rank<N>.part0002.jsonl` and so on.

    The first takes half of `max_bytes`, the others a quarter each; only the two newest of those are kept, so that the
    beginning and the end of a long trace are there. No file is ever renamed or written again.
    """

    def __init__(self, folder: str, rank: int, max_bytes: int) -> None:
        self._rank, self._stem, self._max_bytes = rank, os.path.join(folder, "rank%d" % rank), max_bytes
        self._fd, self._number, self._written, self._lines, self._dropped = -1, 1, 0, 0, 0
        self._newest: List[Tuple[str, int]] = []  # (path, lines) of the parts after the first, without the open one

    def write(self, texts: List[str]) -> None:
        if self._fd < 0:
            self._open_first()
        elif self._written >= self._max_bytes // (2 if self._number == 1 else 4):
            self._open_next()
        self._lines += len(texts)
        self._put("".join(texts))

    def _put(self, text: str) -> None:
        data = memoryview(text.encode())
        while data:  # a disk that is nearly full takes a part
            count = os.write(self._fd, data)
            self._written += count
            data = data[count:]

    def _open_first(self) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_EXCL
        try:
            self._fd = os.open(self._stem + ".jsonl", flags, 0o600)
        except FileExistsError:  # another process of this rank: a data-parallel replica, a restart into the same folder
            self._stem += ".%d" % os.getpid()
            self._fd = os.open(self._stem + ".jsonl", flags, 0o600)

    def _open_next(self) -> None:
        if self._number > 1:
            self._newest.append((self._path(), self._lines))
        os.close(self._fd)
        self._number, self._written, self._lines = self._number + 1, 0, 0
        self._fd = os.open(self._path(), os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_TRUNC, 0o600)
        if len(self._newest) == 2:
            path, lines = self._newest.pop(0)
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
            self._dropped += lines
            self._put(Line("dropped", {"count": self._dropped, "why": "max_mb"}).text(self._rank))

    def _path(self) -> str:
        return "%s.part%04d.jsonl" % (self._stem, self._number)


class Quiet:
    """Keeps the writer away from CUDA while a graph is captured: a foreign thread's call may break the capture."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._captures, self._busy = 0, False

    def begin(self) -> None:
        """Returns when the writer is out of CUDA, which is as long as the copies take that are under way."""
        with self._changed:
            self._captures += 1
            self._changed.wait_for(lambda: not self._busy, timeout=10)

    def end(self) -> None:
        with self._changed:
            self._captures = max(0, self._captures - 1)  # one that began before we were there
            self._changed.notify_all()

    @contextlib.contextmanager
    def cuda(self) -> Iterator[None]:
        with self._changed:
            self._changed.wait_for(lambda: not self._captures)
            self._busy = True
        try:
            yield
        finally:
            with self._changed:
                self._busy = False
                self._changed.notify_all()


class Trace:
    """The lines of this process, handed to one daemon thread that writes them in order.

    At most QUEUE_BYTES wait; what comes on top is counted in a `dropped` line. A forked child starts anew, with a file
    of its own. A line is written GATHER_S after it was put, or when a device has computed it: what a SIGKILL loses.
    """

    def __init__(self, folder: str, max_bytes: int, spoiled: Callable[[Tap, BaseException], Optional[Line]]) -> None:
        """spoiled: switches off the tap of a line that could not be computed; the line to write instead, or None."""
        self.folder, self._max_bytes, self._spoiled = folder, max_bytes, spoiled
        self.start()
        atexit.register(self.flush, 5.0)

    def start(self) -> None:
        self.rank, self.dead = 0, False
        self.quiet = Quiet()
        self._early: List[Line] = []  # what was said before the rank was known
        self._lock = threading.Lock()
        self._hurry = threading.Event()
        self._queue: Any = queue.SimpleQueue()
        self._waiting = self._lost = self._lost_told = 0
        self._parts: Optional[Parts] = None
        self._thread: Optional[threading.Thread] = None

    def put(self, line: Line) -> None:
        with self._lock:
            if self.dead:
                return
            if self._thread is None:
                self._early.append(line)
                if line.kind == "setup" and not ranks_are_known():
                    return
                try:
                    self._begin()
                except Exception as error:  # no thread, or no rank
                    self._end(error)
            elif self._waiting + line.size > QUEUE_BYTES:
                self._lost += 1
            else:
                self._waiting += line.size
                self._queue.put(line)

    def _begin(self) -> None:
        self.rank = world_rank()
        self._parts = Parts(self.folder, self.rank, self._max_bytes)
        for line in self._early:
            self._waiting += line.size
            self._queue.put(line)
        self._early = []
        self._thread = threading.Thread(target=self._run, name="sglfab-trace", daemon=True)
        self._thread.start()

    def flush(self, timeout_s: float) -> None:
        """Wait until what was put so far is written, or the trace is at its end."""
        done, ends = threading.Event(), time.monotonic() + timeout_s
        if self._thread is not None:
            self._queue.put(done)
            self._hurry.set()
            while not done.wait(0.02) and not self.dead and time.monotonic() < ends:
                pass

    def _run(self) -> None:
        try:
            with torch().no_grad():
                while True:
                    self._write(self._gather())
        except BaseException as error:
            self._end(error)

    def _end(self, error: BaseException) -> None:
        self.dead = True
        say("the trace ends here: %s" % error)
        self._queue = queue.SimpleQueue()  # frees the copies

    def _gather(self) -> List[Any]:
        batch = [self._queue.get()]
        self._hurry.wait(GATHER_S)
        self._hurry.clear()
        with contextlib.suppress(queue.Empty):
            while len(batch) < BATCH:
                batch.append(self._queue.get_nowait())
        return batch

    def _write(self, batch: List[Any]) -> None:
        lines = [item for item in batch if isinstance(item, Line)]
        texts = self._texts(lines)
        if self._lost > self._lost_told:
            self._lost_told = self._lost
            texts.append(Line("dropped", {"count": self._lost, "why": "queue"}).text(self.rank))
        assert self._parts is not None
        if texts:
            self._parts.write(texts)
        with self._lock:
            self._waiting -= sum(line.size for line in lines)
        for item in batch:
            if not isinstance(item, Line):
                item.set()

    def _texts(self, lines: List[Line]) -> List[str]:
        sum_up([kept for line in lines if line.readings for kept in line.readings.kept])
        texts = []
        for line in lines:
            try:
                if line.readings is not None and line.readings.landing is not None:
                    line.readings.landing.wait(self.quiet)
                texts.append(line.text(self.rank))
            except Exception as error:
                told = self._spoiled(line.tap, error) if line.tap is not None else None
                texts += [told.text(self.rank)] if told is not None else []
        return texts


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
    """One call of a wrapped method, or one passage of an inserted statement, as the paths see it."""

    def __init__(self, names: Dict[str, int], args: Tuple[Any, ...], kwargs: Json) -> None:
        """kwargs: for an inserted statement its local variables."""
        self._names, self.args, self.kwargs = names, args, kwargs
        self.result: Any = None

    def at(self, steps: List[Any]) -> Any:
        root = steps[0]
        if root in ("args", "locals"):
            return walk(self._argument(steps[1]), steps[2:])
        return walk(self.result if root == "return" else self.args[0], steps[1:])

    def _argument(self, name: str) -> Any:
        if name in self.kwargs:
            return self.kwargs[name]
        place = self._names.get(name, len(self.args))
        return self.args[place] if place < len(self.args) else None

    def replace(self, name: str, value: Any) -> None:
        if name in self.kwargs:
            self.kwargs = {**self.kwargs, name: value}
        else:
            place = self._names[name]
            self.args = (*self.args[:place], value, *self.args[place + 1 :])


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
    flat = value if value.dim() == 1 else value.reshape(-1)
    if verb == "ends":
        return flat[:: max(1, flat.shape[0] - 1)][:2]
    return flat if flat.shape[0] <= LIST_LIMIT else flat[:LIST_LIMIT]


def measure(value: Any, verb: str) -> Any:
    """`len` and `shape`, which need no look into the tensor."""
    if verb == "shape":
        return list(value.shape) if is_tensor(value) else None
    return int(value.shape[0]) if is_tensor(value) and value.dim() else len(value)


# --- statistics -------------------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=None)
def name_of(dtype: Any) -> str:
    return str(dtype).replace("torch.", "")


def describe(tensor: Any) -> Json:
    device = "cpu" if tensor.is_cpu else str(tensor.device)
    return {"shape": list(tensor.shape), "dtype": name_of(tensor.dtype), "device": device}


def rows_of(tensor: Any) -> Any:
    """The tensor as [rows, width], without a copy where it has two dimensions or fewer."""
    if tensor.dim() == 2:
        return tensor  # no operation: each lets go of the GIL, and the writer may take it
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


def hex_crc(data: Any, start: int = 0) -> str:
    return "%08x" % zlib.crc32(data, start)


def raw_bytes(block: Any) -> Any:
    return block.contiguous().view(torch().uint8).numpy()


class Kept:
    """A small tensor of the CPU, copied in the forward and summed up by the writer, together with others like it."""

    def __init__(self, rows: Any, row_limit: int, line: Json) -> None:
        """line: where the statistics go."""
        self.rows = rows.clone() if rows.is_contiguous() else rows.contiguous()
        self.row_limit, self.line = row_limit, line
        self.done = False


def sum_up(kept: List[Kept]) -> None:
    """The statistics of as many copies as have float64 sums without NaN and Inf; `finish` takes care of the others."""
    alike: Dict[Any, List[Kept]] = {}
    for copy in kept:
        alike.setdefault((copy.rows.dtype, copy.rows.shape), []).append(copy)
    for group in alike.values():
        # As few elements at once as torch sums up in one thread: the cores belong to the server.
        size = max(1, 32768 // group[0].rows.numel())
        for start in range(0, len(group), size):
            with contextlib.suppress(Exception):  # a dtype that cannot be stacked
                sum_up_alike(group[start : start + size])


def sum_up_alike(group: List[Kept]) -> None:
    stacked = torch().stack([copy.rows for copy in group]).flatten(1)
    wide = stacked.double()
    totals, squares = wide.sum(dim=1).tolist(), wide.square().sum(dim=1).tolist()
    absmax = wide.abs_().amax(dim=1).tolist()
    prints = raw_bytes(stacked)
    for i, copy in enumerate(group):
        if math.isfinite(totals[i]) and math.isfinite(squares[i]):
            copy.line.update(rounded(summary(stacked.shape[1], [totals[i], squares[i], absmax[i], 0, 0])))
            copy.line["fp"] = hex_crc(prints[i])
            if 1 < copy.rows.shape[0] <= copy.row_limit:
                copy.line["rows"] = [hex_crc(row) for row in prints[i].reshape(copy.rows.shape[0], -1)]
            copy.done = True


_scratch = threading.local()


def scratch(size: int) -> Any:
    """The one float32 buffer of this thread."""
    if getattr(_scratch, "buffer", None) is None or _scratch.buffer.shape[0] < size:
        _scratch.buffer = torch().empty(max(size, CPU_BLOCK), dtype=torch().float32)
    return _scratch.buffer[:size]


def cpu_statistics(rows: Any, row_limit: int) -> Json:
    """One pass over blocks of rows through one float32 buffer; fp is the crc32 of the tensor's bytes in row order.

    Numbers are read by `tolist`, straight from the host's memory: `float(…)` would ask as it asks a device.
    """
    sums, crc = [0.0, 0.0, 0.0, 0, 0], 0
    for block in blocks(rows, CPU_BLOCK):
        flat = scratch(block.numel())
        flat.view(block.shape).copy_(block)
        add_block(sums, flat)
        crc = zlib.crc32(raw_bytes(block), crc)
    result = summary(rows.numel(), sums)
    if sums[0] and result["std"] < 0.1 * abs(result["mean"]):
        # A mean that dwarfs the spread cancels in float32.
        result["std"] = shifted_spread(rows, result["mean"], rows.numel() - result["nan"] - result["inf"])
    result = rounded(result)
    result["fp"] = "%08x" % crc
    if 1 < rows.shape[0] <= row_limit:
        result["rows"] = [hex_crc(raw_bytes(row)) for row in rows]
    return result


def add_block(sums: List[float], flat: Any) -> None:
    squares = sum_of_squares(flat)
    if not math.isfinite(squares):
        add_wide_block(sums, flat)
        return
    low, high = flat.aminmax()
    sums[0] += flat.sum().tolist()
    sums[1] += squares
    sums[2] = max(sums[2], -low.tolist(), high.tolist())


def sum_of_squares(flat: Any) -> float:
    """Short dot products, added up in float64: one long float32 sum of like numbers is off by 2e-5 (torch 2.13)."""
    whole = flat.shape[0] - flat.shape[0] % DOT
    total: float = flat[whole:].dot(flat[whole:]).tolist()
    if whole:
        lines = flat[:whole].view(-1, 1, DOT)
        total += lines.bmm(lines.transpose(1, 2)).sum(dtype=torch().float64).tolist()
    return total


def add_wide_block(sums: List[float], flat: Any) -> None:
    """A block with NaN or Inf, or whose squares overflow float32."""
    sums[3] += flat.isnan().sum().tolist()
    sums[4] += flat.isinf().sum().tolist()
    wide = flat.double().nan_to_num_(0.0, 0.0, 0.0)
    sums[0] += wide.sum().tolist()
    sums[1] += wide.dot(wide).tolist()
    sums[2] = max(sums[2], wide.abs_().max().tolist())


def shifted_spread(rows: Any, mean: float, finite: int) -> float:
    total = 0.0
    for block in blocks(rows, CPU_BLOCK):
        wide = block.double().reshape(-1).sub_(mean).nan_to_num_(0.0, 0.0, 0.0)
        total += wide.dot(wide).tolist()
    return math.sqrt(total / max(1, finite))


def device_sums(rows: Any, row_limit: int, weights: Callable[[int, Any], Any]) -> Any:
    """[sum, squares, absmax, nan, inf, fp high, fp low, then high and low a row] as float64, without a transfer.

    fp is a weighted sum of the words modulo 2**64: unlike a plain sum, it sees swapped rows and columns.
    """
    t = torch()
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


def fresh_weights(size: int, device: Any) -> Any:
    """Odd 64-bit weights, far from linear in their place (the mixing steps of splitmix64)."""
    mixed = (torch().arange(1, size + 1, dtype=torch().int64, device=device)) * -7046029254386353131
    mixed = (mixed ^ (mixed >> 30)) * -4658895280553007687
    return (mixed ^ (mixed >> 27)) | 1


kept_weights = functools.lru_cache(maxsize=32)(fresh_weights)


def device_statistics(count: int, sums: List[float]) -> Json:
    result = rounded(summary(count, sums[:5]))
    prints = ["%08x" % (int(sums[i]) ^ int(sums[i + 1])) for i in range(5, len(sums), 2)]
    result["fp"] = prints[0]
    if prints[1:]:
        result["rows"] = prints[1:]
    return result


# --- what one record will say -----------------------------------------------------------------------------------------


class Landing:
    """Numbers on their way from a device: one asynchronous copy into pinned memory, and the event after it."""

    def __init__(self, parts: List[Any]) -> None:
        device = parts[0].device
        numbers = torch().cat(parts)
        self._host = torch().empty(numbers.shape, dtype=numbers.dtype, pin_memory=True)
        self._host.copy_(numbers, non_blocking=True)
        # Only CUDA's waits without spinning when it is asked to.
        self._event = getattr(torch(), device.type).Event(**({"blocking": True} if device.type == "cuda" else {}))
        self._event.record()
        self.numbers: List[float] = []

    def wait(self, quiet: Quiet) -> None:
        """In the writer only."""
        if self._event is not None:
            with quiet.cuda():
                self._event.synchronize()
                self.numbers = self._host.tolist()
                self._event = self._host = None


class Readings:
    """Statistics and small values of one call; what is on a device, or not summed up yet, is finished by the writer."""

    def __init__(self, captured: bool = False) -> None:
        """captured: a CUDA graph is being captured; what is on the CPU will not follow its replays, and is left out."""
        self.tensors: Json = {}
        self.values: Json = {}
        self.kept: List[Kept] = []
        self.size = 0  # bytes of the copies
        self.parts: List[Any] = []  # float64 numbers on a device,
        self.meanings: List[Tuple[str, str, Any, int]] = []  # and what they are: (tensor or value, name, how, how many)
        self.landing: Optional[Landing] = None
        self.offset = 0  # of our numbers in it
        self._captured = captured

    def add_tensor(self, name: str, tensor: Any, row_limit: int, sample: int) -> None:
        line = self.tensors[name] = describe(tensor)
        if not tensor.numel() or tensor.is_meta or tensor.is_sparse or tensor.dtype.is_complex:
            return
        rows = rows_of(tensor)
        if 0 < sample < rows.shape[0]:
            total = rows.shape[0]
            rows = rows[:: -(-total // sample)]
            line["sampled"] = [rows.shape[0], total]
        if not tensor.is_cpu:
            weights = fresh_weights if self._captured else kept_weights
            self._later("tensor", name, rows.numel(), device_sums(rows, row_limit, weights))
        elif self._captured:
            return
        elif (size := rows.numel() * rows.element_size()) <= KEPT_BYTES:
            self.kept.append(Kept(rows, row_limit, line))
            self.size += size
        else:
            line.update(cpu_statistics(rows, row_limit))

    def add_value(self, name: str, value: Any, verb: str) -> None:
        if value is None:
            return
        if verb in ("len", "shape"):
            self.values[name] = measure(value, verb)
        elif not is_tensor(value):
            self.values[name] = plain(value)
        elif not value.is_cpu:
            kind = float if value.dtype.is_floating_point and verb != "argmax" else int
            # A copy: SGLang changes some of these in place before the call ends.
            small = small_tensor(value, verb).to(torch().float64, copy=True)
            self._later("value" if value.dim() else "number", name, kind, small)
        elif not self._captured:
            found = small_tensor(value, verb).tolist()
            if value.dtype.is_floating_point:
                found = plain(found)
            self.values[name] = found if value.dim() else found[0]

    def _later(self, what: str, name: str, how: Any, part: Any) -> None:
        self.parts.append(part)
        self.meanings.append((what, name, how, part.shape[0]))

    def take_off(self) -> None:
        if self.parts:
            self.landing, self.parts = Landing(self.parts), []

    def replayed(self, landing: Optional[Landing], offset: int) -> Readings:
        """What the same call says after a replay of its graph, whose numbers land from `offset` on."""
        again = Readings()
        again.tensors = {name: dict(line) for name, line in self.tensors.items()}
        again.values, again.meanings = dict(self.values), self.meanings
        again.landing, again.offset = landing, offset
        return again

    def finish(self) -> None:
        for copy in self.kept:
            if not copy.done:
                copy.line.update(cpu_statistics(copy.rows, copy.row_limit))
        if self.landing is not None:
            place = self.offset
            for what, name, how, count in self.meanings:
                self._land(what, name, how, self.landing.numbers[place : place + count])
                place += count

    def _land(self, what: str, name: str, how: Any, numbers: List[float]) -> None:
        if what == "tensor":
            self.tensors[name].update(device_statistics(how, numbers))
        else:
            found = plain([how(number) for number in numbers])
            self.values[name] = found if what == "value" else found[0]


# --- taps -------------------------------------------------------------------------------------------------------------


class Tap:
    """One tap of the patch set in this process, with the paths taken apart."""

    def __init__(self, shape: Json, names: Dict[str, int]) -> None:
        self.name, self.role, self.encloses = shape["tap"], shape["role"], shape.get("encloses", False)
        self.when, self.every = frozenset(shape.get("when", ())), shape.get("every", 1)
        self.max_records, self.graph_safe = shape.get("max_records", 0), shape.get("graph_safe", False)
        self.mode = steps_of(shape["mode"]) if "mode" in shape else None
        self.weights = steps_of(shape["weights"]) if "weights" in shape else None
        tensors = [TensorPath(rule) for rule in shape.get("tensors", ())]
        values = [(r["name"], steps_of(r["path"]), r.get("as", "")) for r in shape.get("values", ())]
        # Arguments before the call (SGLang changes some in place), the rest after it.
        self.tensors = {early: [x for x in tensors if (x.steps[0] == "args") == early] for early in (True, False)}
        self.values = {early: [x for x in values if (x[1][0] == "args") == early] for early in (True, False)}
        self.names, self.records, self.off = names, 0, False

    def read(self, call: Call, readings: Readings, before: bool) -> None:
        for rule in self.tensors[before]:
            for label, tensor in rule.pieces(call):
                readings.add_tensor(label, tensor, rule.rows, rule.sample)
        for name, steps, verb in self.values[before]:
            readings.add_value(name, call.at(steps), verb)


class TensorPath:
    """One tensor rule of a tap."""

    def __init__(self, rule: Json) -> None:
        self.name, self.steps = rule["name"], steps_of(rule["path"])
        self.split = steps_of(rule["split"]) if "split" in rule else None
        self.rows, self.sample = rule.get("rows", 0), rule.get("sample_rows", 0)

    def pieces(self, call: Call) -> List[Tuple[str, Any]]:
        """A tensor, the tensors of a list, or a packed tensor cut into as many pieces as `split` is long."""
        value = call.at(self.steps)
        if isinstance(value, (tuple, list)):
            return [("%s.%d" % (self.name, i), item) for i, item in enumerate(value) if is_tensor(item)]
        if not is_tensor(value):
            return []
        split = call.at(self.split) if self.split else None
        count = split if isinstance(split, int) else len(split or ())
        if count < 2 or not value.dim() or value.shape[-1] % count:
            return [(self.name, value)]
        return [("%s.%d" % (self.name, i), item) for i, item in enumerate(value.chunk(count, dim=-1))]


class Forward:
    """The outermost forward that runs now: what records inside it inherit."""

    def __init__(self, role: str, mode: Any, step: int, call: int) -> None:
        self.role, self.mode, self.step, self.call = role, mode, step, call


# --- what a checkpoint fills ------------------------------------------------------------------------------------------


class Filling:
    """Follows one load_weights: which names of the checkpoint filled what, and which parameters stayed unfilled.

    A name is credited with what is copied, or set on the model, between its turn and the next one's.
    """

    def __init__(self, model: Any, weights: Any) -> None:
        self._model, self._weights = model, weights
        self._followed = hasattr(weights, "__next__")  # a list may be asked for more than its items
        self._threads = threading.active_count()  # grows with those that read the checkpoint
        self._blind = False  # some copies are made where we do not see them
        self._why = "" if self._followed else "the weights come as a %s" % type(weights).__name__
        self._parameters = dict(model.named_parameters())
        places = [(name, p) for name, p in self._parameters.items()] + list(model.named_buffers())
        self._spans = sorted((*span_of(p), name) for name, p in places if p.numel() and not p.is_meta)
        self._addresses = {name: p.data_ptr() for name, p in self._parameters.items() if not p.is_meta}
        self._filled: Dict[str, Dict[Any, int]] = {}  # parameter → distinct regions → elements
        self._attributes = self._attribute_tensors()
        self._seen, self._copies, self._credited = 0, 0, 0
        self._current: Optional[str] = None
        self._matched = False
        self._unmatched: List[str] = []

    def weights(self) -> Any:
        return self._turns() if self._followed else self._weights

    def _turns(self) -> Iterator[Any]:
        while True:
            self._end_turn()
            pair = self._next()
            if pair is None:
                return
            self._seen += 1
            self._current, self._matched = str(pair[0]), False
            yield pair

    def _next(self) -> Any:
        """The next pair. Threads that it starts only read the files (SGLang's default from 0.5.10 on)."""
        before = threading.active_count()
        pair = next(self._weights, None)
        self._threads += max(0, threading.active_count() - before)
        return pair

    def _end_turn(self) -> None:
        self._blind |= threading.active_count() > self._threads
        if self._current is None:
            return
        before, self._attributes = self._attributes, self._attribute_tensors()
        if not self._matched and not self._attributes.keys() - before.keys():
            self._unmatched.append(self._current)
        self._current = None

    def _attribute_tensors(self) -> Dict[int, Any]:
        """The tensors that hang on the model and its children beside parameters; held, so that no id is used again."""
        owners = (self._model, *self._model.children())
        return {id(value): value for owner in owners for value in vars(owner).values() if is_tensor(value)}

    def copying(self) -> Any:
        """A context in which every copy into a parameter is seen."""
        filling, aten = self, torch().ops.aten
        copies, fills = (aten.copy_.default,), (aten.fill_.Scalar, aten.zero_.default)
        dispatch_mode: Any = torch().utils._python_dispatch.TorchDispatchMode

        class Copies(dispatch_mode):  # type: ignore[misc]  # torch is not there when this file is checked
            def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
                if function in copies or function in fills:
                    with contextlib.suppress(Exception):
                        filling.note(args[0], padding=function in fills)
                return function(*args, **(kwargs or {}))

        return Copies()

    def note(self, target: Any, padding: bool) -> None:
        """One copy into `target`, or one constant, with which SGLang pads a part of a parameter."""
        place = self._place(*span_of(target))
        if not padding:
            self._copies += 1
            self._credited += self._current is not None
            self._matched |= place is not None or id(target) in self._attributes
        elif place in self._parameters and self._parameters[place].numel() == target.numel():
            return  # a whole parameter that is only cleared has not been filled
        if place is not None:
            regions = self._filled.setdefault(place, {})
            regions[target.data_ptr(), tuple(target.shape), target.stride()] = target.numel()

    def _place(self, start: int, end: int) -> Optional[str]:
        """The parameter or buffer that has these addresses."""
        at = bisect.bisect_right(self._spans, (start, sys.maxsize, "")) - 1
        return self._spans[at][2] if at >= 0 and end <= self._spans[at][1] else None

    def said(self) -> Json:
        if self._blind or not self._copies:
            self._blind, self._why = True, "the loader copies in other threads, or not at all"
        elif not self._credited and self._followed:
            self._why = "the loader took every name before it copied anything"
        line: Json = {"weights_seen": self._seen if self._followed else None, "unmatched": None}
        if self._why:
            line["unmatched_why"] = self._why
        else:
            line["unmatched"] = {"total": len(self._unmatched), "first": self._unmatched[:LIST_LIMIT]}
        line["unfilled"] = self._unfilled()
        return line

    def _unfilled(self) -> Optional[Json]:
        if self._blind:
            return None
        found = []
        for name, p in self._parameters.items():
            filled = sum(self._filled.get(name, {}).values())
            moved = self._addresses.get(name) != p.data_ptr()  # the loader gave it other memory: nothing can be said
            if filled < p.numel() and not moved:
                found.append({"name": name, "filled": filled, "of": p.numel()})
        return {"total": len(found), "first": found[:LIST_LIMIT]}


def span_of(tensor: Any) -> Tuple[int, int]:
    """First address and the one after the last, of what a tensor's strides reach."""
    reach = sum((n - 1) * tensor.stride(i) for i, n in enumerate(tensor.shape))
    start = int(tensor.data_ptr())
    return start, start + (reach + 1) * int(tensor.element_size())


# --- CUDA graphs ------------------------------------------------------------------------------------------------------


class Captured:
    """What the graph-safe taps left in one CUDA graph: its forwards in order, and the buffers of their records."""

    def __init__(self) -> None:
        self.forwards: List[Forward] = []
        self.calls: List[Tuple[Tap, Forward, Readings]] = []
        self.slots: List[Any] = []


class Graphs:
    """Follows torch.cuda.CUDAGraph: what is captured now, and when one was replayed.

    Its methods are wrapped, because a replay runs no Python of the model: it is the one moment that is ours.
    """

    def __init__(self, quiet: Callable[[], Quiet], replayed: Callable[[Captured], None]) -> None:
        self._quiet, self._replayed = quiet, replayed
        self._local = threading.local()
        self._buffer: Any = None  # float64 on the device, of which each captured call takes its numbers
        self._used = 0

    def hook(self) -> None:
        owner = torch().cuda.CUDAGraph
        begin, end, replay = owner.capture_begin, owner.capture_end, owner.replay

        @functools.wraps(begin)
        def capture_begin(graph: Any, *args: Any, **kwargs: Any) -> Any:
            self._quiet().begin()
            try:
                result = begin(graph, *args, **kwargs)
            except BaseException:
                self._quiet().end()
                raise
            self._local.captured = graph.sglfab_captured = Captured()
            return result

        @functools.wraps(end)
        def capture_end(graph: Any, *args: Any, **kwargs: Any) -> Any:
            try:
                return end(graph, *args, **kwargs)
            finally:
                self._local.captured = None
                self._quiet().end()

        @functools.wraps(replay)
        def replay_and_read(graph: Any, *args: Any, **kwargs: Any) -> Any:
            result = replay(graph, *args, **kwargs)
            captured = getattr(graph, "sglfab_captured", None)
            if captured is not None and captured.forwards + captured.calls:
                self._replayed(captured)
            return result

        owner.capture_begin, owner.capture_end, owner.replay = capture_begin, capture_end, replay_and_read

    def captured(self) -> Optional[Captured]:
        return getattr(self._local, "captured", None)

    def slot(self, like: Any) -> Any:
        """Room for the numbers `like`, that no other call will get: a piece of a buffer that lives as long as we do."""
        size = like.shape[0]
        if self._buffer is None or self._buffer.device != like.device or self._used + size > self._buffer.shape[0]:
            self._buffer, self._used = torch().empty(max(SLOTS, size), dtype=like.dtype, device=like.device), 0
        self._used += size
        return self._buffer[self._used - size : self._used]

    def reserve(self, device: Any) -> None:
        """Make the buffer before anything is captured, so that it lies outside of the graphs' own memory."""
        if self._buffer is None:
            self._buffer = torch().empty(SLOTS, dtype=torch().float64, device=device)


# --- all taps of one process ------------------------------------------------------------------------------------------


class Probe:
    def __init__(self, about: Json, folder: str) -> None:
        self.about = about
        self.trace = Trace(folder, int(about["max_mb"] * (1 << 20)), self._switch_off)
        self.graphs = Graphs(lambda: self.trace.quiet, self._replayed)
        with contextlib.suppress(AttributeError):  # a torch without CUDA graphs
            self.graphs.hook()
        self.files: Dict[str, int] = {}
        self.missing: List[str] = []
        self.calls: Dict[str, int] = {}
        self.step, self.proved, self.waited, self.graph_safe = 0, False, False, False
        self._local = threading.local()
        os.register_at_fork(after_in_child=self._start_anew)

    def _start_anew(self) -> None:
        """In a forked child, which has no writer, and another file to prove itself in."""
        self.trace.start()
        self.proved = self.waited = False

    def install(self, namespace: Json, module: str, taps: List[Json]) -> None:
        """Wrap the objects of one module. Those that are not there are told by the proof."""
        wrapped = 0
        inserted: Dict[str, Tap] = {}
        for shape in taps:
            self.graph_safe |= bool(shape.get("graph_safe"))
            if shape.get("insert"):
                inserted[shape["tap"]] = Tap(shape, {})
                continue
            owner_name, method = shape["object"].split(".")
            owner = namespace.get(owner_name)
            original = getattr(owner, method, None)
            if not inspect.isclass(owner) or not inspect.isfunction(original):
                self.missing.append(shape["tap"])
                continue
            setattr(owner, method, self.wrap(Tap(shape, parameter_places(original)), original))
            wrapped += 1
        if inserted:
            namespace["_sglfab_local"] = self.local(inserted)
        self.files[module] = wrapped + len(inserted)

    def wrap(self, tap: Tap, original: Callable[..., Any]) -> Callable[..., Any]:
        compiling, capturing = torch().compiler.is_compiling, self._capturing

        @functools.wraps(original)  # SGLang asks for the signature of model.forward
        def sglfab_wrapper(*args: Any, **kwargs: Any) -> Any:
            if compiling():
                return original(*args, **kwargs)
            graph = None
            if capturing():
                graph = self._captured()
                if graph is None:
                    return original(*args, **kwargs)
            call = Call(tap.names, args, kwargs)
            forward = self._enter(tap, call, graph)
            try:
                readings = self._begin(tap, call, forward, graph)
                if tap.weights and readings is not None:
                    call.result = result = self._load(tap, call, readings, original)
                else:
                    call.result = result = original(*args, **kwargs)
                if readings is not None:
                    self._end(tap, call, forward, readings, graph)
                return result
            except BaseException:
                if tap.encloses or not self._stack():
                    self.trace.flush(1.0)  # the server may be gone before the writer's next turn
                raise
            finally:
                if tap.encloses:
                    self._stack().pop()

        return sglfab_wrapper

    def local(self, taps: Dict[str, Tap]) -> Callable[[str, Json], None]:
        """What the inserted statements of one module call."""
        compiling, capturing = torch().compiler.is_compiling, self._capturing

        def sglfab_local(name: str, variables: Json) -> None:
            tap = taps.get(name)
            if tap is None or compiling():
                return
            graph = None
            if capturing():
                graph = self._captured()
                if graph is None:
                    return
            call = Call(tap.names, (), variables)
            forward = self._enter(tap, call, graph)
            readings = self._begin(tap, call, forward, graph)
            if readings is not None:
                self._end(tap, call, forward, readings, graph)

        return sglfab_local

    @staticmethod
    def _capturing() -> bool:
        cuda = torch().cuda
        return bool(cuda.is_initialized() and cuda.is_current_stream_capturing())

    def _captured(self) -> Optional[Captured]:
        """The graph that is captured now, where a tap wants to be part of it."""
        return self.graphs.captured() if self.graph_safe else None

    def _stack(self) -> List[Forward]:
        if not hasattr(self._local, "stack"):
            self._local.stack = []
        stack: List[Forward] = self._local.stack
        return stack

    def _enter(self, tap: Tap, call: Call, graph: Optional[Captured]) -> Forward:
        stack = self._stack()
        if not tap.encloses:
            return stack[-1] if stack else Forward("unknown", None, self.step, 0)
        forward = Forward(tap.role, attribute(call.at(tap.mode) if tap.mode else None, "name"), self.step, 0)
        stack.append(forward)
        if graph is not None:
            graph.forwards.append(forward)  # its replays are counted, not the capture
            return forward
        self._count(forward)
        if not self.proved:
            self._prove()
        return forward

    def _count(self, forward: Forward) -> None:
        self.step += forward.role == "target"
        number = self.calls[forward.role] = self.calls.get(forward.role, 0) + 1
        forward.step, forward.call = self.step, number

    def _prove(self) -> None:
        """The proof line, at the first forward after every module of the set was installed."""
        waiting = [module for module in self.about["modules"] if module not in self.files]
        if waiting:
            if not self.waited:
                self.trace.put(Line("waiting", {"modules": waiting}))
            self.waited = True
            return
        self.proved = True
        line = {"pid": os.getpid(), "set": self.about["set"], "wrapped": sum(self.files.values())}
        self.trace.put(Line("proof", {**line, "missing": self.missing, "files": self.files, **parallel_ranks()}))

    def _begin(self, tap: Tap, call: Call, forward: Forward, graph: Optional[Captured]) -> Optional[Readings]:
        if not self._wanted(tap, forward) or (graph is not None and not tap.graph_safe):
            return None
        readings = Readings(captured=graph is not None)
        return readings if self._guarded(tap, tap.read, call, readings, True) else None

    def _wanted(self, tap: Tap, forward: Forward) -> bool:
        if tap.off or (tap.max_records and tap.records >= tap.max_records):
            return False
        if tap.when and forward.mode not in tap.when:
            return False
        return tap.every == 1 or not forward.call or forward.step % tap.every == 1

    def _load(self, tap: Tap, call: Call, readings: Readings, original: Callable[..., Any]) -> Any:
        """Call a load_weights, and note what its weights filled."""
        followed: List[Filling] = []
        self._guarded(tap, self._follow, tap, call, followed)
        if not followed:
            return original(*call.args, **call.kwargs)
        with followed[0].copying():
            result = original(*call.args, **call.kwargs)
        self._guarded(tap, lambda: readings.values.update(followed[0].said()))
        return result

    @staticmethod
    def _follow(tap: Tap, call: Call, followed: List[Filling]) -> None:
        assert tap.weights is not None
        filling = Filling(call.args[0], call.at(tap.weights))
        call.replace(tap.weights[1], filling.weights())
        followed.append(filling)

    def _end(self, tap: Tap, call: Call, forward: Forward, readings: Readings, graph: Optional[Captured]) -> None:
        if self._guarded(tap, tap.read, call, readings, False):
            if graph is not None:
                self._guarded(tap, self._leave, tap, forward, readings, graph)
            elif self._guarded(tap, self._take_off, tap, readings):
                self._record(tap, forward, readings)

    def _take_off(self, tap: Tap, readings: Readings) -> None:
        if tap.graph_safe and readings.parts:
            self.graphs.reserve(readings.parts[0].device)
        readings.take_off()

    def _leave(self, tap: Tap, forward: Forward, readings: Readings, graph: Captured) -> None:
        """Make the numbers of a captured call part of the graph: each replay writes them into the same place."""
        if readings.parts:
            numbers = torch().cat(readings.parts)
            slot = self.graphs.slot(numbers)
            slot.copy_(numbers)
            graph.slots.append(slot)
            readings.parts = []
        graph.calls.append((tap, forward, readings))

    def _replayed(self, graph: Captured) -> None:
        """The forwards of a graph ran once more."""
        try:
            with torch().no_grad():
                self._read(graph)
        except Exception as error:
            for tap, _, _ in graph.calls:
                self._tell_off(tap, error)

    def _read(self, graph: Captured) -> None:
        """The records of a replay, from one copy of all the buffers of the graph."""
        for forward in graph.forwards:
            self._count(forward)
        if not any(self._wanted(tap, forward) for tap, forward, _ in graph.calls):
            return
        landing = Landing(graph.slots) if graph.slots else None
        place = 0
        for tap, forward, readings in graph.calls:
            if self._wanted(tap, forward):
                self._record(tap, forward, readings.replayed(landing, place), graph=True)
            place += sum(meaning[3] for meaning in readings.meanings)

    def _record(self, tap: Tap, forward: Forward, readings: Readings, graph: bool = False) -> None:
        tap.records += 1
        role = forward.role if tap.role == "enclosing" else tap.role
        place = {"role": role, "tap": tap.name, "mode": forward.mode, "step": forward.step, "call": forward.call}
        if graph:
            place["graph"] = True
        # What runs while the server is set up is told apart: only a forward's record proves that the forward is traced.
        kind = "record" if forward.call or tap.role == "enclosing" else "setup"
        self.trace.put(Line(kind, place, readings, tap))

    def _guarded(self, tap: Tap, work: Callable[..., Any], *args: Any) -> bool:
        try:
            if torch().is_grad_enabled():
                with torch().no_grad():
                    work(*args)
            else:
                work(*args)
        except Exception as error:
            self._tell_off(tap, error)
        return not tap.off

    def _tell_off(self, tap: Tap, error: BaseException) -> None:
        line = self._switch_off(tap, error)
        if line is not None:
            self.trace.put(line)

    @staticmethod
    def _switch_off(tap: Tap, error: BaseException) -> Optional[Line]:
        """The line that says so, once."""
        if tap.off:
            return None
        tap.off = True
        say("tap %s is off: %r" % (tap.name, error))
        return Line("off", {"tap": tap.name, "why": repr(error)[:500]})


def parameter_places(original: Callable[..., Any]) -> Dict[str, int]:
    return {name: place for place, name in enumerate(inspect.signature(original).parameters)}


class Process:
    """What the footers of one process share. refused: the trace folder cannot be written, nothing is wrapped."""

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
        Process.probe = Probe(about, folder)
    Process.probe.install(namespace, module, taps)
