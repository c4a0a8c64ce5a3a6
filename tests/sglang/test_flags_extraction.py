"""Reading flags from SGLang's source: its three styles of declaring them, and the installed SGLang's own parser."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from sglfab.project import Project
from sglfab.sglang.flags import read_flags
from tools.flags_ast import flags_of_sources
from tools.flags_extract import spans

ADDED = """
CHOICES = ["a", "b"]
class ServerArgs:
    def add_cli_args(parser):
        parser.add_argument("--model-path", "--model", type=str, required=True)
        parser.add_argument("--tensor-parallel-size", "--tp-size", type=int, default=1)
        parser.add_argument("--backend", choices=CHOICES + ["c"])
        parser.add_argument("--plugin", choices=list_plugins())
        parser.add_argument("--trust", action="store_true")
        parser.add_argument("--bs", type=int, nargs="+")
        parser.add_argument("--log", nargs="?", const="x")
        parser.add_argument("--strict", action=argparse.BooleanOptionalAction)
        parser.add_argument("--hook", action="append")
        parser.add_argument("--extra", type=json.loads)
        parser.add_argument("--gone", action=DeprecatedAction, error_message="use --bs")
        parser.add_argument("--old", action=DeprecatedAliasStoreAction, new_flag="--bs", type=int, nargs="+")
        parser.add_argument("positional")
"""
ANNOTATED = """
CHOICES = ["a", "b"]
class ServerArgs:
    model_path: A[str, Arg(help="x", aliases=["--model"])]
    tp_size: A[int, Arg(help="x", aliases=["--tensor-parallel-size"])] = 1
    backend: A[Optional[str], Arg(help="x", choices=[*CHOICES, "c"])] = None
    trust: A[Optional[bool], "help"] = None
    bs: A[Optional[List[int]], f"help {x}"] = None
    hooks: A[Optional[List[dict]], Arg(help="x", type_parser=json_list_type)] = None
    mode: A[Literal["p", "d"], "help"] = "p"
    strict: A[bool, Arg(help="x", action=argparse.BooleanOptionalAction)] = True
    paths: A[Optional[list], Arg(action=LoRAPathAction, action_kwargs={"type": str, "nargs": "*"})] = None
    renamed: A[str, Arg(help="x", cli_name="--other-name")] = "x"
    hidden: A[int, Arg(help="x", no_cli=True)] = 1
    plain: int = 1
    bare: A[int, NS] = 1
class Unrelated:
    not_a_flag: A[int, "help"] = 1
"""
NAMESPACED = 'class Device(msgspec.Struct):\n    _NS_PATH = "device"\n    device: A[str | None, "help"] = None\n'


def read(**sources: str) -> dict[str, dict]:
    return {flag["names"][0]: {k: v for k, v in flag.items() if k != "names"} for flag in flags_of_sources(sources)}


def test_arguments_that_are_added() -> None:
    assert read(server_args=ADDED) == {
        "model-path": {"kind": "value", "type": "str"},
        "tensor-parallel-size": {"kind": "value", "type": "int"},
        "backend": {"kind": "value", "type": "str", "choices": ["a", "b", "c"]},
        "plugin": {"kind": "value", "type": "str"},
        "trust": {"kind": "switch"},
        "bs": {"kind": "list", "nargs": "+", "type": "int"},
        "log": {"kind": "value", "nargs": "?", "type": "str"},
        "strict": {"kind": "boolean"},
        "hook": {"kind": "append", "type": "str"},
        "extra": {"kind": "value", "type": "json"},
        "gone": {"kind": "switch", "deprecated": True, "use": "use --bs", "refused": True},
        "old": {"kind": "list", "nargs": "+", "type": "int", "deprecated": True, "use": "--bs"},
    }


def test_fields_that_are_annotated() -> None:
    assert read(server_args=ANNOTATED) == {
        "model-path": {"kind": "value", "type": "str"},
        "tp-size": {"kind": "value", "type": "int"},
        "backend": {"kind": "value", "type": "str", "choices": ["a", "b", "c"]},
        "trust": {"kind": "switch"},
        "bs": {"kind": "list", "nargs": "+", "type": "int"},
        "hooks": {"kind": "value", "type": "json"},
        "mode": {"kind": "value", "type": "str", "choices": ["p", "d"]},
        "strict": {"kind": "boolean"},
        "paths": {"kind": "list", "nargs": "*", "type": "str"},
        "other-name": {"kind": "value", "type": "str"},
    }


def test_fields_of_namespace_classes() -> None:
    assert read(fields=NAMESPACED) == {"device": {"kind": "value", "type": "str"}}


def test_one_name_over_releases_with_spans_of_equal_shape() -> None:
    old = flags_of_sources({"a": ADDED})
    new = flags_of_sources({"a": ANNOTATED})
    found = spans({"1": old, "2": old, "3": new})
    assert found["tp-size"] == [
        {"from": "1", "to": "3", "aliases": ["tensor-parallel-size"], "kind": "value", "type": "int"}
    ]
    assert [(s["from"], s["to"]) for s in found["hook"]] == [("1", "2")]
    assert [(s["from"], s["to"]) for s in found["mode"]] == [("3", "3")]


DUMP = """
import argparse, json
from sglang.srt.server_args import ServerArgs
parser = argparse.ArgumentParser(add_help=False)
ServerArgs.add_cli_args(parser)
print(json.dumps([[a.option_strings, a.nargs, type(a).__name__] for a in parser._actions]))
"""


@pytest.mark.sglang
def test_the_list_is_that_of_the_installed_parser() -> None:
    from sglfab.testing.cpu.layout import default_kit, pinned

    kit = default_kit()
    env = {**os.environ, "PYTHONPATH": str(kit.stubs), "SGLANG_USE_CPU_ENGINE": "1", "TORCHDYNAMO_DISABLE": "1"}
    done = subprocess.run(
        [str(kit.python), "-c", DUMP], env=env, capture_output=True, text=True, check=True, timeout=110
    )
    known = read_flags(Project(Path(__file__).resolve().parents[2])).at(pinned("sglang"))
    assert known.basis.relation == "same"
    real = {}
    for names, nargs, action in json.loads(done.stdout.strip().splitlines()[-1]):
        kind = {"_StoreTrueAction": "switch", "DeprecatedStoreTrueAction": "switch", "BooleanOptionalAction": "boolean"}
        spelled = frozenset(n[2:] for n in names if action != "BooleanOptionalAction" or not n.startswith("--no-"))
        real[spelled] = kind.get(action) or ("list" if nargs in ("+", "*") else "value")
    assert {frozenset({f.name, *f.aliases}): f.kind for f in known.flags.values()} == real
