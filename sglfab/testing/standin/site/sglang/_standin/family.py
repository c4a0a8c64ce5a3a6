"""The launcher's children: start them, wait for them, notice their death, end them."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time

from sglang._standin.script import say

SITE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BOOT = f"import sys; sys.path.insert(0, {SITE!r})\nfrom sglang._standin.child import main\nmain()\n"


class Family:
    def __init__(self, args, script):
        self.args, self.script = args, script
        self.children = {}
        self.stopping = False
        self.serving = threading.Event()  # once set, a child's death is the watchdog's matter
        self.report_r, self.report_w = os.pipe()
        self.launcher_ends = []
        self.loaded = threading.Event()

    def start(self):
        ranks = self.args["tp_size"]
        for rank in range(ranks):
            name = f"TP{rank}"
            self.spawn(name, name if ranks > 1 else "", "sglang::scheduler" + (f"_{name}" if ranks > 1 else ""))
        self.spawn("detokenizer", "", "sglang::detokenizer")

    def spawn(self, who, rank, title):
        launcher_r, launcher_w = os.pipe()
        self.launcher_ends.append(launcher_w)
        job = {"who": who, "rank": rank, "title": title, "args": self.args}
        job |= {"report_fd": self.report_w, "launcher_fd": launcher_r}
        # argv is the title alone, as after setproctitle; Python reads its program from stdin.
        child = subprocess.Popen(
            [title],
            executable=sys.executable,
            stdin=subprocess.PIPE,
            pass_fds=(self.report_w, launcher_r),
            env={**os.environ, "SGLANG_STANDIN_JOB": json.dumps(job)},
        )
        child.stdin.write(BOOT.encode())
        child.stdin.close()
        os.close(launcher_r)
        self.children[who] = child
        threading.Thread(target=self.watch, args=(who, child), daemon=True).start()

    def wait_until_loaded(self):
        threading.Thread(target=self.listen, daemon=True).start()
        self.loaded.wait()

    def listen(self):
        """Count who is loaded; a rank that hit an exception ends the launcher, as SGLang's sigquit does."""
        ready = 0
        with os.fdopen(self.report_r) as reports:
            for line in reports:
                ready += line.strip() == "ready"
                if line.strip() == "sigquit":
                    self.die_of_a_child()
                if ready == len(self.children):
                    self.loaded.set()

    def begin_serving_actions(self):
        """Tell the children that the script's `serving` actions begin; one may be dead already."""
        for end in self.launcher_ends:
            with contextlib.suppress(BrokenPipeError):
                os.write(end, b"s")

    def die_of_a_child(self):
        say("Received sigquit from a child process. It usually means the child failed.")
        self.kill_tree()

    def watch(self, who, child):
        code = child.wait()
        if self.stopping:
            return
        scheduler = who != "detokenizer"
        if not self.serving.is_set() and scheduler:
            say(
                f"Rank {who[2:]} scheduler died during initialization (exit code: {code}). "
                "If exit code is -9 (SIGKILL), a common cause is the OS OOM killer. "
                "Run `dmesg -T | grep -i oom` to check."
            )
            self.kill_tree()
        name = f"scheduler_{who[2:]}" if scheduler else "detokenizer"
        if not scheduler:
            time.sleep(self.script["detokenizer_watchdog_s"])
        say(f"Subprocess {name} (pid={child.pid}) crashed with exit code {code}. Triggering SIGQUIT for cleanup...")
        say("SIGQUIT received. signum=None, frame=None. It usually means one child failed.")
        time.sleep(self.script["watchdog_s"])
        self.kill_tree()

    def kill_tree(self):
        """kill_process_tree of SGLang: the children, then this process, all by SIGKILL."""
        say(f"kill_process_tree called: parent_pid={os.getpid()}, include_parent=True, pid={os.getpid()}")
        self.end_children()
        os.kill(os.getpid(), signal.SIGKILL)

    def end_children(self):
        self.stopping = True
        for child in self.children.values():
            with contextlib.suppress(ProcessLookupError):
                os.kill(child.pid, signal.SIGKILL)

    def answering(self):
        """Every child is there and not stopped: what /health needs, and /model_info does not."""
        return all(child.poll() is None and not stopped(child.pid) for child in self.children.values())

    def detokenizer_gone(self):
        return self.children["detokenizer"].poll() is not None


def stopped(pid):
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] in "Tt"
    except OSError:
        return False
