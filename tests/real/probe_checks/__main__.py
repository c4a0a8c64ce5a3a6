"""Checks of the probe that need torch: run by the kit's interpreter (test_probe.py), each `check_…` a test of its own.

`python probe_checks FOLDER` prints {"check_…": null or what failed}; further words name the checks to run.
"""

import json
import sys
import traceback

import device_checks
import graph_checks
import harm_checks
import load_checks
import statistics_checks
import tap_checks
import trace_checks

MODULES = (statistics_checks, tap_checks, trace_checks, device_checks, graph_checks, load_checks, harm_checks)


def checks():
    return {name: work for module in MODULES for name, work in vars(module).items() if name.startswith("check_")}


def outcome(work):
    try:
        work()
    except Exception:
        return traceback.format_exc(limit=-3)
    return None


if __name__ == "__main__":
    wanted = sys.argv[2:] or list(checks())
    print(json.dumps({name: outcome(checks()[name]) for name in wanted}))
