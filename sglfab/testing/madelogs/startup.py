"""The healthy start of a server, step by step, in the wording of a release."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

Version = tuple[int, ...]

_BEGINNING = ("args", "dist", "dist-end", "load", "load-end")
_GRAPHS = ("graphs", "graphs-end")
_DRAFT_GRAPHS = ("draft-graphs", "draft-graphs-end")
_END = ("sched", "http", "ready")
OLD_ORDER = (*_BEGINNING, "kv", *_GRAPHS, "draft-load", "draft-load-end", "draft-kv", *_DRAFT_GRAPHS, *_END)
NEW_ORDER = (*_BEGINNING, "draft-load", "draft-load-end", "kv", "draft-kv", *_GRAPHS, *_DRAFT_GRAPHS, *_END)


def version(release: str) -> Version:
    return tuple(int(p) for p in release.replace("post", "").split("."))


@dataclass(frozen=True)
class Server:
    """What a plot says about the server whose start is told."""

    release: str
    model: str = "DeepseekV3ForCausalLM"
    path: str = "/models/deepseek-r1"
    draft: str | None = None
    flags: str = ""
    one_line_bars: bool = False  # carriage returns between the steps, as a terminal gets them

    @property
    def version(self) -> Version:
        return version(self.release)

    def steps(self) -> list[str]:
        order = OLD_ORDER if self.version < (0, 5, 14) else NEW_ORDER
        return [s for s in order if self.draft or not s.startswith("draft")]


def lines(server: Server, step: str) -> Iterator[str]:
    """The lines of one step in the notation of the composer: `@ ` the launcher, `@* ` every rank, `@0 ` the first."""
    draft = step.startswith("draft-")
    what = step.removeprefix("draft-")
    if what in ("load", "load-end"):
        yield from _load(server, what, draft=draft)
    elif what in ("graphs", "graphs-end"):
        yield from _graphs(server, what, draft=draft)
    else:
        yield from _PLAIN[what](server)


def _args(server: Server) -> Iterator[str]:
    v = server.version
    if v < (0, 4, 10):
        yield "@ Attention backend not set. Use fa3 backend by default."
    elif v < (0, 5, 7):
        yield "@ Attention backend not explicitly specified. Use fa3 backend by default."
    else:
        yield "@ Attention backend not specified. Use fa3 backend by default."
    known = {
        "model_path": server.path,
        "tokenizer_path": server.path,
        "load_format": "auto",
        "mem_fraction_static": 0.85,
        "speculative_draft_model_path": server.draft,
        "watchdog_timeout": 300,
    }
    if v < (0, 5, 19):
        yield f"@ server_args=ServerArgs({', '.join(f'{k}={value!r}' for k, value in known.items())}{server.flags})"
    else:
        yield f"@ server_args={str(known)[:-1]}{server.flags}}}"


def _dist(server: Server) -> Iterator[str]:
    yield "@* Init parallel begin." if server.version >= (0, 5, 21) else "@* Init torch distributed begin."


def _dist_end(server: Server) -> Iterator[str]:
    v = server.version
    yield "@* sglang is using nccl==2.27.3"
    if v >= (0, 5, 10):
        hccl = "/HCCL" if v >= (0, 5, 17) else ""
        yield f"@* NCCL/RCCL{hccl} warmup completed in 1.559s (tp_size=8, pp_size=1, ep_size=1)"
    if v >= (0, 5, 21):
        yield "@* Init parallel ends. elapsed=5.86 s"
    else:
        yield f"@* Init torch distributed ends. {'elapsed=5.86 s, ' if v >= (0, 5, 9) else ''}mem usage=1.43 GB"


def _load(server: Server, what: str, *, draft: bool) -> Iterator[str]:
    v = server.version
    shards = 1 if draft else 12
    bar = "Multi-thread loading shards" if v >= (0, 5, 10) else "Loading safetensors checkpoint shards"
    if what == "load":
        yield "@* Load weight begin. avail mem=78.41 GB"
        done = 0 if draft else shards // 2
        steps = [
            f"{bar}: {100 * n // shards:3d}% Completed | {n}/{shards} [00:0{n}<00:0{shards - n},  1.33it/s]"
            for n in range(done + 1)
        ]
        yield from ["\r".join(steps)] if server.one_line_bars else steps
        return
    for n in range(1 if draft else shards // 2 + 1, shards + 1):
        yield f"{bar}: {100 * n // shards:3d}% Completed | {n}/{shards} [00:{n:02d}<00:{shards - n:02d},  1.31it/s]"
    yield ""
    model = "LlamaForCausalLMEagle3" if draft else server.model
    elapsed = "elapsed=13.10 s, " if v >= (0, 5, 9) else ""
    dtype = "" if v >= (0, 5, 17) else "dtype=torch.bfloat16, "
    yield f"@* Load weight end. {elapsed}type={model}, {dtype}avail mem=21.37 GB, mem usage=57.04 GB."


def _kv(server: Server) -> Iterator[str]:
    v = server.version
    if v < (0, 5, 13):
        yield "@* KV Cache is allocated. #tokens: 171200, K size: 6.12 GB, V size: 6.12 GB"
    elif v < (0, 5, 17):
        yield "@* KV Cache is allocated. dtype: torch.bfloat16, #tokens: 171200, K size: 6.12 GB, V size: 6.12 GB"
    yield "@* Memory pool end. avail mem=8.87 GB"


def _graphs(server: Server, what: str, *, draft: bool) -> Iterator[str]:
    v = server.version
    if v < (0, 5, 14):
        name = "draft cuda graph" if draft else "cuda graph"
        begin = "" if v < (0, 5, 2) else " avail mem=8.81 GB"
        if what == "graphs":
            yield f"@* Capture {name} begin. This can take up to several minutes.{begin}"
            yield "@0 Capture cuda graph bs [1, 2, 4, 8, 16]"
        else:
            yield f"@* Capture {name} end. Time elapsed: 12.15 s. mem usage=1.08 GB. avail mem=7.76 GB."
    else:
        name = "draft decode CUDA graph" if draft else "target decode CUDA graph"
        if what == "graphs":
            yield f"@* Capture {name} begin. backend=full, num_tokens_per_bs=1, bs=[1, 2, 4, 8, 16], avail mem=8.81 GB"
        else:
            yield f"@* Capture {name} end. elapsed=12.15 s, mem usage=1.08 GB, avail mem=7.76 GB."
    if what == "graphs":
        bar = "Capturing batches (bs=16 avail_mem=8.81 GB)"
        yield f"  0%|          | 0/5 [00:00<?, ?it/s]\r{bar}:   0%|          | 0/5 [00:00<?, ?it/s]"


def _sched(server: Server) -> Iterator[str]:
    yield (
        "@0 max_total_num_tokens=171200, chunked_prefill_size=8192, max_prefill_tokens=16384, "
        "max_running_requests=48, context_len=131072, available_gpu_mem=7.76 GB"
    )


def _http(server: Server) -> Iterator[str]:
    yield "@ INFO:     Started server process [101]"
    yield "@ INFO:     Waiting for application startup."
    yield "@ INFO:     Application startup complete."
    yield "@ INFO:     Uvicorn running on http://0.0.0.0:30000 (Press CTRL+C to quit)"


def _ready(server: Server) -> Iterator[str]:
    info = "/model_info" if server.version >= (0, 5, 9) else "/get_model_info"
    yield f'@ INFO:     127.0.0.1:51562 - "GET {info} HTTP/1.1" 200 OK'
    yield prefill(server)
    yield '@ INFO:     127.0.0.1:51574 - "POST /generate HTTP/1.1" 200 OK'
    yield "@ The server is fired up and ready to roll!"


def prefill(server: Server) -> str:
    dot = ". " if server.version < (0, 5, 4) else ", "
    return (
        f"@0 Prefill batch{dot}#new-seq: 1, #new-token: 6, #cached-token: 0, token usage: 0.00, "
        "#running-req: 0, #queue-req: 0"
    )


def decode(server: Server, accept: float | None) -> str:
    dot = ". " if server.version < (0, 5, 4) else ", "
    spec = "" if accept is None else f"accept len: {accept:.2f}, "
    if accept is not None and server.version >= (0, 5, 4):
        spec += f"accept rate: {(accept - 1) / 3 if server.version >= (0, 5, 11) else accept / 4:.2f}, "
    return (
        f"@0 Decode batch{dot}#running-req: 3, #token: 4096, token usage: 0.02, {spec}cuda graph: True, "
        "gen throughput (token/s): 211.40, #queue-req: 0"
    )


_PLAIN = {
    "args": _args,
    "dist": _dist,
    "dist-end": _dist_end,
    "kv": _kv,
    "sched": _sched,
    "http": _http,
    "ready": _ready,
}
