"""The steps of the demo. Each prints its command line, runs it with live output, and checks what it promises."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import requests

from sglfab.testing.demo.setting import BANNER, PROFILE, ROOT, Setting
from sglfab.testing.fixtures import end_runs

FAB = Path(sys.executable).with_name("fab")
PROMPTS = ("The quick brown fox", "EAGLE-3 guesses", "One, two, three")
TOKENS = 24
TRACE_LINES = 1
EXIT_CRASHED = 3
STEP_S = 900  # a bound for CI; a step takes half a minute
SHARD = "model-00002-of-00002.safetensors"
TAP_ROLES = ("target", "draft", "logits-processor")


class Unexpected(Exception):
    """A step did not do what it promises."""


def tell(setting: Setting) -> None:
    say_where(setting)
    chapter("1. Launch: preflight, patch, start, and wait with live stages")
    fab(setting, "launch", "--profile", PROFILE, *setting.launch_words)
    chapter("2. A few requests, and what the draft is worth")
    ask_all(setting)
    if setting.traced:
        chapter("3. The debug trace: what each rank's target, draft and logits processor saw")
        fab(setting, "logs", "--trace", "--lines", str(TRACE_LINES))
        check_trace(setting)
    else:
        chapter("3. No trace: the stand-in runs no model. The patches are only put in.")
        fab(setting, "patch-debug", "--profile", PROFILE)
    chapter("4. Launch again, and another process cuts a shard after preflight: it must crash, and say why")
    crash(setting)
    chapter("5. Stop, and take the debug patches out")
    fab(setting, "stop")
    fab(setting, "unpatch-debug", "--profile", PROFILE)
    check_pristine(setting)


def say_where(setting: Setting) -> None:
    if not setting.traced:
        print(f"\n*** {BANNER} ***  The same story, told with a scripted server that has no model.")
    print(f"State folder: {setting.state_dir}; server: {setting.label}, port {setting.port}", flush=True)


def chapter(title: str) -> None:
    print(f"\n=== {title}", flush=True)


def fab(setting: Setting, *words: str, expect: int = 0) -> None:
    """Run one `fab …` line with its output on this terminal."""
    words = (*setting.core, *words)
    print(f"$ fab {shlex.join(words)}", flush=True)
    try:
        code = subprocess.run([str(FAB), *words], cwd=ROOT, env=setting.env, check=False, timeout=STEP_S).returncode
    except subprocess.TimeoutExpired:
        raise Unexpected(f"`fab {shlex.join(words)}` did not end within {STEP_S} s") from None
    if code != expect:
        raise Unexpected(f"`fab {shlex.join(words)}` ended with {code}, expected {expect}")
    if expect:
        print(f"(exit {code}, as expected)", flush=True)


# --- requests and acceptance ------------------------------------------------------------------------------------------


def ask_all(setting: Setting) -> None:
    for prompt in PROMPTS:
        meta = ask(setting, prompt)
        length, rate = meta.get("spec_accept_length"), meta.get("spec_accept_rate")
        if length is None:
            raise Unexpected("/generate tells no acceptance: the draft does not run")
        worth = f"accept length {length:.2f} of at most 4.00, rate {rate:.2f}"
        note = "" if setting.traced else " (scripted: there is no model)"
        print(f"{prompt!r}: {meta['completion_tokens']} tokens, {worth}{note}", flush=True)
        # The wired pair agrees on everything as long as the right layers reach the draft in the right order.
        if setting.traced and length < 3:
            raise Unexpected(f"acceptance of the wired pair is {length:.2f}, not about 4: its wiring is broken")


def ask(setting: Setting, prompt: str) -> dict[str, float]:
    body = {"text": prompt, "sampling_params": {"max_new_tokens": TOKENS, "temperature": 0, "ignore_eos": True}}
    with requests.Session() as session:
        session.trust_env = False  # never through a proxy to loopback
        answer = session.post(f"http://127.0.0.1:{setting.port}/generate", json=body, timeout=60)
    if answer.status_code != requests.codes.ok:
        raise Unexpected(f"/generate answered {answer.status_code}: {answer.text[:200]}")
    meta: dict[str, float] = answer.json()["meta_info"]
    return meta


# --- the trace --------------------------------------------------------------------------------------------------------


def check_trace(setting: Setting) -> None:
    """Every rank wrote records of the target, the draft and the logits processor."""
    files = sorted(setting.state_dir.glob("**/trace/rank*.jsonl"))
    if len(files) != 2:
        raise Unexpected(f"expected the traces of 2 ranks, found {[f.name for f in files]}")
    for file in files:
        seen = count_taps(file.read_text(encoding="utf-8").splitlines())
        print(f"{file.name}: " + ", ".join(f"{count} {what}" for what, count in sorted(seen.items())), flush=True)
        missing = [what for what in TAP_ROLES if not seen[what]]
        if missing:
            raise Unexpected(f"{file.name} has no record of {', '.join(missing)}")


def count_taps(lines: Iterable[str]) -> Counter[str]:
    """How many records of the target's, the draft's and the logits processor's taps."""
    seen: Counter[str] = Counter()
    for line in lines:
        with contextlib.suppress(ValueError):  # the line that is being written
            record = json.loads(line)
            if record.get("role"):
                seen["logits-processor" if "logits" in record["tap"] else record["role"]] += 1
    return seen


# --- the crash --------------------------------------------------------------------------------------------------------


def crash(setting: Setting) -> None:
    """Launch from a copy of the model whose last shard is cut once the run exists, that is, after preflight."""
    copy = setting.folder / "copy" / setting.model.name
    shutil.copytree(setting.model, copy)
    cutter = Cutter(setting.state_dir, copy / SHARD)
    cutter.start()
    try:
        words = (*setting.launch_words, "--set", f"args.model-path={copy}")
        fab(setting, "launch", "--profile", PROFILE, *words, expect=EXIT_CRASHED)
    finally:
        cutter.stop()
    if not cutter.done:
        raise Unexpected("the launch ended before its run folder appeared")


class Cutter(threading.Thread):
    """The other process: cuts the file in half as soon as a new run appears in the state folder."""

    def __init__(self, state_dir: Path, file: Path) -> None:
        super().__init__(daemon=True)
        self.state_dir, self.file = state_dir, file
        self.before = self.runs()
        self.done = False
        self._enough = threading.Event()

    def runs(self) -> set[Path]:
        return set(self.state_dir.glob("**/runs/*/launch.sh"))

    def run(self) -> None:
        while not self._enough.wait(0.05):
            if self.runs() - self.before:
                os.truncate(self.file, self.file.stat().st_size // 2)
                self.done = True
                return

    def stop(self) -> None:
        self._enough.set()
        self.join()


# --- the end ----------------------------------------------------------------------------------------------------------


def check_pristine(setting: Setting) -> None:
    edited = setting.not_as_released()
    if edited:
        raise Unexpected(f"not byte-identical to the wheel's RECORD after unpatch-debug: {', '.join(edited)}")
    print("sha256 of deepseek_v2.py, llama_eagle3.py and logits_processor.py: as in the wheel's RECORD", flush=True)


def clean_up(setting: Setting) -> None:
    """Leave no server and no patch behind, however the story ended."""
    end_runs(setting.state_dir)
    if setting.not_as_released():
        fab(setting, "unpatch-debug", "--profile", PROFILE)
