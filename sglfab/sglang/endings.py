"""How SGLang servers end, and the lines that only echo what another process did: wording in one place."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Ending:
    """A line after which this server does not serve. how: crash, kill, stop (asked for) or echo (a consequence)."""

    how: str
    pattern: re.Pattern[str]
    needle: str


def _ending(how: str, needle: str, pattern: str | None = None) -> Ending:
    return Ending(how, re.compile(pattern or re.escape(needle)), needle)


ENDINGS: tuple[Ending, ...] = (
    _ending("echo", "Received sigquit from a child proces", r"^Received sigquit from a child proces"),  # once misspelt
    _ending("echo", "SIGQUIT received.", r"^SIGQUIT received\."),
    _ending("echo", "kill_process_tree called", r"^kill_process_tree called"),
    _ending("echo", "Initialization failed. Please see the error messages above"),
    _ending("echo", "Exit code: ", r"^Exit code: -?\d+$"),
    _ending("crash", "scheduler is dead. Please check", r"^Rank \d+ scheduler is dead\."),
    _ending("crash", "died during initialization (exit code"),
    _ending("crash", "crashed with exit code", r"^Subprocess \S+ \(pid=\d+\) crashed with exit code -?\d+"),
    _ending("crash", "terminated with", r"^Scheduler or DataParallelController \d+ terminated with"),
    _ending("crash", "Initialization failed. warmup error", r"^Initialization failed\. warmup error"),
    _ending(
        "crash",
        "error while attempting to bind on address",
        r"^(?:ERROR: +)?\[Errno \d+\] error while attempting to bind on address",
    ),
    _ending(
        "crash",
        ": error: ",
        r"^(?:[\w./ -]+\.py|sglang(?: serve)?|sglang[\w. -]*|\S*python[\d.]* -m sglang[\w.]*): error: ",
    ),
    _ending("crash", "Fatal Python error", r"^Fatal Python error"),
    _ending("crash", "terminate called after throwing", r"^terminate called after throwing"),
    _ending("crash", "Segmentation fault", r"(?:^|\s)Segmentation fault(?: \(core dumped\))?"),
    _ending("crash", "Segfault encountered", r"^!+ Segfault encountered !+"),
    _ending(  # it ends the process: an allocation that torch may try again has no `error` in it
        "crash", "[torch_memory_saver.cpp] ", r"^\[torch_memory_saver\.cpp\] (?:CUresult|cudaError) error\b"
    ),
    _ending("crash", "atchdog timeout (", r"^(?:\w+ )?[Ww]atchdog timeout \((?!.*soft=True)"),
    _ending("kill", "Killed process", r"^(?:Out of memory|Memory cgroup out of memory): Killed process \d+ \(sglang::"),
    _ending("kill", "Killed", r"^(?:\S+: line \d+: +\d+ )?Killed(?:\s|$)"),
    _ending("stop", "SIGTERM received", r"^SIGTERM received"),
    _ending("stop", "Signal SIGTERM received", r"^Signal SIGTERM received"),
    _ending("stop", "CANCELLED AT", r"^(?:slurmstepd|srun): error: .*CANCELLED AT"),
    _ending("stop", "Terminated", r"^(?:\S+: line \d+: +\d+ )?Terminated(?:\s|$)"),
    _ending("stop", "Gracefully exiting", r"^Gracefully exiting"),
    _ending("stop", "KeyboardInterrupt", r"^KeyboardInterrupt"),
    _ending("stop", "Received signal 15"),
    _ending("stop", "Shutting down", r"^INFO: +Shutting down$"),
    _ending("stop", "Stopping", r"^Stopping (?:sglang\S*\.service|container)|: Stopping .*(?:sglang|SGLang)"),
)

# What a rank or the launcher says when another process is gone: never the first cause while another one is known.
ECHO = re.compile(
    r"EOFError$|Connection closed by peer|Connection reset by peer|Broken pipe|"
    r"remote process exited or there was a network error|"
    r"died during initialization \(exit code|NCCL communicator was aborted|Socket closed|"
    r"recvValue failed|sendBytes failed|"
    r"recvBytes failed|failed to recv, got 0 bytes|Failed to recv, got 0 bytes|"
    r"ncclRemoteError|ncclInProgress|process group .*aborted|"
    r"Some NCCL operations have failed or timed out|"
    r"taking (?:down )?the entire process down|Terminating the process after attempting|"
    r"finish the model loading, but there are other ranks|monitoredBarrier|Application startup failed"
)


def ending_of(text: str) -> Ending | None:
    return next((e for e in ENDINGS if e.needle in text and e.pattern.search(text)), None)


_WHO_DIED = re.compile(r"^(?:.*Error: )?Rank (?P<rank>\d+) scheduler |Subprocess \S+ \(pid=(?P<pid>\d+)\) crashed")


def tells_of_another(text: str, *, pid: int | None, rank: str | None) -> bool:
    """Whether the launcher names, as the first that died, another process than the one of this pid and rank.

    A process that dies as soon as it is there may never have been seen; those that the launcher then ends are.
    """
    told = _WHO_DIED.search(text)
    if told is None:
        return False
    if told["pid"]:
        return pid is not None and int(told["pid"]) != pid
    return rank is not None and rank != f"TP{told['rank']}" and re.fullmatch(r"TP\d+", rank) is not None
