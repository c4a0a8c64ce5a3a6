"""Where a scheduler process begins."""

from sglang.srt.plugins import load_plugins


def run_scheduler_process(child):
    load_plugins()
    child.start_scheduler()
