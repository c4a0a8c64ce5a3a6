"""A scheduler or the detokenizer: prints its rank's lines, stays while the launcher lives."""

import ctypes
import importlib
import json
import os
import signal
import sys
import threading
import time

from sglang._standin import shards
from sglang._standin.script import load, raw, say
from sglang.srt.managers.scheduler import run_scheduler_process

# Which module files each process of SGLang imports: a patch's footer runs there.
SCHEDULER_MODULES = ("srt.layers.logits_processor", "srt.models.deepseek_v2", "srt.models.llama_eagle3")
SHARD_BAR = "Multi-thread loading shards: {percent:3d}% Completed | {done}/{all} [00:00<{rest}it/s]"


class Child:
    def __init__(self, job):
        self.who, self.rank, self.args = job["who"], job["rank"], job["args"]
        self.report_fd = job["report_fd"]
        self.script = load()

    def say(self, text):
        say(text, self.rank)

    def crash(self, text, code=1):
        """As run_scheduler_process does: print the traceback, and tell the launcher."""
        self.say(f"Scheduler hit an exception: {text.rstrip()}\n")
        os.write(self.report_fd, b"sigquit\n")
        time.sleep(3600)

    def enter(self, stage):
        self.script.enter(stage, self.who, self.crash)

    def start_scheduler(self):
        self.enter("init-distributed")
        self.say("Init parallel begin.")
        self.say("Init parallel ends. elapsed=0.18 s")
        for module in SCHEDULER_MODULES:
            importlib.import_module("sglang." + module)
        self.load_weights("load-weights", self.args["model_path"], "DeepseekV3ForCausalLM")
        if self.args["speculative_draft_model_path"]:
            draft = self.args["speculative_draft_model_path"]
            self.load_weights("draft-load-weights", draft, "LlamaForCausalLMEagle3")
        self.enter("kv-cache")
        tokens = self.args["max_total_tokens"]
        self.say(f"KV Cache is allocated. dtype: torch.bfloat16, #tokens: {tokens}, KV size: 0.01 GB")
        self.say("Memory pool end. avail mem=21.39 GB")
        self.enter("capture-graphs")
        self.say(
            "Disable prefill CUDA graph because cuda_graph_config resolved prefill.backend='disabled' "
            "(e.g. via --cuda-graph-backend-prefill=disabled or auto-disable rules)."
        )
        if self.rank in ("", "TP0"):
            self.say(
                f"max_total_num_tokens={tokens}, chunked_prefill_size=4096, max_prefill_tokens=16384, "
                "max_running_requests=8, context_len=2048, available_cpu_mem=21.39 GB"
            )

    def load_weights(self, stage, folder, kind):
        self.say("Memory baseline taken. mem usage=0.00 GB")
        self.say("Load weight begin. avail mem=21.43 GB")
        found = shards.files(folder)
        if self.rank in ("", "TP0"):
            raw(SHARD_BAR.format(percent=0, done=0, all=len(found), rest="?, ?"))
        self.enter(stage)
        wrong = shards.complaint(folder)
        if wrong:
            self.crash(wrong)
        if self.rank in ("", "TP0"):
            raw("\r" + SHARD_BAR.format(percent=100, done=len(found), all=len(found), rest="00:00, 42.29") + "\n")
        self.say(f"Load weight end. elapsed=0.12 s, type={kind}, avail mem=21.42 GB, mem usage=0.01 GB.")

    def start_detokenizer(self):
        importlib.import_module("sglang.srt.layers.logits_processor")


def follow_the_launcher(launcher_fd, serving, linger_s):
    """A byte says that the server serves; the end of the pipe, that the launcher is gone, however it went."""
    while os.read(launcher_fd, 1):
        serving.set()
    time.sleep(linger_s)
    os._exit(0)


def main():
    job = json.loads(os.environ["SGLANG_STANDIN_JOB"])
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    child = Child(job)
    name_this_process(job["title"])
    serving = threading.Event()
    launcher = (job["launcher_fd"], serving, child.script["linger_s"])
    threading.Thread(target=follow_the_launcher, args=launcher, daemon=True).start()
    if child.who == "detokenizer":
        child.start_detokenizer()
    else:
        run_scheduler_process(child)
    os.write(job["report_fd"], b"ready\n")
    serving.wait()
    child.script.while_serving(child.who, child.crash)
    while True:
        time.sleep(3600)


def name_this_process(title):
    """/proc/PID/comm, as setproctitle sets it (15 characters)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(15, title.encode()[:15], 0, 0, 0)
