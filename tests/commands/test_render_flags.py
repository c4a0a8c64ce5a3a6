"""Which words each flag becomes, and which values, flags and combinations a release refuses."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from sglfab.errors import InputError

HEAD = ["python3", "-m", "sglang.launch_server", "--model-path", "/m"]
TAIL = ["--port", "30000"]


@dataclass
class Case:
    args: str
    words: list[str]
    release: str = "0.5.23"


WORDS = {
    "a value": Case("tp-size: 8", ["--tp-size", "8"]),
    "an alias by its long name": Case("tensor-parallel-size: 8", ["--tp-size", "8"]),
    "a switch": Case("trust-remote-code: true", ["--trust-remote-code"]),
    "a switch that is off": Case("trust-remote-code: false", []),
    "a value that is off": Case("mem-fraction-static: false", []),
    "an automatic flag on": Case("lora-strict-loading: true", ["--lora-strict-loading"]),
    "an automatic flag off": Case("lora-strict-loading: false", ["--no-lora-strict-loading"]),
    "a list of words": Case("cuda-graph-bs-decode: [1, 2, 4]", ["--cuda-graph-bs-decode", "1", "2", "4"]),
    "one word for a list": Case("cuda-graph-bs-decode: 4", ["--cuda-graph-bs-decode", "4"]),
    "an empty list where none is needed": Case("lora-paths: []", ["--lora-paths"]),
    "a mapping": Case(
        "model-loader-extra-config: {num_threads: 8, enable_multithread_load: true}",
        ["--model-loader-extra-config", '{"num_threads":8,"enable_multithread_load":true}'],
    ),
    "a mapping of unicode": Case("json-model-override-args: {name: Ü}", ["--json-model-override-args", '{"name":"Ü"}']),
    "a list for JSON": Case(
        "forward-hooks: [{name: a, target_modules: ['*']}]",
        ["--forward-hooks", '[{"name":"a","target_modules":["*"]}]'],
    ),
    "JSON as text": Case("forward-hooks: '[ ]'", ["--forward-hooks", "[ ]"]),
    "mappings in a list of words": Case(
        "lora-paths: [a=/a, {lora_name: b, lora_path: /b}]",
        ["--lora-paths", "a=/a", '{"lora_name":"b","lora_path":"/b"}'],
    ),
    "a list for one value is joined": Case(
        "disaggregation-ib-device: [mlx5_0, mlx5_1]", ["--disaggregation-ib-device", "mlx5_0,mlx5_1"]
    ),
    "a negative number": Case("random-seed: -1", ["--random-seed", "-1"]),
    "a value that looks like a flag": Case("served-model-name: --x", ["--served-model-name=--x"]),
    "a number as it was written": Case("mem-fraction-static: 0.850", ["--mem-fraction-static", "0.850"]),
    "a size with its unit": Case("max-total-tokens: 4k", ["--max-total-tokens", "4k"]),
    "a flag under its former name": Case(
        "hisparse-config: '{}'", ["--hierarchical-sparse-attention-extra-config", "{}"], release="0.5.8"
    ),
    "a host to listen on": Case("host: 0.0.0.0", ["--host", "0.0.0.0"]),
}


@pytest.mark.parametrize("case", WORDS.values(), ids=WORDS.keys())
def test_words(plan, case: Case) -> None:
    found = plan(f"args:\n  model-path: /m\n  {case.args}\n", case.release)
    assert list(found.argv) == [*HEAD, *case.words, *TAIL]


@dataclass
class Wrong:
    args: str
    code: str
    says: str
    try_: str = ""
    release: str = "0.5.23"


WRONG = {
    "an unknown flag": Wrong("mem_fractoin: 0.8", "flag-unknown", "'mem_fractoin'", "mem-fraction-static"),
    "a field's name cut off": Wrong("mem_fraction: 0.8", "flag-unknown", "'mem_fraction'", "mem-fraction-static"),
    "an alias with a slip": Wrong("tensor-paralel-size: 8", "flag-unknown", "tensor-paralel-size", "tp-size"),
    "a word cut off": Wrong("fraction: 0.8", "flag-unknown", "fraction"),
    "a flag that is gone": Wrong(
        "cuda-graph-max-bs: 8", "flag-unknown", "it is one of 0.4.6–0.5.19", "--cuda-graph-max-bs-decode"
    ),
    "a flag that is yet to come": Wrong(
        "cuda-graph-backend-decode: full", "flag-unknown", "it is one of 0.5.14–", release="0.5.12"
    ),
    "a flag at which SGLang stops": Wrong(
        "enable-expert-distribution-metrics: true",
        "flag-refused",
        "refuses",
        "--expert-balancedness-report-mode",
        release="0.5.19",
    ),
    "text for a number": Wrong("tp-size: eight", "flag-wrong-type", "a whole number, not 'eight'"),
    "a fraction for a whole number": Wrong("tp-size: 1.5", "flag-wrong-type", "not '1.5'"),
    "no whole ranks": Wrong("tp-size: 0", "flag-wrong-type", "from 1 to 4096"),
    "more ranks than there are": Wrong("tp-size: 99999999999999999999", "flag-wrong-type", "from 1 to 4096"),
    "a switch for a number": Wrong("tp-size: true", "flag-wrong-type", "not 'true'"),
    "text for a fraction": Wrong("mem-fraction-static: most", "flag-wrong-type", "a number"),
    "a size of words": Wrong("max-total-tokens: 4 k", "flag-wrong-type", "4k"),
    "a value for a switch": Wrong("trust-remote-code: 1", "flag-wrong-type", "is a switch", "trust-remote-code: true"),
    "text for an automatic flag": Wrong("lora-strict-loading: 'no'", "flag-wrong-type", "is a switch"),
    "a list for one number": Wrong("tp-size: [4, 8]", "flag-wrong-type", "tp-size"),
    "one bad word of several": Wrong("cuda-graph-bs-decode: [1, two]", "flag-wrong-type", "two"),
    "no words at all": Wrong("cuda-graph-bs-decode: []", "flag-wrong-type", "at least one"),
    "a dash among several words": Wrong("lora-paths: [a=/a, --x]", "flag-wrong-type", "begins with a dash"),
    "text that is no JSON": Wrong("forward-hooks: '{a'", "flag-wrong-type", "JSON"),
    "no choice": Wrong("load-format: dumy", "flag-bad-choice", "dumy", "dummy"),
    "graphs on against the intent": Wrong(
        "cuda-graph-backend-prefill: full\ncuda_graphs: false", "profile-contradiction", "cuda_graphs is false"
    ),
    "steps alone": Wrong(
        "speculative-algorithm: EAGLE3\n  speculative-num-steps: 3",
        "spec-params",
        "without speculative-eagle-topk and speculative-num-draft-tokens",
        "speculative-eagle-topk: 1, speculative-num-draft-tokens: 4",
    ),
    "two of three": Wrong(
        "speculative-algorithm: nextn\n  speculative-eagle-topk: 1\n  speculative-num-draft-tokens: 4",
        "spec-params",
        "without speculative-num-steps",
    ),
    "nodes without a meeting point": Wrong("nnodes: 2\n  tp-size: 16", "flag-missing", "dist-init-addr"),
    "ranks that do not divide": Wrong("nnodes: 2\n  dist-init-addr: a:1\n  tp-size: 3", "flag-bad-value", "evenly"),
}


@pytest.mark.parametrize("case", WRONG.values(), ids=WRONG.keys())
def test_refused(plan, case: Wrong) -> None:
    with pytest.raises(InputError) as caught:
        plan(f"args:\n  model-path: /m\n  {case.args}\n", case.release)
    error = caught.value
    assert error.code == case.code
    assert error.where.startswith("profiles/p.yaml:")
    assert case.says in error.what
    assert error.try_
    assert case.try_ in error.try_


def test_the_line_is_that_of_the_flag(plan) -> None:
    with pytest.raises(InputError) as caught:
        plan("port: 1\nargs:\n  model-path: /m\n  tp-size: 2\n  foo: 1\n")
    assert caught.value.where == "profiles/p.yaml:5"


def test_the_line_of_a_mapping_is_that_of_its_flag(plan) -> None:
    with pytest.raises(InputError) as caught:
        plan("args:\n  model-path: /m\n  foo:\n    bar: 1\n")
    assert caught.value.where == "profiles/p.yaml:3"


def test_no_model(plan) -> None:
    with pytest.raises(InputError) as caught:
        plan("port: 1\nargs: {tp: 2}")
    assert (caught.value.code, caught.value.where) == ("flag-missing", "profiles/p.yaml")


SPEC = (
    "speculative-algorithm: {0}\n  speculative-draft-model-path: {1}\n  speculative-num-steps: 3\n"
    "  speculative-eagle-topk: 1\n  speculative-num-draft-tokens: {2}"
)
ALLOWED = {
    "all three numbers": SPEC.format("EAGLE3", "/d", 4),
    "none of the three": "speculative-algorithm: EAGLE3\n  speculative-draft-model-path: /d",
    "draft tokens of an n-gram": "speculative-algorithm: NGRAM\n  speculative-num-draft-tokens: 4",
    "several nodes": "nnodes: 2\n  dist-init-addr: a:1\n  node-rank: 0\n  tp-size: 16",
    "a plugin's parser": "reasoning-parser: of-our-own",
}


@pytest.mark.parametrize("args", ALLOWED.values(), ids=ALLOWED.keys())
def test_nothing_to_say(plan, args: str) -> None:
    assert plan(f"args:\n  model-path: /m\n  {args}\n").notes == ()


NOTES = {
    "draft tokens that SGLang changes": (
        SPEC.format("EAGLE3", "/d", 8),
        "0.5.23",
        "makes speculative-num-draft-tokens 4",
    ),
    "EAGLE-3 without a draft": ("speculative-algorithm: EAGLE3", "0.5.23", "without --speculative-draft-model-path"),
    "EAGLE with an EAGLE-3 draft": (SPEC.format("EAGLE", "/models/kimi-eagle3", 4), "0.5.23", "accepts nothing"),
    "numbers without an algorithm": ("speculative-num-steps: 3", "0.5.23", "speculative-algorithm is not set"),
    "options that we cannot see": ("config: /etc/sglang.yaml", "0.5.23", "cannot see"),
    "a deprecated flag": ("enable-dp-attention: true", "0.5.23", "is deprecated in SGLang 0.5.23"),
    "a home folder": ("tokenizer-path: ~/tok", "0.5.23", "does not expand"),
    "a flag that our newest list lacks": ("brand-new-flag: 1", "0.9.0", "brand-new-flag"),
    "a release newer than our lists": ("tp: 1", "0.9.0", "newer than every release"),
    "a post that we have not read": ("tp: 1", "0.5.9.post7", "has not read"),
}


@pytest.mark.parametrize(("args", "release", "says"), NOTES.values(), ids=NOTES.keys())
def test_a_note(plan, args: str, release: str, says: str) -> None:
    found = plan(f"args:\n  model-path: /m\n  {args}\n", release).notes
    assert [note for note in found if says in note], found


def test_a_flag_newer_than_our_lists_is_passed_on(plan) -> None:
    found = plan("args: {model-path: /m, brand-new: [1, 2], brand-on: true, brand-off: false}", "0.9.0")
    assert list(found.argv) == [*HEAD, "--brand-new", "1", "2", "--brand-on", *TAIL]


KIMI = "args: {{model-path: moonshotai/{0}, speculative-algorithm: {1}, speculative-draft-model-path: /d}}"


@pytest.mark.parametrize(
    ("model", "algorithm", "release", "noted"),
    [
        ("Kimi-K2.5", "EAGLE3", "0.5.9", True),
        ("Kimi-K2.5", "EAGLE3", "0.5.10", False),
        ("Kimi-K2.5", "STANDALONE", "0.5.9", False),
        ("Kimi-K2-Instruct", "EAGLE3", "0.5.4", True),
        ("Kimi-K2-Instruct", "EAGLE3", "0.5.5", False),
        ("DeepSeek-R1", "EAGLE3", "0.5.4", True),
        ("Qwen3", "EAGLE3", "0.5.4", False),
    ],
)
def test_a_target_too_old_for_a_draft_is_noted(plan, model: str, algorithm: str, release: str, noted: bool) -> None:
    found = plan(KIMI.format(model, algorithm), release).notes
    assert bool([n for n in found if "takes an EAGLE-3 draft from SGLang" in n]) == noted


def test_faked_acceptance_is_noted(plan) -> None:
    found = plan("args: {model-path: /m}\nenv: {SGLANG_SIMULATE_ACC_LEN: 3}").notes
    assert len(found) == 1
    assert "profiles/p.yaml:2" in found[0]


def test_an_assumed_release_is_said(plan) -> None:
    assert "assumed" in plan("args: {model-path: /m}", source="assumed").notes[0]
    assert plan("args: {model-path: /m}", source="host").notes == ()
