"""Which texts make a line worth reading outside of tracebacks, beside the needles of the signatures.

A line without any of them changes nothing but the line count: so gigabytes pass at the speed of a search.
"""

from __future__ import annotations

from sglfab.sglang import endings, stages

WRONG = (
    *(
        "error",
        "Error",
        "ERROR",
        "fatal",
        "FATAL",
        "Fatal",
        "CRITICAL",
        "failed",
        "Failed",
        "abort",
        "Abort",
        "what():",
    ),
    *(
        "Assertion",
        "assert",
        "exception",
        "Exception",
        "NCCL WARN",
        "cannot ",
        "Cannot ",
        "No such",
        "denied",
        "not found",
    ),
    "undefined symbol",
)  # a line with one of them may be the only trace of a crash that nobody knows
FINE = (
    *(
        "Ignore import error",
        "Fail to set RLIMIT",
        "Failed to load generation config",
        "is deprecated",
        "Custom allreduce",
    ),
    *("errno: 97", "package walk", "UserWarning", "FutureWarning", "DeprecationWarning", "Failed to get GPU memory"),
    *("Setup Custom allreduce failed", "If you see", "falling back", "Falling back", "Retrying", "will be ignored"),
    *("Unable to resolve hostname", "Guessing device ID"),
    *("Failed to open libibverbs", "NUMA auto balancing", "iommu=pt"),  # NCCL and RCCL take another way
    *("Cannot detect CUDA architecture", "in this case the available memory amount"),  # SGLang on the CPU
)  # complaints of healthy starts
LIFE = (b"Decode batch", b"Prefill batch")  # somebody is served: what was complained about before has been survived
TEXTS: tuple[str, ...] = (
    *WRONG,
    *(m.needle for m in stages.MARKERS),
    *(e.needle for e in endings.ENDINGS),
    *stages.BEGINNING_TEXTS,
    *(
        "Traceback (most",
        "% Completed",
        "%|",
        "Exception in ",
        "never retrieved",
        "Process Spawn",
        "Process Fork",
        "Process sglang",
    ),
    *("Receive: ", "Finish: ", "obj=", "GenerateReqInput(", "ChatCompletionRequest(", "request.received", "[repeated "),
    *("[rank", ":[E", ":[F"),
)
