import re
from pathlib import Path

import pytest
import yaml

from sglfab.errors import InputError
from sglfab.flows.patch_install import load
from sglfab.patching.loading import load_patch_set
from sglfab.patching.tap_loading import KEYS
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


def shape_of(case_id):
    case = next(case for case in CASES if case["id"] == case_id)
    return load_patch_set("mine", case["text"], file="set.yaml").taps[0].to_json()


def test_a_line_inside_a_method_is_told_to_the_probe_as_such():
    assert shape_of("all that a line inside a method can say") == {
        "tap": "t",
        "insert": True,
        "role": "draft",
        "when": ["DECODE"],
        "max_records": 5,
        "tensors": [
            {"name": "h", "path": "locals.h", "sample_rows": 64},
            {"name": "rest", "path": "locals.aux", "split": "locals.ids"},
        ],
        "values": [{"name": "n", "path": "locals.batch.positions", "as": "len"}],
    }


def test_names_that_changed_are_alternatives_of_one_value():
    shape = shape_of("weights, a tap that is part of a captured graph, and names that changed")
    assert (shape["weights"], shape["graph_safe"]) == ("args.weights", True)
    paths = [(rule["name"], rule["path"]) for rule in shape["values"]]
    assert paths == [("n", "self.a"), ("n", "self.b.c")]


RELEASES = {
    "neither said: any release may lack it": ("", "0.5.23", False),
    "before it came": ("since: 0.5.4.post2", "0.5.4.post1", False),
    "when it came": ("since: 0.5.4.post2", "0.5.4.post2", True),
    "a release that nobody has seen": ("since: 0.5.4.post2", "0.9", True),
    "the last before it went": ("until: 0.5.13", "0.5.12.post1", True),
    "when it went": ("until: 0.5.13", "0.5.13", False),
    "a release that says no number": ("until: 0.5.13", "unknown", True),
    "built without its git history": ("since: 0.5.12", "0.0.0.dev0", True),
    "a build between releases": ("since: 0.5.12", "0.5.15.dev105+g46b087b58", True),
    "required, whatever the release": ("required: true", "0.1", True),
}


@pytest.mark.parametrize("case", RELEASES)
def test_which_releases_must_have_a_tap(case):
    said, release, must = RELEASES[case]
    text = f"taps:\n  - {{tap: t, module: srt/a.py, object: A.f, role: target, {said}}}\n"
    assert load_patch_set("mine", text, file="set.yaml").taps[0].belongs_to(release) is must


THREE = ["srt/models/deepseek_v2.py", "srt/models/llama_eagle3.py", "srt/layers/logits_processor.py"]
KIMI = "srt/models/kimi_k25_eagle3.py"
DRAFTS = {
    "the Llama draft": (["LlamaForCausalLMEagle3"], False, True),
    "Kimi's MLA draft": (["Eagle3DeepseekV2ForCausalLM"], True, True),
    "a draft that is not known": ([], False, False),
    "a draft that no tap sits in": (["MiMoForCausalLM"], False, False),
}


@pytest.mark.parametrize("case", DRAFTS)
def test_the_drafts_architecture_asks_for_kimis_file(patch_set, case):
    architectures, kimi, known = DRAFTS[case]
    chosen = patch_set.for_draft(architectures)
    assert sorted(chosen.modules) == sorted(THREE + [KIMI] * kimi)
    assert patch_set.knows(architectures) is known


def test_the_shipped_set_covers_both_roles_and_the_logits(patch_set):
    assert {tap.role for tap in patch_set.taps} == {"target", "draft", "enclosing"}
    assert [tap.role for tap in patch_set.taps if tap.encloses] == ["target", "draft", "draft"]
    assert {tap.object for tap in patch_set.taps if tap.tap == "logits-processor"} == {"LogitsProcessor.forward"}


def test_two_sets_become_one_footer(patch_set):
    other = load_patch_set(
        "mine", "taps:\n  - {tap: t, module: srt/models/deepseek_v2.py, object: A.f, role: target}\n", file="set.yaml"
    )
    both = combine((patch_set, other))
    assert both.name == "eagle3-hidden-states+mine"
    assert both.modules == patch_set.modules
    assert both.taps == (*patch_set.taps, *other.taps)
    assert combine((other,)) is other


def test_a_forward_that_two_sets_enclose_is_counted_once(patch_set):
    text = "taps:\n  - {tap: t, module: srt/models/deepseek_v2.py, object: %s, role: target, encloses: true}\n"
    same = load_patch_set("same", text % "DeepseekV2ForCausalLM.forward", file="set.yaml")
    other = load_patch_set("other", text % "Other.forward", file="set.yaml")
    assert [combine((patch_set, one)).taps[-1].encloses for one in (same, other)] == [False, True]


def test_two_sets_with_a_tap_of_one_name_are_refused(patch_set):
    text = "taps:\n  - {tap: target-model, module: srt/a.py, object: A.f, role: target}\n"
    with pytest.raises(InputError) as raised:
        combine((patch_set, load_patch_set("mine", text, file="set.yaml")))
    assert raised.value.code == "patch-sets-clash"
    assert all(word in raised.value.what for word in ("eagle3-hidden-states", "mine", "target-model"))


def test_the_shipped_sets_load_and_can_be_used_together(project):
    names = project.names("patches")
    assert {"eagle3-hidden-states", "draft-weights", "accept-trace", "logits-sanity"} <= set(names)
    together = load(project, names)
    assert len({tap.tap for tap in together.taps}) == len(together.taps)


def test_every_shipped_set_proves_itself_with_a_forward_of_the_draft(project):
    """A launch is judged by the proof line and the draft's records: without either it would count as not active."""
    for name in project.names("patches"):
        for architecture in ("LlamaForCausalLMEagle3", "Eagle3DeepseekV2ForCausalLM"):
            taps = load(project, [name]).for_draft([architecture]).taps
            assert any(tap.encloses and tap.role == "draft" for tap in taps), (name, architecture)


PAGE = (Path(__file__).parents[2] / "docs" / "patch-sets.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.split()[1])
def test_what_the_page_shows_loads(block):
    text = block if block.startswith("description") else "taps:\n" + block
    assert load_patch_set("mine", text, file="docs/patch-sets.md").taps


def test_the_page_explains_every_key_and_names_every_shipped_set(project):
    assert [key for key in KEYS if not re.search(rf"^\|.*`{key}\b", PAGE, re.MULTILINE)] == []
    assert [name for name in project.names("patches") if f"| `{name}` |" not in PAGE] == []
    assert len(BLOCKS) == 2
