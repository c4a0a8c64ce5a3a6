"""`fab render` tells of every value where it came from."""

from __future__ import annotations

from sglfab.commands import Row, explain_render

TEXT = """\
port: 8000
cuda_graphs: false
python: /opt/venv
cwd: /work
setup: [module load cuda]
ulimits: {memlock: unlimited}
patches: [eagle3-hidden-states]
hosts: [gpu1]
args:
  model: /m
  lora-strict-loading: false
  cuda-graph-bs-decode: [1, 2]
  json-model-override-args:
    a: 1
    b: 2
env:
  NO_PROXY: corp
  A: 1
wait: {allowances: {serving_s: 10}, deadline_s: 60.5}
stop: {grace_s: 5}
"""
P = "profiles/p.yaml"


def test_every_value(profile, plan) -> None:
    rows = explain_render(plan(TEXT, sets=("tp=2",)), profile(TEXT, ("tp=2",)))
    off = f"{P}:2: CUDA graphs off, as SGLang 0.5.23 spells it"
    unproxied = "corp,127.0.0.1,localhost,::1"
    by_fab = f"{P}:17, and added by fab: never a proxy to ourselves"
    assert rows == [
        Row("flag", "--model-path", "/m", f"{P}:10"),
        Row("flag", "--no-lora-strict-loading", "", f"{P}:11"),
        Row("flag", "--cuda-graph-bs-decode", "1 2", f"{P}:12"),
        Row("flag", "--json-model-override-args", '{"a":1,"b":2}', f"{P}:14, {P}:15"),
        Row("flag", "--tp-size", "2", "--set (tp)"),
        Row("flag", "--cuda-graph-backend-decode", "disabled", off),
        Row("flag", "--cuda-graph-backend-prefill", "disabled", off),
        Row("flag", "--port", "8000", f"{P}:1"),
        Row("env", "A", "1", f"{P}:18"),
        Row("env", "no_proxy", unproxied, by_fab),
        Row("env", "NO_PROXY", unproxied, by_fab),
        Row("setting", "python", "/opt/venv/bin/python", f"{P}:3"),
        Row("setting", "cwd", "/work", f"{P}:4"),
        Row("setting", "setup", "module load cuda", f"{P}:5"),
        Row("setting", "patches", "eagle3-hidden-states", f"{P}:7"),
        Row("setting", "hosts", "gpu1", f"{P}:8"),
        Row("setting", "ulimits.memlock", "unlimited", f"{P}:6"),
        Row("setting", "wait.allowances.serving", "10", f"{P}:19"),
        Row("setting", "wait.deadline_s", "60.5", f"{P}:19"),
        Row("setting", "stop.grace_s", "5", f"{P}:20"),
    ]


def test_what_nobody_said_is_said_to_be_a_default(profile, plan) -> None:
    text = "args: {model-path: /m}"
    rows = {row.name: row.origin for row in explain_render(plan(text), profile(text))}
    assert rows["--port"] == "SGLang's default"
    assert rows["python"] == "the host's"
