"""Call chains as SGLang's tracebacks show them, by name: (file, function, source line), outermost first."""

from __future__ import annotations

Frame = tuple[str, str, str]

_CALL: tuple[Frame, ...] = (
    ("torch/nn/modules/module.py", "_wrapped_call_impl", "return self._call_impl(*args, **kwargs)"),
    ("torch/nn/modules/module.py", "_call_impl", "return forward_call(*args, **kwargs)"),
)
_SCHED: tuple[Frame, ...] = (
    ("sglang/srt/managers/scheduler.py", "run_scheduler_process", "scheduler = Scheduler("),
    ("sglang/srt/managers/scheduler.py", "__init__", "self.tp_worker = TpModelWorker("),
    ("sglang/srt/managers/tp_worker.py", "__init__", "self._model_runner = ModelRunner("),
    ("sglang/srt/model_executor/model_runner.py", "__init__", "self.initialize(min_per_gpu_memory)"),
)
_DRAFT: tuple[Frame, ...] = (
    ("sglang/srt/managers/scheduler.py", "run_scheduler_process", "scheduler = Scheduler("),
    ("sglang/srt/managers/scheduler.py", "__init__", "self.draft_worker = EAGLEWorker("),
    ("sglang/srt/speculative/eagle_worker.py", "__init__", "super().__init__("),
    ("sglang/srt/managers/tp_worker.py", "__init__", "self._model_runner = ModelRunner("),
    ("sglang/srt/model_executor/model_runner.py", "__init__", "self.initialize(min_per_gpu_memory)"),
)
_LOAD: tuple[Frame, ...] = (
    ("sglang/srt/model_executor/model_runner.py", "initialize", "self.load_model()"),
    ("sglang/srt/model_executor/model_runner.py", "load_model", "self.model = get_model("),
    ("sglang/srt/model_loader/__init__.py", "get_model", "return loader.load_model("),
    ("sglang/srt/model_loader/loader.py", "load_model", "model = _initialize_model("),
)
_WEIGHTS: tuple[Frame, ...] = (
    *_LOAD[:3],
    ("sglang/srt/model_loader/loader.py", "load_model", "self.load_weights_and_postprocess("),
    ("sglang/srt/model_loader/loader.py", "load_weights_and_postprocess", "model.load_weights(weights)"),
)
_CAPTURE: tuple[Frame, ...] = (
    ("sglang/srt/model_executor/cuda_graph_runner.py", "__init__", "self.capture()"),
    ("sglang/srt/model_executor/cuda_graph_runner.py", "capture", ") = self.capture_one_batch_size(bs, forward)"),
    ("sglang/srt/model_executor/cuda_graph_runner.py", "run_once", "logits_output_or_pp_proxy_tensors = forward("),
    *_CALL,
    ("sglang/srt/models/deepseek_v2.py", "forward", "hidden_states = self.model("),
)
_LOOP: tuple[Frame, ...] = (
    ("sglang/srt/managers/scheduler.py", "run_scheduler_process", "scheduler.event_loop_overlap()"),
    ("torch/utils/_contextlib.py", "decorate_context", "return func(*args, **kwargs)"),
)
_LAUNCH: tuple[Frame, ...] = (
    ("runpy.py", "_run_module_as_main", "return _run_code(code, main_globals, None,"),
    ("sglang/launch_server.py", "<module>", "server_args = prepare_server_args(sys.argv[1:])"),
    ("sglang/srt/server_args.py", "prepare_server_args", "return ServerArgs.from_cli_args(raw_args)"),
)

_STACKS: dict[str, tuple[Frame, ...]] = {
    "create": (
        *_SCHED,
        *_LOAD,
        ("sglang/srt/models/deepseek_v2.py", "__init__", "self.mlp = DeepseekV2MoE("),
        ("sglang/srt/layers/linear.py", "__init__", "self.quant_method.create_weights("),
    ),
    "build": (*_SCHED, *_LOAD),
    "weights": (*_SCHED, *_WEIGHTS),
    "post-load": (
        *_SCHED,
        *_WEIGHTS[:4],
        (
            "sglang/srt/model_loader/loader.py",
            "load_weights_and_postprocess",
            "quant_method.process_weights_after_loading(module)",
        ),
    ),
    "draft-weights": (
        *_DRAFT,
        *_WEIGHTS,
        ("sglang/srt/models/llama_eagle3.py", "load_weights", "weight_loader(param, loaded_weight)"),
    ),
    "draft-build": (*_DRAFT, *_LOAD),
    "draft-init": _DRAFT[:3],
    "dist": (
        *_SCHED[:3],
        (
            "sglang/srt/model_executor/model_runner.py",
            "__init__",
            "min_per_gpu_memory = self.init_torch_distributed()",
        ),
        (
            "sglang/srt/model_executor/model_runner.py",
            "init_torch_distributed",
            "torch.get_device_module(self.device).set_device(self.gpu_id)",
        ),
    ),
    "pool": (
        *_SCHED,
        ("sglang/srt/model_executor/model_runner.py", "initialize", "self.init_memory_pool("),
        ("sglang/srt/model_executor/model_runner.py", "init_memory_pool", "self.max_total_num_tokens = self.profile("),
    ),
    "draft-pool": (
        *_DRAFT,
        ("sglang/srt/model_executor/model_runner.py", "initialize", "self.init_memory_pool("),
        ("sglang/srt/model_executor/model_runner.py", "init_memory_pool", "self.max_total_num_tokens = self.profile("),
    ),
    "attention": (
        *_SCHED,
        ("sglang/srt/model_executor/model_runner.py", "initialize", "self.init_attention_backend()"),
        (
            "sglang/srt/model_executor/model_runner.py",
            "init_attention_backend",
            "self.attn_backend = self._get_attention_backend()",
        ),
    ),
    "capture": _CAPTURE,
    "capture-end": (
        *_SCHED,
        ("sglang/srt/model_executor/model_runner.py", "initialize", "self.init_device_graphs()"),
        ("sglang/srt/model_executor/cuda_graph_runner.py", "__init__", "raise Exception("),
    ),
    "draft-capture": (
        ("sglang/srt/speculative/eagle_draft_cuda_graph_runner.py", "__init__", "self.capture()"),
        (
            "sglang/srt/speculative/eagle_draft_cuda_graph_runner.py",
            "run_once",
            "ret = self.eagle_worker.draft_forward(",
        ),
        *_CALL,
        ("sglang/srt/models/llama_eagle3.py", "forward", "hidden_states = self.model("),
    ),
    "draft-capture-end": (
        *_DRAFT[:2],
        ("sglang/srt/speculative/eagle_worker.py", "__init__", "self.init_cuda_graphs()"),
        ("sglang/srt/speculative/eagle_draft_cuda_graph_runner.py", "__init__", "raise Exception("),
    ),
    "loop": (
        *_LOOP,
        ("sglang/srt/managers/scheduler.py", "event_loop_overlap", "batch_result = self.run_batch(batch)"),
        ("sglang/srt/managers/tp_worker.py", "forward_batch_generation", "logits_output = self.model_runner.forward("),
        *_CALL,
    ),
    "loop-draft": (
        *_LOOP,
        ("sglang/srt/managers/scheduler.py", "event_loop_normal", "result = self.run_batch(batch)"),
        ("sglang/srt/speculative/eagle_worker.py", "forward_batch_generation", "spec_info = self.draft(batch)"),
    ),
    "loop-idle": (
        *_LOOP,
        ("sglang/srt/managers/scheduler.py", "event_loop_overlap", "self.check_memory()"),
    ),
    "loop-request": (
        *_LOOP,
        ("sglang/srt/managers/scheduler.py", "event_loop_overlap", "self.process_input_requests(recv_reqs)"),
    ),
    "args": (
        *_LAUNCH,
        ("sglang/srt/server_args.py", "from_cli_args", "return cls(**{attr: getattr(args, attr) for attr in attrs})"),
        ("sglang/srt/server_args.py", "__post_init__", "self._handle_speculative_decoding()"),
    ),
    "args-0410": (
        *_LAUNCH,
        ("sglang/srt/server_args.py", "from_cli_args", "return cls(**{attr: getattr(args, attr) for attr in attrs})"),
        ("<string>", "__init__", ""),
        ("sglang/srt/server_args.py", "__post_init__", "assert ("),
    ),
    "launch": (
        *_LAUNCH[:1],
        ("sglang/launch_server.py", "<module>", "run_server(server_args)"),
        (
            "sglang/srt/entrypoints/http_server.py",
            "launch_server",
            "tokenizer_manager, scheduler_info = _launch_subprocesses(",
        ),
    ),
    "import": (
        *_LAUNCH[:1],
        ("sglang/launch_server.py", "<module>", "from sglang.srt.entrypoints.http_server import launch_server"),
        (
            "sglang/srt/layers/quantization/__init__.py",
            "<module>",
            "from sglang.srt.layers.quantization.fp8 import Fp8Config",
        ),
    ),
}

# From 0.5.14 on target and draft are built first, and all pools and graphs after them.
_SCHED_0514: tuple[Frame, ...] = (
    ("sglang/srt/managers/scheduler.py", "run_scheduler_process", "scheduler = Scheduler("),
    ("sglang/srt/managers/scheduler.py", "__init__", "self.init_model_worker()"),
    ("sglang/srt/managers/scheduler.py", "init_model_worker", "self.init_tp_model_worker()"),
    ("sglang/srt/managers/tp_worker.py", "__init__", "self._init_model_runner()"),
    ("sglang/srt/model_executor/model_runner.py", "__init__", "self.initialize()"),
)
_STACKS_0514: dict[str, tuple[Frame, ...]] = {
    "pool": (
        *_SCHED_0514[:2],
        ("sglang/srt/managers/scheduler.py", "init_model_worker", "self.init_memory_pools()"),
        ("sglang/srt/managers/tp_worker.py", "alloc_memory_pool", "self.model_runner.alloc_memory_pool("),
        ("sglang/srt/model_executor/model_runner.py", "alloc_memory_pool", "config = self.resolve_memory_pool_config("),
        ("sglang/srt/mem_cache/kv_cache_configurator.py", "_profile_available_bytes", "raise ValueError("),
    ),
}


def stack(name: str, version: tuple[int, ...]) -> tuple[Frame, ...]:
    """The frames of one place in a release."""
    old = _STACKS[name]
    if version < (0, 5, 14):
        return old
    if name in _STACKS_0514:
        return _STACKS_0514[name]
    return (*_SCHED_0514, *old[len(_SCHED) :]) if old[: len(_SCHED)] == _SCHED else old
