"""What looks like a mistake, a secret or something to expand, and is none: it arrives as written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sglfab import profiles
from sglfab.errors import InputError
from sglfab.profiles.yamltree import parse, plain

ARGS: dict[str, tuple[str, Any]] = {
    "a whole number": ("8", 8),
    "a fraction": ("0.85", 0.85),
    "a fraction with a zero at its end": ("1.10", "1.10"),
    "a small number as it was written": ("1e-5", "1e-5"),
    "a number with a zero in front": ("0755", "0755"),
    "a number with a plus": ("+5", "+5"),
    "on is text": ("on", "on"),
    "no is text": ("no", "no"),
    "a time is text": ("12:30:45", "12:30:45"),
    "a date is text": ("2024-01-01", "2024-01-01"),
    "true is a switch": ("true", True),
    "quoted true is text": ("'true'", "true"),
    "shell substitution": ("$(hostname)", "$(hostname)"),
    "a shell variable": ("${HOME}/x", "${HOME}/x"),
    "an escaped expansion": ("$${env:HOME}", "${env:HOME}"),
    "quotes within": ('"it\'s \\"fine\\""', 'it\'s "fine"'),
    "several lines": ("|\n    one\n    two", "one\ntwo"),
    "a list": ("[1, 0.50, x]", [1, "0.50", "x"]),
    "a mapping": ("{a: 1, b: [true, null, 1.10]}", {"a": 1, "b": [True, None, 1.1]}),
}


@pytest.mark.parametrize(("text", "value"), ARGS.values(), ids=ARGS.keys())
def test_a_value_of_a_flag(team, text: str, value: Any) -> None:
    args = profiles.load(team({"a.yaml": f"args:\n  served-model-name: {text}\n"}), "a").args
    found = args["served-model-name"]
    assert (found.rstrip("\n") if isinstance(found, str) else found) == value


ENV = {
    "a number as it was written": ("1.10", "1.10"),
    "a leading zero": ("007", "007"),
    "a large number": ("1048576", "1048576"),
    "text that YAML 1.1 takes for a switch": ("on", "on"),
    "a pipe sign": ("0|1", "0|1"),
    "empty text": ("''", ""),
}


@pytest.mark.parametrize(("text", "value"), ENV.values(), ids=ENV.keys())
def test_a_value_of_a_variable(team, text: str, value: str) -> None:
    assert profiles.load(team({"a.yaml": f"env:\n  A: {text}\n"}), "a").env == {"A": value}


NO_SECRETS = {
    "parallel tokenizers": "env: {TOKENIZERS_PARALLELISM: 'false'}",
    "a variable that counts tokens": "env: {SGLANG_MAX_TOKENS: 4096}",
    "a switch about keys": "env: {SGLANG_LOG_DECODE_GRAPH_KEY: 1}",
    "where a token is": "env: {HF_TOKEN_PATH: /run/secrets/hf}",
    "an emptied token": "env: {HF_TOKEN: ''}",
    "a map of text tokens": "args: {speculative-token-map: /models/map.pt}",
    "a number of tokens": "args: {max-total-tokens: 4096}",
    "the path of a key": "args: {ssl-keyfile: /etc/ssl/key.pem}",
    "a URL with a port": "env: {http_proxy: 'http://proxy:3128/a@b'}",
    "a deleted key": "args: {api-key: null}",
}


@pytest.mark.parametrize("text", NO_SECRETS.values(), ids=NO_SECRETS.keys())
def test_no_secret(team, text: str) -> None:
    assert profiles.load(team({"a.yaml": text}), "a").name == "a"


EXPANSIONS = {
    "set": ("${env:CPU}/venv", {"CPU": "/opt"}, "/opt/venv", "$CPU of this machine"),
    "unset with a default": ("${env:CPU:-/d}/venv", {}, "/d/venv", "default of $CPU"),
    "empty with a default": ("${env:CPU:-/d}/venv", {"CPU": ""}, "/d/venv", "default of $CPU"),
    "a home folder": ("${env:CPU:-~/.cache}/v", {"HOME": "/home/op"}, "/home/op/.cache/v", "default of $CPU"),
    "a home folder of somebody else": ("${env:CPU:-~bob}/v", {"HOME": "/home/op"}, "~bob/v", "default of $CPU"),
    "twice": ("${env:A}-${env:B}", {"A": "1", "B": "2"}, "1-2", "$A of this machine, $B of this machine"),
    "in the middle": ("x/${env:A}~/y", {"A": "1", "HOME": "/h"}, "x/1~/y", "$A of this machine"),
    "none": ("~/v", {"HOME": "/home/op"}, "~/v", ""),
}


@pytest.mark.parametrize(("text", "environ", "value", "note"), EXPANSIONS.values(), ids=EXPANSIONS.keys())
def test_expansion(team, text: str, environ: dict[str, str], value: str, note: str) -> None:
    profile = profiles.load(team({"a.yaml": f"description: {text}"}, environ), "a")
    assert (profile.description, profile.origins["description"].note) == (value, note)


def test_an_expanded_value_is_text_and_never_yaml(team) -> None:
    profile = profiles.load(team({"a.yaml": "args: {served-model-name: '${env:A}'}"}, {"A": "[1, {b: 2}]"}), "a")
    assert profile.args == {"served-model-name": "[1, {b: 2}]"}


def refusal(call: Callable[[], object]) -> InputError | None:
    """What an operator would be told; any other exception fails the test."""
    try:
        call()
    except InputError as error:
        return error
    return None


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet="ab: -[]{}#&*!|>'\"%@`,?\n\t01~\\<", max_size=60))
def test_any_text_is_a_tree_or_an_error_of_ours(text: str) -> None:
    error = refusal(lambda: plain(parse(text, "f.yaml")))
    assert error is None or error.where.startswith("f.yaml")


WORDS = st.sampled_from(
    [
        "port",
        "args",
        "env",
        "tp",
        "wait",
        "setup",
        "hosts",
        "secrets",
        "cuda_graphs",
        "ulimits",
        "extends",
        "x",
        "api-key",
    ]
)
TREES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 70000) | st.floats(allow_nan=False) | st.text("ab$~ ", max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.dictionaries(WORDS, TREES, max_size=4))
def test_any_profile_loads_or_is_an_error_with_a_place(team, tree: dict[str, Any]) -> None:
    import yaml

    project = team({"a.yaml": yaml.safe_dump(tree) if tree else "{}"})
    error = refusal(lambda: profiles.load(project, "a"))
    assert error is None or (error.where and error.code)
