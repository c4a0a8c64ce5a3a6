"""The behaviour, read from the environment variable SGLANG_STANDIN: one JSON object, every key optional.

pace_s        0.02   time in each stage
delays        {}     stage → seconds instead of pace_s, e.g. {"load-weights": 2}
at            []     what happens on entering a stage: {"stage", "who", "do", "text", "code", "signal"}
serving       []     what happens while serving: {"after_s", "who", "do", "signal"}
health        "ok"   /health while serving: "ok", "503", "timeout"
busy_port     "hang" as SGLang does; or "exit"
ignore_sigterm false
drain_s       0.05   from SIGTERM to exit 0
watchdog_s    0.3    from a scheduler's death to the launcher's (SGLang: 5.6)
detokenizer_watchdog_s 1.0   from the detokenizer's death to the launcher's (SGLang: about 65)
linger_s      0.3    how long children outlive the launcher (SGLang: about 4)

who: "main", "TP0", "TP1", …, "detokenizer". Stages of main: import, args, http, warmup; of the ranks: init-distributed,
load-weights, draft-load-weights, kv-cache, capture-graphs.
do: "crash" (a rank: traceback, the launcher kills its tree; main: text and `code`), "exit" (`code`), "kill" (`signal`),
"hang" (sleeps), "spin" (burns a core), "say" (`text`).
"""

import json
import os
import signal
import sys
import time

DEFAULTS = {
    "pace_s": 0.02,
    "delays": {},
    "at": [],
    "serving": [],
    "health": "ok",
    "busy_port": "hang",
    "ignore_sigterm": False,
    "drain_s": 0.05,
    "watchdog_s": 0.3,
    "detokenizer_watchdog_s": 1.0,
    "linger_s": 0.3,
}


class Script:
    def __init__(self, values):
        unknown = set(values) - set(DEFAULTS)
        if unknown:
            raise SystemExit(f"SGLANG_STANDIN: unknown keys {sorted(unknown)}")
        self.values = {**DEFAULTS, **values}

    def __getitem__(self, key):
        return self.values[key]

    def enter(self, stage, who, crash):
        """Spend the stage's time, then do what the script has for it. `crash(text, code)` ends as SGLang would."""
        time.sleep(self["delays"].get(stage, self["pace_s"]))
        for action in self["at"]:
            if action["stage"] == stage and action["who"] == who:
                self.act(action, crash)

    def act(self, action, crash):
        do, text = action["do"], action.get("text", "")
        if do == "crash":
            crash(text, action.get("code", 1))
        elif do == "kill":
            os.kill(os.getpid(), action.get("signal", signal.SIGKILL))
        elif do == "exit":
            say(text)
            os._exit(action.get("code", 1))
        elif do == "say":
            say(text)
        elif do in ("hang", "spin"):
            while True:
                time.sleep(3600 if do == "hang" else 0)
        else:
            raise SystemExit(f"SGLANG_STANDIN: unknown action {do!r}")

    def while_serving(self, who, crash):
        """Do this process's own serving actions, one after the other; returns when there are none left."""
        began = time.monotonic()
        mine = [a for a in self["serving"] if a["who"] == who]
        for action in sorted(mine, key=lambda a: a["after_s"]):
            time.sleep(max(0.0, began + action["after_s"] - time.monotonic()))
            self.act(action, crash)


def load():
    return Script(json.loads(os.environ.get("SGLANG_STANDIN") or "{}"))


def say(text, rank=""):
    """One line as SGLang logs it: `[time TP0] text`, whole or not at all."""
    stamp = time.strftime("%Y-%m-%d %H:%M:%S")
    raw(f"[{stamp}{' ' + rank if rank else ''}] {text}\n" if text else "")


def raw(text):
    os.write(sys.stderr.fileno(), text.encode("utf-8", "surrogateescape"))
