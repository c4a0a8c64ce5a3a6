"""How long a stage may stand still: the profile's word, former starts, or what has been healthy in the field."""

from __future__ import annotations

import json

import pytest

from sglfab.diagnosis.expectation import ALLOWANCES, Expectation, expectation_from_json, percentile

DEFAULT = ALLOWANCES["load-weights"]
SOME = tuple(float(n) for n in range(1, 41))  # p95: 38
CASES = {
    "nothing is known": ({}, {}, DEFAULT, "the default"),
    "the profile says so": ({"load-weights": 5}, {"load-weights": (900.0,) * 5}, 5, "wait.allowances of the profile"),
    "the profile, with the unit": ({"load_weights_s": 7}, {}, 7, "wait.allowances of the profile"),
    "the profile says it of another stage": ({"warmup": 5}, {}, DEFAULT, "the default"),
    "two former starts are too few": ({}, {"load-weights": (9.0, 9.0)}, DEFAULT, "the default"),
    "three are enough": ({}, {"load-weights": (400.0, 500.0, 450.0)}, 1000, "from 3 former starts"),
    "quick ones do not make it impatient": ({}, {"load-weights": (9.0, 9.0, 9.0)}, 600, "from 3 former starts"),
    "slow ones make it more patient than the default": (
        {},
        {"load-weights": (6000.0, 5000.0, 7000.0)},
        14000,
        "from 3 former starts",
    ),
    "one odd start of many does not count": ({}, {"load-weights": (*SOME, 9000.0)}, 600, "from 41 former starts"),
    "a draft that takes longer than its target": (
        {},
        {"load-weights": (10.0, 10.0, 10.0), "load-weights/draft": (700.0, 600.0, 650.0)},
        1400,
        "from 3 former starts",
    ),
    "former starts without this stage": ({}, {"kv-cache": (9.0, 9.0, 9.0)}, DEFAULT, "the default"),
}


@pytest.mark.parametrize(("allowances", "former", "seconds", "source"), CASES.values(), ids=CASES.keys())
def test_allowance(allowances, former, seconds, source):
    allowance = Expectation(allowances=allowances, former=former).allowance("load-weights")
    assert (allowance.seconds, allowance.source) == (seconds, source)


def test_serving_keeps_its_default():
    assert Expectation(former={"warmup": (900.0,) * 9}).allowance_s("serving") == ALLOWANCES["serving"]


@pytest.mark.parametrize(("count", "value"), [(1, 1), (3, 3), (19, 19), (20, 19), (100, 95)])
def test_percentile(count, value):
    assert percentile(tuple(range(count, 0, -1)), 0.95) == value


def test_an_expectation_survives_its_record():
    whole = Expectation(
        deadline_s=5.5,
        allowances={"serving": 10},
        patches=("a",),
        tp_size=2,
        draft=True,
        is_generation=False,
        trace_allowance_s=3.0,
        former={"load-weights/draft": (1.0, 2.5)},
        host="gpu1",
        url="http://127.0.0.1:1",
        profile="p",
        run="p-1",
        sglang_version="0.5.23",
    )
    assert expectation_from_json(json.loads(json.dumps(whole.to_json()))) == whole
    assert expectation_from_json(json.loads(json.dumps(Expectation().to_json()))) == Expectation()
