"""The state of a file by bytes, RECORD and manifest, and what applying or removing the patch comes to."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sglfab.patching.footer import append, sha256
from sglfab.patching.installed import FileState, InstalledFile, state_of
from sglfab.patching.manifest import Entry
from sglfab.patching.outcomes import (
    AlreadyApplied,
    AlreadyPristine,
    Applied,
    Conflict,
    Fit,
    Restored,
    apply,
    fit,
    unapply,
)
from sglfab.patching.taps import Insert, Tap

MODULE = "srt/layers/logits_processor.py"
ORIGINAL = "class LogitsProcessor:\n    def forward(self):\n        return 1\n"
EDITED = ORIGINAL.replace("1", "2")


def file(text, record=ORIGINAL):
    return InstalledFile(MODULE, text, text and sha256(text), record and sha256(record))


LINE = Tap("line", MODULE, "LogitsProcessor.forward", "enclosing", insert=Insert("before", "return _"))


@pytest.fixture(scope="module", params=["a footer alone", "a footer and a line"])
def the_set(patch_set, request):
    """The shipped set, and the same with a line to put into the method."""
    return patch_set if request.param == "a footer alone" else replace(patch_set, taps=(*patch_set.taps, LINE))


def with_taps(text, the_set):
    taps = fit(text, the_set.taps_of(MODULE), release="0.5.23")
    return append(text, the_set, MODULE, taps.present, modules=the_set.modules, spots=taps.spots)


@pytest.fixture(scope="module")
def patched(the_set):
    return with_taps(ORIGINAL, the_set)


def entry(patched, original=ORIGINAL):
    return Entry(MODULE, sha256(original), sha256(patched))


# name: (text from the patched text, RECORD's text or None for a source install, in the manifest?, state, removal)
CASES = {
    "as the wheel has it": (lambda p: ORIGINAL, ORIGINAL, False, "pristine", AlreadyPristine),
    "as the wheel has it, after a reinstall over the patch": (
        lambda p: ORIGINAL,
        ORIGINAL,
        True,
        "pristine",
        AlreadyPristine,
    ),
    "a source install that nobody patched": (lambda p: ORIGINAL, None, False, "pristine", AlreadyPristine),
    "a source install, unpatched again": (lambda p: ORIGINAL, None, True, "pristine", AlreadyPristine),
    "patched": (lambda p: p, ORIGINAL, True, "ours", Restored),
    "patched, the manifest lost": (lambda p: p, ORIGINAL, False, "ours", Restored),
    "patched source install": (lambda p: p, None, True, "ours", Restored),
    "patched source install, the manifest lost": (lambda p: p, None, False, "ours", Restored),
    "an edit inside the footer": (
        lambda p: p.replace("import json", "import json, re"),
        ORIGINAL,
        True,
        "drifted",
        Restored,
    ),
    "an edit above the footer": (lambda p: p.replace("return 1", "return 2"), ORIGINAL, True, "drifted", Conflict),
    "an edit above the footer of a source install": (
        lambda p: p.replace("return 1", "return 2"),
        None,
        True,
        "drifted",
        Conflict,
    ),
    "a line after the footer": (lambda p: p + "x = 1\n", ORIGINAL, True, "drifted", Conflict),
    "half a footer": (lambda p: p[:-40], ORIGINAL, True, "drifted", Conflict),
    "an edit that nobody patched": (lambda p: EDITED, ORIGINAL, False, "foreign", Conflict),
    "an edit after the footer was cut by hand": (lambda p: EDITED, ORIGINAL, True, "foreign", Conflict),
    "a source install, edited after it was unpatched": (lambda p: EDITED, None, True, "pristine", AlreadyPristine),
    "another release was installed over the patch": (lambda p: p, EDITED, True, "drifted", Conflict),
    "a file that this release does not have": (lambda p: None, None, False, "missing", AlreadyPristine),
}


@pytest.mark.parametrize("name", CASES)
def test_the_state_of_a_file_and_what_removing_the_patch_comes_to(patched, name):
    text, record, recorded, kind, removal = CASES[name]
    found = file(text(patched), record)
    state = state_of(found, entry(patched) if recorded else None)
    assert state.kind == kind
    outcome = unapply(found, state)
    assert isinstance(outcome, removal)
    if isinstance(outcome, Restored):
        assert outcome.text == ORIGINAL


@pytest.mark.parametrize("name", CASES)
def test_applying_writes_over_pristine_and_leaves_the_rest_alone(patched, the_set, name):
    text, record, recorded, kind, _ = CASES[name]
    found = file(text(patched), record)
    taps = fit(ORIGINAL, the_set.taps_of(MODULE), release="0.5.23")
    outcome = apply(
        found, state_of(found, entry(patched) if recorded else None), the_set, taps=taps, modules=the_set.modules
    )
    wanted = {"pristine": Applied, "ours": AlreadyApplied}.get(kind, Conflict)
    assert isinstance(outcome, wanted)
    if isinstance(outcome, Applied):
        assert outcome.text == with_taps(found.text, the_set)


def test_a_file_that_is_not_utf8_is_foreign():
    assert state_of(InstalledFile(MODULE, None, "0" * 64, "0" * 64), None).kind == "foreign"


def test_an_older_footer_of_the_same_set_is_replaced(patched, the_set):
    older = append(ORIGINAL, the_set, MODULE, (), modules=the_set.modules)
    found = file(older)
    taps = fit(ORIGINAL, the_set.taps_of(MODULE), release="0.5.23")
    outcome = apply(found, state_of(found, None), the_set, taps=taps, modules=the_set.modules)
    assert isinstance(outcome, Applied)
    assert outcome.text == patched


def test_the_footer_of_another_set_is_left_alone(patched, the_set):
    found = file(patched)
    taps = fit(ORIGINAL, the_set.taps_of(MODULE), release="0.5.23")
    other = replace(the_set, name="mine")
    outcome = apply(found, state_of(found, None), other, taps=taps, modules=the_set.modules)
    assert isinstance(outcome, Conflict)
    assert "eagle3-hidden-states" in outcome.reason


REFUSED = {
    "not writable": ({"writable": False, "owner": "root"}, "root could do it"),
    "a link into a shared cache": ({"link": "/cache/x.py"}, "/cache/x.py"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_file_that_we_must_not_replace_is_refused_both_ways(patched, patch_set, name):
    change, says = REFUSED[name]
    taps = fit(ORIGINAL, patch_set.taps_of(MODULE), release="0.5.23")
    pristine, ours = replace(file(ORIGINAL), **change), replace(file(patched), **change)
    outcomes = (
        apply(pristine, FileState("pristine"), patch_set, taps=taps, modules=patch_set.modules),
        unapply(ours, state_of(ours, None)),
    )
    for outcome in outcomes:
        assert isinstance(outcome, Conflict)
        assert says in outcome.reason


def test_a_pristine_file_that_we_must_not_replace_needs_no_removal():
    assert unapply(replace(file(ORIGINAL), writable=False), FileState("pristine")) == AlreadyPristine()


def test_a_tap_that_the_release_lacks_is_absent_and_the_others_fit(patch_set):
    source = (
        "class DeepseekV2Model:\n    def forward(self): ...\nclass DeepseekV2ForCausalLM:\n    def forward(self): ...\n"
    )
    found = fit(source, patch_set.taps_of("srt/models/deepseek_v2.py"), release="0.5.3")
    assert isinstance(found, Fit)
    assert found.absent == ("target-layers",)
    assert [tap.tap for tap in found.present] == ["target-forward", "target-model"]


def test_a_required_tap_that_is_not_there_fails_closed_with_the_nearest_site(patch_set):
    found = fit(ORIGINAL.replace("def forward", "def forward_impl"), patch_set.taps_of(MODULE), release="0.5.23")
    assert isinstance(found, Conflict)
    assert found.reason == "tap logits-processor: LogitsProcessor.forward is not there"
    assert found.sites == ("LogitsProcessor.forward_impl (line 2)",)


def test_a_source_that_does_not_parse_fails_closed(patch_set):
    assert isinstance(fit("def (", patch_set.taps_of(MODULE), release="0.5.23"), Conflict)


def test_a_required_file_that_is_not_there_fails_closed(patch_set):
    assert isinstance(fit(None, patch_set.taps_of(MODULE), release="0.5.23"), Conflict)


@pytest.mark.parametrize("record", [ORIGINAL, None], ids=["a wheel", "a source install"])
def test_lines_whose_footer_was_cut_by_hand_are_not_taken_for_the_original(patch_set, record):
    text = with_taps(ORIGINAL, replace(patch_set, taps=(*patch_set.taps, LINE)))
    found = file(text[: text.index("\n\n# >>> sglfab")], record)
    state = state_of(found, None)
    assert state.kind == "drifted"
    assert isinstance(unapply(found, state), Conflict)


def test_an_edit_in_a_line_of_ours_goes_with_the_line(patch_set):
    text = with_taps(ORIGINAL, replace(patch_set, taps=(*patch_set.taps, LINE)))
    found = file(text.replace("_sglfab_local is not None", "_sglfab_local is     None"))
    assert unapply(found, state_of(found, None)) == Restored(ORIGINAL)


@given(data=st.data())
def test_any_edit_of_a_patched_file_is_undone_byte_for_byte_or_refused(patched, data):
    start = data.draw(st.integers(0, len(patched)))
    end = data.draw(st.integers(start, min(len(patched), start + 200)))
    inserted = data.draw(
        st.text(st.characters(blacklist_categories=("Cs",)), max_size=20) | st.just(patched[start:end])
    )
    edited = patched[:start] + inserted + patched[end:]
    if data.draw(st.booleans(), "and another edit"):
        at = data.draw(st.integers(0, len(edited)))
        edited = (
            edited[:at]
            + data.draw(st.sampled_from(("", "x", "\n", "# ")))
            + edited[at + data.draw(st.integers(0, 3)) :]
        )
    record = data.draw(st.sampled_from((ORIGINAL, None)), "RECORD")
    found = file(edited, record)
    state = state_of(found, data.draw(st.sampled_from((entry(patched), None)), "manifest"))
    outcome = unapply(found, state)
    if isinstance(outcome, Restored):
        assert outcome.text == ORIGINAL
    elif isinstance(outcome, AlreadyPristine):
        assert edited == ORIGINAL or (record is None and "_sglfab_" not in edited)
    else:
        assert outcome.reason
