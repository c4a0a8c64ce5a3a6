"""Start the kit's server without our tool, for comparisons, and ask it."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path

from sglfab.testing.cpu.layout import CpuKit
from sglfab.testing.fixtures import end_session

TARGET_FLAGS = ("--device", "cpu", "--tp-size", "2", "--max-total-tokens", "4096", "--max-running-requests", "8")
DRAFT_FLAGS = ("--speculative-num-steps", "3", "--speculative-eagle-topk", "1", "--speculative-num-draft-tokens", "4")


def server_env(kit: CpuKit) -> dict[str, str]:
    """What SGLang needs in its environment to serve on the CPU with two ranks."""
    return {
        "PYTHONPATH": str(kit.stubs),
        "SGLANG_USE_CPU_ENGINE": "1",
        "SGLANG_CPU_OMP_THREADS_BIND": "0|1",
        "TORCHDYNAMO_DISABLE": "1",
        "HF_HUB_OFFLINE": "1",
    }


def server_flags(kit: CpuKit, *, port: int) -> tuple[str, ...]:
    """The flags of the target with its draft, as the profile cpu-demo has them."""
    where = ("--host", "127.0.0.1", "--port", str(port), "--model-path", str(kit.target_model))
    draft = ("--speculative-algorithm", "EAGLE3", "--speculative-draft-model-path", str(kit.draft_model))
    return (*where, *TARGET_FLAGS, *draft, *DRAFT_FLAGS)


class PlainServer:
    """A server in a session of its own, its output in a file. Use as a context: leaving it ends the session."""

    def __init__(
        self,
        kit: CpuKit,
        *,
        port: int,
        log: Path,
        python: Path | None = None,
        flags: Sequence[str] | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        """flags: all of them, instead of the usual ones; env: beside the usual ones."""
        self.port, self.log = port, log
        words = tuple(flags) if flags is not None else server_flags(kit, port=port)
        argv = [str(python or kit.python), "-m", "sglang.launch_server", *words]
        environment = {**os.environ, **server_env(kit), **(env or {})}
        with log.open("ab") as out:
            self.process = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=environment, start_new_session=True
            )

    def __enter__(self) -> PlainServer:
        return self

    def __exit__(self, *_: object) -> None:
        end_session(self.process.pid)
        self.process.wait(timeout=20)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def wait_until_ready(self, *, within_s: float = 120) -> float:
        """Seconds until /health answered 200. AssertionError with the log's end when it died or took too long."""
        began = time.monotonic()
        while (took := time.monotonic() - began) < within_s:
            if self.process.poll() is not None:
                raise AssertionError(f"the server ended with {self.process.returncode}:\n{self.log_tail()}")
            with (
                contextlib.suppress(urllib.error.URLError, OSError),
                urllib.request.urlopen(f"{self.url}/health", timeout=25),
            ):
                return took
            time.sleep(0.1)
        raise AssertionError(f"not ready within {within_s} s:\n{self.log_tail()}")

    def log_tail(self, lines: int = 20) -> str:
        return "\n".join(self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:])


def greedy(url: str, prompt: str) -> list[int]:
    """The output ids of one prompt, alone, without what former prompts left in the cache."""
    _post(f"{url}/flush_cache", {})
    reply = _post(f"{url}/generate", {"text": prompt, "sampling_params": {"temperature": 0, "max_new_tokens": 16}})
    return list(json.loads(reply)["output_ids"])


def _post(url: str, body: Mapping[str, object]) -> bytes:
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=60) as reply:
        return bytes(reply.read())
