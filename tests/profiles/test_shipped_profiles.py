"""The profiles of this checkout, and the schema that editors check profiles with."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
import yaml

from sglfab import commands, profiles
from sglfab.profiles.schema import KEYS, json_schema_text
from sglfab.project import Project

ROOT = Path(__file__).resolve().parents[2]
SHIPPED = ("cpu-demo", "cpu-demo-debug", "deepseek-r1-tp8", "eagle3", "eagle3-debug", "kimi-k2.5-int4-tp8")
SCHEMA = ROOT / "configs" / "profile.schema.json"


@pytest.fixture
def project() -> Project:
    return Project(ROOT, environ={"HOME": "/home/op"})


def test_these_are_shipped(project: Project) -> None:
    assert profiles.names(project) == SHIPPED


@pytest.mark.parametrize("name", SHIPPED)
@pytest.mark.parametrize("release", ["0.5.10", "0.5.16", "0.5.23"])
def test_each_renders_without_a_note(project: Project, name: str, release: str) -> None:
    profile = profiles.load(project, name)
    assert profile.description
    assert commands.render(project, profile, release=release, release_source="host").notes == ()


def test_the_debug_profile_is_the_other_with_nothing_but_debugging_added(project: Project) -> None:
    plain, debug = (profiles.load(project, name) for name in ("eagle3", "eagle3-debug"))
    assert {k: v for k, v in debug.args.items() if k not in plain.args} == {"decode-log-interval": 1}
    assert {k: debug.args[k] for k in plain.args} == plain.args
    assert (debug.cuda_graphs, debug.patches, debug.env) == (
        False,
        ("eagle3-hidden-states",),
        {"PYTHONUNBUFFERED": "1"},
    )
    spec = {k: v for k, v in plain.args.items() if k.startswith("speculative-n") or k.endswith(("algorithm", "topk"))}
    assert spec == {
        "speculative-algorithm": "EAGLE3",
        "speculative-num-steps": 3,
        "speculative-eagle-topk": 1,
        "speculative-num-draft-tokens": 4,
    }
    assert plain.args["tp-size"] == 8


def test_the_demo_lies_where_the_kit_is_installed(project: Project) -> None:
    from sglfab.testing.cpu.layout import default_kit

    environ = {"SGLFAB_CPU": "/somewhere/cpu", "HOME": "/home/op"}
    kit = default_kit(environ)
    profile = profiles.load(Project(ROOT, environ=environ), "cpu-demo")
    assert profile.python == str(kit.python)
    assert profile.args["model-path"] == str(kit.target_model)
    assert profile.args["speculative-draft-model-path"] == str(kit.draft_model)
    assert profile.env["PYTHONPATH"] == str(kit.stubs)


def test_the_schema_file_is_the_generated_one() -> None:
    assert SCHEMA.read_text(encoding="utf-8") == json_schema_text(), "run python tools/profile_schema.py"


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_profiles_fit_the_schema(name: str) -> None:
    shape = yaml.safe_load((ROOT / "configs" / "profiles" / f"{name}.yaml").read_text(encoding="utf-8"))
    jsonschema.validate(shape, json.loads(SCHEMA.read_text(encoding="utf-8")))


@pytest.mark.parametrize(
    "shape", [{"prot": 1}, {"port": 70000}, {"wait": {"deadline": 1}}, {"env": {"A": True}}, {"env": {"A-B": "x"}}]
)
def test_the_schema_refuses_what_we_refuse(shape: dict) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(shape, json.loads(SCHEMA.read_text(encoding="utf-8")))


def test_the_schema_knows_every_key() -> None:
    assert set(json.loads(SCHEMA.read_text(encoding="utf-8"))["properties"]) == set(KEYS)
