"""Checks of the probe that need torch: run by the kit's interpreter (test_probe.py), each `check_…` a test of its own.

`python probe_checks FOLDER` prints {"check_…": null or what failed}; further words name the checks to run, `gpu` those
that need one.
"""

import json
import sys
import traceback

import device_checks
import gpu_checks
import graph_checks
import harm_checks
import load_checks
import statistics_checks
import tap_checks
import trace_checks

MODULES = (statistics_checks, tap_checks, trace_checks, device_checks, graph_checks, load_checks, harm_checks)


def checks(*modules):
    return {name: work for module in modules for name, work in vars(module).items() if name.startswith("check_")}


def outcome(work):
    try:
        work()
    except Exception:
        return traceback.format_exc(limit=-3)
    return None


if __name__ == "__main__":
    known = checks(gpu_checks) if sys.argv[2:] == ["gpu"] else checks(*MODULES)
    wanted = [name for name in sys.argv[2:] if name != "gpu"] or list(known)
    print(json.dumps({name: outcome(known[name]) for name in wanted}))
