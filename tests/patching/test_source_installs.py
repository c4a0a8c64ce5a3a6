"""Source installs: HEAD of the git tree stands in the place of RECORD, for the files that are touched."""

import subprocess

import pytest
from patch_installs import SET

from sglfab.errors import PatchError
from sglfab.flows import patch
from sglfab.hostside.patch_git import head_hashes

DEEPSEEK = "srt/models/deepseek_v2.py"


def git(tree, *words):
    who = ("-c", "user.name=ada", "-c", "user.email=ada@example.org")
    subprocess.run(["git", "-C", str(tree), *who, *words], check=True, capture_output=True)


@pytest.fixture
def tree(installed):
    """The install as a checkout, whose package lies below the top: `pip install -e python` of SGLang's repository."""
    installed.info.joinpath("RECORD").unlink()
    top = installed.root.parent / "check out"
    top.mkdir()
    installed.root = installed.root.rename(top / "python")
    git(top, "init", "-q")
    git(top, "add", "python/sglang")
    git(top, "commit", "-q", "-m", "as released")
    return installed


def where(installed):
    return {"sglang_path": str(installed.root)}


def test_a_clean_tree_is_patched_and_given_back(tree, project, here):
    done = patch.apply(project, here, [SET], **where(tree))
    assert any("HEAD of its git tree" in note for note in done.notes)
    assert patch.status(project, here, **where(tree)).state == "ours"
    assert patch.apply(project, here, [SET], **where(tree)).verb == "already-patched"
    patch.remove(project, here, **where(tree))
    assert tree.pristine


@pytest.mark.parametrize("staged", [False, True], ids=["in the files", "in the index"])
def test_an_edit_that_is_not_in_head_refuses_everything(tree, project, here, *, staged):
    path = tree.path(DEEPSEEK)
    path.write_text(path.read_text() + "# an idea\n")
    if staged:
        git(tree.root, "add", "-u")
    before = tree.contents()
    with pytest.raises(PatchError, match="HEAD of its git tree says") as raised:
        patch.apply(project, here, [SET], **where(tree))
    assert "git -C" in raised.value.try_
    assert tree.contents() == before
    assert patch.status(project, here, **where(tree)).state == "foreign"


def test_an_edit_that_is_committed_is_the_new_original(tree, project, here):
    path = tree.path(DEEPSEEK)
    path.write_text(path.read_text() + "# an idea\n")
    git(tree.root, "commit", "-q", "-a", "-m", "an idea")
    original = path.read_bytes()
    patch.apply(project, here, [SET], **where(tree))
    patch.remove(project, here, **where(tree))
    assert path.read_bytes() == original


@pytest.mark.parametrize("name", ["srt/models/other.py", "notes.txt"], ids=["tracked", "untracked"])
def test_what_the_set_does_not_touch_may_be_dirty(tree, project, here, name):
    other = tree.path(name)
    other.write_text("x = 1\n")
    if name.endswith(".py"):
        git(tree.root, "add", "-A")
        git(tree.root, "commit", "-q", "-m", "other")
        other.write_text("x = 2\n")
    assert patch.apply(project, here, [SET], **where(tree)).verb == "patched"


def test_an_edit_over_the_patch_refuses_the_removal(tree, project, here):
    patch.apply(project, here, [SET], **where(tree))
    path = tree.path(DEEPSEEK)
    path.write_text(path.read_text().replace("return input_ids", "return None"))
    before = tree.contents()
    with pytest.raises(PatchError, match="edited above the footer"):
        patch.remove(project, here, **where(tree))
    assert tree.contents() == before


def test_a_footer_that_was_committed_is_no_original_of_ours(tree, project, here):
    patch.apply(project, here, [SET], **where(tree))
    git(tree.root, "commit", "-q", "-a", "-m", "by mistake")
    before = tree.contents()
    with pytest.raises(PatchError):
        patch.remove(project, here, **where(tree))
    assert tree.contents() == before
    git(tree.root, "revert", "--no-edit", "HEAD")
    assert tree.pristine
    assert patch.status(project, here, **where(tree)).state == "pristine"


@pytest.mark.parametrize("gap", ["no git on this host", "not a git repository"])
def test_without_an_answer_of_git_it_goes_on_and_says_so(tree, project, here, monkeypatch, gap):
    if gap.startswith("no git"):
        monkeypatch.setenv("PATH", "/nonexistent")
    else:
        (tree.root.parent / ".git").rename(tree.root.parent / "moved")
    done = patch.apply(project, here, [SET], **where(tree))
    assert any(gap in note for note in done.notes)
    patch.remove(project, here, **where(tree))
    assert tree.pristine


def test_the_operators_own_git_variables_do_not_lead_elsewhere(tree, project, here, monkeypatch, tmp_path):
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    assert patch.status(project, here, **where(tree)).notes == (
        "a source install: its files are compared with HEAD of its git tree",
    )


def test_hashes_of_some_files(tree):
    (tree.path("srt/empty.py")).write_bytes(b"")
    git(tree.root, "add", "-A")
    git(tree.root, "commit", "-q", "-m", "empty")
    hashes, gap = head_hashes(str(tree.root), ["srt/empty.py", "srt/none.py", DEEPSEEK])
    assert gap == ""
    assert hashes["sglang/srt/empty.py"].startswith("e3b0c44298fc1c14")
    assert set(hashes) == {"sglang/srt/empty.py", f"sglang/{DEEPSEEK}"}


def test_a_wheel_inside_somebodys_repository_is_judged_by_its_own_record(installed, project, here):
    git(installed.root.parent, "init", "-q")
    done = patch.apply(project, here, [SET], **where(installed))
    assert not [note for note in done.notes if "source install" in note]
