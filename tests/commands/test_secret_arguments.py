"""Secrets are in no file and in no command line; start.py puts them where the server looks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sglfab.commands import explain_render
from sglfab.errors import InputError

TEXT = """
args: {model-path: /m}
secrets:
  args: {api_key: {env: MY_KEY}, admin-api-key: {command: "pass show admin"}}
  env: {HF_TOKEN: {file: ~/.hf}}
"""
SERVER = """
import json, multiprocessing, os, sys

def child(queue):
    queue.put([sys.modules["__main__"].__name__, sys.argv[1:]])

if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    process = context.Process(target=child, args=(queue,))
    process.start()
    name, argv = queue.get(timeout=30)
    process.join()
    with open(f"/proc/{os.getpid()}/cmdline") as file:
        cmdline = file.read()
    print(json.dumps({"argv": sys.argv, "path0": sys.path[0], "env": sorted(os.environ), "child": [name, argv],
                      "cmdline": cmdline, "name": __spec__.name}))
"""


@pytest.fixture
def install(tmp_path: Path) -> Path:
    """A sglang whose launch_server prints what it sees, itself and in a spawned process."""
    package = tmp_path / "site" / "sglang"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "launch_server.py").write_text(SERVER)
    return package.parent


def start(
    script: str, starter: str, folder: Path, values: dict[str, str], site: Path
) -> subprocess.CompletedProcess[str]:
    run = folder / "run folder"
    run.mkdir()
    (run / "launch.sh").write_text(script)
    (run / "start.py").write_text(starter)
    reader, writer = os.pipe()
    os.write(writer, json.dumps(values).encode())
    os.close(writer)
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(site), "SGLFAB_SECRETS_FD": str(reader)}
    try:
        return subprocess.run(
            ["bash", str(run / "launch.sh")],
            env=env, pass_fds=[reader], capture_output=True, text=True, check=False, timeout=60, cwd=folder,
        )  # fmt: skip
    finally:
        os.close(reader)


def test_the_server_sees_them_and_nobody_else(plan, install: Path, tmp_path: Path) -> None:
    found = plan(f"python: {sys.executable}\ncwd: {tmp_path}\n{TEXT}")
    values = {"args.api-key": "-k 1'$(x)", "args.admin-api-key": "a=b"}
    done = start(found.script, found.starter or "", tmp_path, values, install)
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    wanted = ["--model-path", "/m", "--port", "30000", "--api-key=-k 1'$(x)", "--admin-api-key=a=b"]
    assert seen["argv"][1:] == wanted
    assert seen["argv"][0].endswith("sglang/launch_server.py")
    assert seen["child"] == ["__mp_main__", wanted]  # as spawn names the module that it imports by name
    assert seen["name"] == "sglang.launch_server"
    assert seen["path0"] == str(tmp_path)
    assert "SGLFAB_SECRETS_FD" not in seen["env"]
    assert "$(x)" not in seen["cmdline"]
    assert "SGLFAB_SECRET:args.api-key" in seen["cmdline"]


def test_the_plan_holds_no_secret(plan, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", "hunter2")
    found = plan(TEXT)
    assert "--api-key=SGLFAB_SECRET:args.api-key" in found.argv
    assert "hunter2" not in json.dumps(found.to_json())
    assert "HF_TOKEN" not in found.script
    assert {s.target for s in found.secrets} == {"args.api-key", "args.admin-api-key", "env.HF_TOKEN"}


def test_no_starter_where_only_the_environment_is_secret(plan) -> None:
    found = plan("args: {model-path: /m}\nsecrets: {env: {HF_TOKEN: {env: T}}}")
    assert found.starter is None
    assert "start.py" not in found.script


def test_they_are_shown_as_stars_with_their_source(profile, plan) -> None:
    rows = {row.name: row for row in explain_render(plan(TEXT), profile(TEXT))}
    assert (rows["--api-key"].value, rows["--api-key"].origin) == (
        "***",
        "profiles/p.yaml:4 (from $MY_KEY of this machine)",
    )
    assert (rows["HF_TOKEN"].value, rows["HF_TOKEN"].origin) == ("***", "profiles/p.yaml:5 (from the file ~/.hf)")
    assert rows["--admin-api-key"].origin.endswith("(from a command)")


@pytest.mark.parametrize(
    ("args", "release", "code"),
    [
        ("{api-kee: {env: A}}", "0.5.23", "flag-unknown"),
        ("{admin-api-key: {env: A}}", "0.5.7", "flag-unknown"),
        ("{trust-remote-code: {env: A}}", "0.5.23", "flag-wrong-type"),
    ],
)
def test_a_secret_for_an_argument_that_takes_none(plan, args: str, release: str, code: str) -> None:
    with pytest.raises(InputError) as caught:
        plan(f"args: {{model-path: /m}}\nsecrets:\n  args: {args}", release)
    assert (caught.value.code, caught.value.where) == (code, "profiles/p.yaml:3")


@pytest.mark.sglang
def test_a_real_server_takes_a_key_that_ps_does_not_show(plan, tmp_path: Path) -> None:
    """It gets as far as its own parser: the key is in the arguments that the server prints, and not in /proc."""
    from sglfab.testing.cpu.layout import default_kit

    kit = default_kit()
    text = (
        f"python: {kit.python}\nargs: {{model-path: {tmp_path}/none, device: cpu}}\n"
        f"env: {{PYTHONPATH: {kit.stubs}, SGLANG_USE_CPU_ENGINE: 1, TORCHDYNAMO_DISABLE: 1, HF_HUB_OFFLINE: 1}}\n"
        "secrets: {args: {api-key: {env: K}}}\n"
    )
    found = plan(text)
    begun = time.monotonic()
    done = start(found.script, found.starter or "", tmp_path, {"args.api-key": "-hunter2"}, kit.stubs)
    assert time.monotonic() - begun < 60
    output = done.stdout + done.stderr
    assert "launch_server.py" in output  # the traceback for the missing model comes from the server's own code
    assert f"{tmp_path}/none" in output
    assert "unrecognized arguments" not in output
    assert "expected one argument" not in output
