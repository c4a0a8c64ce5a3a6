from pathlib import Path

import pytest
import yaml

from sglfab.errors import InputError
from sglfab.patching.loading import load_patch_set
from sglfab.patching.taps import combine

CASES = yaml.safe_load((Path(__file__).parent / "patch_set_cases.yaml").read_text())


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_a_patch_set_loads_or_says_where_it_is_wrong(case):
    if "says" not in case:
        assert load_patch_set("mine", case["text"], file="set.yaml").taps
        return
    with pytest.raises(InputError) as raised:
        load_patch_set("mine", case["text"], file="set.yaml")
    error = raised.value
    assert error.code == "patch-set-invalid"
    assert error.where == case["where"]
    assert case["says"] in error.what + error.try_


def test_what_the_probe_gets_has_no_defaults_in_it():
    text = "taps:\n  - {tap: t, module: srt/a.py, object: A.f, role: target, values: {n: args.x | len}}\n"
    tap = load_patch_set("mine", text, file="set.yaml").taps[0]
    assert tap.to_json() == {
        "tap": "t",
        "object": "A.f",
        "role": "target",
        "values": [{"name": "n", "path": "args.x", "as": "len"}],
    }


def test_all_that_a_tap_says_reaches_the_probe():
    case = next(case for case in CASES if case["id"] == "all that a tap can say")
    shape = load_patch_set("mine", case["text"], file="set.yaml").taps[0].to_json()
    assert shape["when"] == ["EXTEND", "DECODE"]
    assert (shape["encloses"], shape["mode"], shape["every"], shape["max_records"]) == (True, "args.batch.mode", 10, 5)
    assert shape["tensors"][1] == {"name": "aux", "path": "return.1", "rows": 4, "split": "self.layers"}


def test_the_shipped_set_covers_both_roles_and_the_logits(patch_set):
    assert {tap.role for tap in patch_set.taps} == {"target", "draft", "enclosing"}
    assert [tap.role for tap in patch_set.taps if tap.encloses] == ["target", "draft"]
    assert {tap.object for tap in patch_set.taps if tap.tap == "logits-processor"} == {"LogitsProcessor.forward"}
    assert len(patch_set.modules) == 3


def test_two_sets_become_one_footer(patch_set):
    other = load_patch_set(
        "mine", "taps:\n  - {tap: t, module: srt/models/deepseek_v2.py, object: A.f, role: target}\n", file="set.yaml"
    )
    both = combine((patch_set, other))
    assert both.name == "eagle3-hidden-states+mine"
    assert both.modules == patch_set.modules
    assert both.taps == (*patch_set.taps, *other.taps)
    assert combine((other,)) is other
