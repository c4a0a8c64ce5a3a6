"""Which line, and which frame of a traceback, tells the stage of a start: wording of 0.4.6 … 0.5.23 in one place.

The order of stages changed at 0.5.14, the wording at 0.5.14, 0.5.17 and 0.5.21: a rank has a set of facts, no fixed
sequence; a second `Load weight begin` of one rank is the draft, not a restart.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from sglfab.model import STAGES

ORDER = {name: n for n, name in enumerate(STAGES)}


@dataclass(frozen=True)
class Marker:
    """A line that tells a stage. edge: begin, end, or at (just there). releases: where the wording was seen."""

    needle: str
    stage: str
    edge: str
    releases: str = "0.4.6-0.5.23"
    pattern: str | None = None
    draft: bool | None = None

    def hit(self, message: str) -> bool:
        return self.needle in message and (self.pattern is None or re.search(self.pattern, message) is not None)


MARKERS: tuple[Marker, ...] = (
    Marker("server_args=", "args", "at", pattern=r"^server_args=(?:ServerArgs\(|\{|PortArgs|Namespace)"),
    Marker("Init torch distributed begin", "init-distributed", "begin", "0.4.6-0.5.20"),
    Marker("Init torch distributed ends", "init-distributed", "end", "0.4.6-0.5.20"),
    Marker("Init parallel begin", "init-distributed", "begin", "0.5.21-"),
    Marker("Init parallel ends", "init-distributed", "end", "0.5.21-"),
    Marker("Load weight begin", "load-weights", "begin"),
    Marker("Load weight end", "load-weights", "end"),
    Marker("KV Cache is allocated", "kv-cache", "begin", "0.4.6-0.5.16"),
    Marker("KV cache allocated", "kv-cache", "begin", "0.5.17-"),
    Marker("Memory pool end", "kv-cache", "end"),
    Marker("aptur", "capture-graphs", "begin", pattern=r"(?i)\bcapture draft\b.*graph.* begin\b", draft=True),
    Marker("aptur", "capture-graphs", "end", pattern=r"(?i)\bcapture draft\b.*graph.* end\b", draft=True),
    Marker("aptur", "capture-graphs", "begin", pattern=r"(?i)\bcapture .*graph.* begin\b"),
    Marker("aptur", "capture-graphs", "end", pattern=r"(?i)\bcapture .*graph.* end\b"),
    Marker("DeepGEMM", "capture-graphs", "at", pattern=r"JIT Pre-Compile|JIT Compiling"),
    Marker("max_total_num_tokens=", "http", "at", pattern=r"^max_total_num_tokens=\d"),
    Marker("Started server process", "http", "at"),
    Marker("Application startup complete", "http", "at"),
    Marker("Uvicorn running on", "warmup", "at"),
    Marker("The server is fired up and ready to roll!", "serving", "at", pattern=r"^The server is fired up"),
)
PROBED = b'"GET /health'  # the web server's line about a probe, ours or anybody's: no sign of progress
READY = "The server is fired up and ready to roll!"
BARS: tuple[tuple[str, str], ...] = (
    ("Loading", "load-weights"),
    ("Multi-thread loading", "load-weights"),
    ("Capturing", "capture-graphs"),
    ("Compiling num tokens", "capture-graphs"),
    ("DeepGEMM", "capture-graphs"),
    ("Downloading", "load-weights"),
    ("Fetching", "load-weights"),
)
LOADING_BAR = re.compile(r"^(?:Loading|Multi-thread loading) (?:\w+ )?(?:checkpoint shards|shards|safetensors using)")
DECODED = re.compile(rb"\] Decode batch\b[^\n#]{0,24}#running-req: ")  # every 40 steps: past the warm-up
BEGINNINGS = re.compile(
    r"UserWarning: 'python -m sglang\.launch_server' is|"
    r"^usage: (?:launch|sglang|python)|FutureWarning: The (?:cuda\.cudart|pynvml)|"
    r"/torch/cuda/__init__\.py:\d+: \w+Warning|^Attention backend not|^Fail to set RLIMIT|"
    r"^Ignore import error when loading sglang\.srt\.multimodal|"
    r"^(?:\+ )?(?:exec )?(?:\S*/)?(?:python\S*) -m sglang\.launch_server|^(?:\+ )?sglang serve |"
    r": Started .*\.service|Scheduled restart job"
)
BEGINNING_TEXTS = (
    *(
        "UserWarning: 'python -m",
        "usage: launch",
        "usage: sglang",
        "usage: python",
        "FutureWarning: The",
        "/torch/cuda/__init__.py",
        "Attention backend not",
    ),
    *(
        "Fail to set RLIMIT",
        "Ignore import error",
        "-m sglang.launch_server",
        "sglang serve ",
        ": Started ",
        "Scheduled restart",
    ),
)  # one of them stands in every line that BEGINNINGS finds

_FRAMES: tuple[tuple[re.Pattern[str], str], ...] = (
    # First: below the loop, graphs are replayed and pools are written, but no start goes on any more.
    (re.compile(r"event_loop|:run_batch|process_input_requests"), "serving"),
    (
        re.compile(r"graph_runner|capture_one|init_(?:all_|device_|\w*cuda_)?graphs|capture_cuda_graphs|piecewise"),
        "capture-graphs",
    ),
    (
        re.compile(
            r"init_torch_distributed|init_distributed_environment|initialize_model_parallel|/bootstrap\.py|:init_parallel"
        ),
        "init-distributed",
    ),
    (
        re.compile(
            r"init_attention_backend|kernel_warmup|flashinfer_autotune|attention_backend_setup|attention_registry|_get_attention_backend|"
            r"/layers/attention/[^\n]*:__init__"
        ),
        "post-load",
    ),
    (
        re.compile(
            r"init_memory_pool|profile_max_num_token|kv_cache_configurator|pool_configurator|/memory_pool\.py|init_kv_cache|profile_available"
        ),
        "kv-cache",
    ),
    (
        re.compile(
            r":load_model|:load_weights|:get_model\b|_initialize_model|model_loader/|process_weights_after_loading|"
            r"sglang/srt/models/[^\n]*:__init__"
        ),
        "load-weights",
    ),
    (re.compile(r"_execute_server_warmup|_wait_and_warmup|execute_warmup|_send_warmup"), "warmup"),
    (re.compile(r":forward_batch_(?:speculative_)?generation"), "serving"),
    (
        re.compile(
            r":(?:maybe_)?init_draft_worker|_worker(?:_v2)?\.py:__init__\n(?:.*\n)*.*(?:eagle|draft|mtp)|speculative/[^\n]*:__init__"
        ),
        "load-weights",
    ),
    (
        re.compile(
            r"prepare_server_args|from_cli_args|server_args\.py:(?!<module>)|arg_groups/[^\n]*:(?!<module>)|:resolve_once"
        ),
        "args",
    ),
    (re.compile(r"(?<!de)tokenizer_manager|get_tokenizer|init_tokenizer|template_manager"), "args"),
)
_DRAFT_FRAME = re.compile(
    r"eagle_worker|eagle_draft|draft_worker|draft_model_runner|multi_layer_eagle|llama_eagle3|kimi_k25_eagle3|_nextn\.py|eagle_info|"
    r"/speculative/[^\n]*(?:worker|draft|runner|utils)|mtp_worker|standalone_worker|draft_cuda_graph|draft_extend_cuda_graph"
)
_IMPORT = re.compile(r"^(?!\S*(?:launch_server|__main__|cli/\w+|bin/\w+)(?:\.py)?:)[^\n]*:<module>$", re.M)
_MAIN_RUNS = re.compile(r":(?:run_server|launch_server|_launch_subprocesses|prepare_server_args|main|serve)\b")


def marker_of(message: str) -> Marker | None:
    return next((m for m in MARKERS if m.hit(message)), None)


def stage_of_bar(description: str) -> str | None:
    return next((stage for start, stage in BARS if description.startswith(start)), None)


def stage_of_frames(frames: str, *, ready: bool, begun: bool = True) -> str | None:
    """The stage that a traceback was in, by its frames (`file:function` lines); None when they do not tell.

    begun: the log holds the start, so batches before its end are the warmup's; the tail of a log serves.
    """
    if ready:
        return "serving"  # a start is over once: weight updates and late imports happen while serving
    for pattern, stage in _FRAMES:
        if pattern.search(frames):
            return "warmup" if stage == "serving" and begun else stage
    if _IMPORT.search(frames) and not _MAIN_RUNS.search(frames):
        return "import"
    return None


def draft_of_frames(frames: str) -> bool:
    return bool(_DRAFT_FRAME.search(frames))
