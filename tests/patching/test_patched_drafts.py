"""The draft's config.json decides whether kimi_k25_eagle3.py has taps."""

import json

import pytest
from patch_installs import KIMI, KIMI_DRAFT, KIMI_FILE, ROOT, SET, Installed

from sglfab.errors import InputError, PatchError
from sglfab.flows import patch
from sglfab.flows.patch_draft import architectures, draft_checks, draft_of
from sglfab.project import Project

LLAMA_DRAFT = "LlamaForCausalLMEagle3"


@pytest.fixture
def installed(tmp_path):
    return Installed(tmp_path / "site-packages", more=KIMI)


def where(installed):
    return {"sglang_path": str(installed.root)}


ASKED = {
    "Kimi's draft": ([KIMI_DRAFT], True, False),
    "a Llama draft": ([LLAMA_DRAFT], False, False),
    "a draft that is not known": ([], False, True),
}


@pytest.mark.parametrize("case", ASKED)
def test_kimis_file_is_patched_when_its_draft_asks(installed, project, here, case):
    draft, patched, noted = ASKED[case]
    done = patch.apply(project, here, [SET], **where(installed), draft=draft)
    assert (KIMI_FILE in done.files) is patched
    assert len(done.files) == 3 + patched
    assert any(KIMI_DRAFT in note and "--draft" in note for note in done.notes) is noted
    patch.remove(project, here, **where(installed))
    assert installed.pristine


def test_a_release_without_kimis_file_says_nothing_of_it_unless_it_is_asked(tmp_path, project, here):
    old = Installed(tmp_path / "old", release="0.5.9")
    assert not patch.apply(project, here, [SET], sglang_path=str(old.root)).notes
    asked = patch.preview(project, here, [SET], sglang_path=str(old.root), draft=[KIMI_DRAFT])
    assert asked.absent == ("mla-draft-forward", "mla-draft-model", "mla-draft-weights")


def test_a_release_that_should_have_kimis_file_is_refused_when_it_is_asked(tmp_path, project, here):
    installed = Installed(tmp_path / "new", release="0.5.24")
    with pytest.raises(PatchError, match=r"releases from 0\.5\.12 have it"):
        patch.preview(project, here, [SET], sglang_path=str(installed.root), draft=[KIMI_DRAFT])


def test_the_next_draft_takes_the_taps_of_the_former_off_again(installed, project, here):
    patch.apply(project, here, [SET], **where(installed), draft=[KIMI_DRAFT])
    done = patch.apply(project, here, [SET], **where(installed), draft=[LLAMA_DRAFT])
    assert done.verb == "patched"  # the footers name the files that the proof waits for
    assert installed.path(KIMI_FILE).read_bytes() == installed.originals[KIMI_FILE]
    assert patch.status(project, here, **where(installed)).state == "ours"
    assert patch.apply(project, here, [SET], **where(installed), draft=[LLAMA_DRAFT]).verb == "already-patched"
    patch.remove(project, here, **where(installed))
    assert installed.pristine


def test_an_edit_of_the_former_drafts_file_is_not_lost(installed, project, here):
    patch.apply(project, here, [SET], **where(installed), draft=[KIMI_DRAFT])
    path = installed.path(KIMI_FILE)
    path.write_text(path.read_text().replace("return input_ids", "return None"))
    before = installed.contents()
    with pytest.raises(PatchError):
        patch.apply(project, here, [SET], **where(installed), draft=[LLAMA_DRAFT])
    assert installed.contents() == before


def test_the_draft_is_read_on_the_host(tmp_path, host):
    (tmp_path / "config.json").write_text(json.dumps({"architectures": [KIMI_DRAFT]}))
    assert draft_of(host, None, str(tmp_path)) == (KIMI_DRAFT,)
    assert draft_of(host, None, None) == ()
    with pytest.raises(InputError) as raised:
        draft_of(host, None, str(tmp_path / "nothing"))
    assert raised.value.code == "draft-unknown"


PATHS = [{"path": "/t", "config": {"architectures": ["DeepseekV3ForCausalLM"]}}, {"path": "/d", "config": None}]


@pytest.mark.parametrize(
    ("path", "expected"),
    [("/t", ("DeepseekV3ForCausalLM",)), ("/d", ()), ("org/hub-name", ()), (None, ())],
    ids=["a folder", "a folder without a config", "a name of the hub", "no draft"],
)
def test_architectures_come_from_the_config_of_that_path(path, expected):
    assert architectures(PATHS, path) == expected


WARNED = {
    "a draft that has taps": ("/d", [LLAMA_DRAFT], None),
    "Kimi's draft": ("/d", [KIMI_DRAFT], None),
    "a draft that no tap sits in": ("/d", ["MiMoForCausalLM"], "no tap of eagle3-hidden-states sits in the class"),
    "a draft of the hub": ("org/draft", [], KIMI_DRAFT),
    "no draft at all": (None, [], None),
}


@pytest.mark.parametrize("case", WARNED)
def test_preflight_warns_of_a_draft_that_would_leave_no_trace(project, case):
    path, draft, says = WARNED[case]
    found = draft_checks(project, [SET], path, draft)
    assert [check.state for check in found] == ["warning"] * bool(says)
    assert all(says in check.text for check in found)


ONLY_KIMI = """\
taps:
  - tap: t
    module: srt/models/kimi_k25_eagle3.py
    object: Eagle3MLAModel.forward
    role: draft
    draft: [Eagle3DeepseekV2ForCausalLM]
"""


@pytest.mark.parametrize(
    ("draft", "says"), [([], "will run is not known"), ([LLAMA_DRAFT], "LlamaForCausalLMEagle3 is none of them")]
)
def test_a_set_that_is_for_another_draft_alone_is_refused(installed, here, tmp_path, draft, says):
    (tmp_path / "team" / "patches").mkdir(parents=True)
    (tmp_path / "team" / "patches" / "kimi.yaml").write_text(ONLY_KIMI)
    team = Project(ROOT, extra=(tmp_path / "team",))
    with pytest.raises(InputError) as raised:
        patch.apply(team, here, ["kimi"], **where(installed), draft=draft)
    assert raised.value.code == "draft-has-no-tap"
    assert raised.value.what.endswith(says)
    assert patch.apply(team, here, ["kimi"], **where(installed), draft=[KIMI_DRAFT]).files == (KIMI_FILE,)


def test_a_profile_without_patches_is_not_warned(project):
    assert draft_checks(project, [], "/d", ["MiMoForCausalLM"]) == ()
