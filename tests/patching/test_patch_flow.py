"""patch, unpatch and status of an install, through the hostside program."""

import hashlib
import os
import pwd
import stat
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from patch_installs import OPERATOR, ROOT, SET, HereHost, Installed

from sglfab.errors import ExitCode, InputError, LockedError, PatchError
from sglfab.flows import patch
from sglfab.project import Project


def where(installed):
    return {"sglang_path": str(installed.root)}


def kinds(status):
    return {file.path: file.state for file in status.files}


def test_patching_is_idempotent_and_unpatching_gives_back_every_byte(installed, project, host):
    first = patch.patch_debug(project, host, [SET], operator=OPERATOR, **where(installed))
    contents, times = installed.contents(), mtimes(installed)
    second = patch.patch_debug(project, host, [SET], operator=OPERATOR, **where(installed))
    assert (first.verb, second.verb) == ("patched", "already-patched")
    assert len(first.files) == 3
    assert second.files == ()
    assert (installed.contents(), mtimes(installed)) == (contents, times)
    assert first.manifest["operator"] == "ada"
    assert second.manifest == first.manifest
    status = patch.status(project, host, **where(installed))
    assert (status.state, status.patch_set, status.exit_code) == ("ours", SET, ExitCode.OK)
    removed = patch.unpatch_debug(project, host, operator=OPERATOR, **where(installed))
    assert removed.verb == "restored"
    assert installed.pristine
    assert patch.unpatch_debug(project, host, operator=OPERATOR, **where(installed)).verb == "already-pristine"
    assert patch.status(project, host, **where(installed)).state == "pristine"
    assert installed.leftovers() == []


def mtimes(installed):
    return {path: installed.path(path).stat().st_mtime_ns for path in installed.originals}


def test_a_preview_shows_the_diff_and_writes_nothing(installed, project, here):
    seen = patch.preview(project, here, [SET], **where(installed))
    assert installed.pristine
    assert seen.changes == tuple(installed.originals)
    assert "+++ b/sglang/srt/models/llama_eagle3.py" in seen.diff
    assert not [line for line in seen.diff.splitlines() if line.startswith("-") and not line.startswith("---")]
    assert not Path(here.state_dir).exists()
    assert patch.checks(seen)[0].state == "ok"


def test_a_preview_of_an_applied_set_and_of_its_removal(installed, project, here):
    patch.apply(project, here, [SET], **where(installed))
    assert patch.preview(project, here, [SET], **where(installed)).changes == ()
    seen = patch.preview_removal(project, here, **where(installed))
    assert len(seen.changes) == 3
    assert "-# >>> sglfab" in seen.diff


def test_mode_stays_and_mtime_is_fresh(installed, project, here):
    path = installed.path("srt/models/llama_eagle3.py")
    path.chmod(0o640)
    os.utime(path, (1, 1))
    patch.apply(project, here, [SET], **where(installed))
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert path.stat().st_mtime > time.time() - 60
    os.utime(path, (1, 1))
    patch.remove(project, here, **where(installed))
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert path.stat().st_mtime > time.time() - 60


def test_a_foreign_edit_refuses_everything_and_touches_nothing(installed, project, here):
    path = installed.path("srt/models/llama_eagle3.py")
    path.write_text(path.read_text() + "# a colleague's print\n")
    before = installed.contents()
    with pytest.raises(PatchError) as raised:
        patch.apply(project, here, [SET], **where(installed))
    assert raised.value.code == "patch-conflict"
    assert raised.value.exit_code == ExitCode.PATCH
    assert "srt/models/llama_eagle3.py" in raised.value.where
    assert hashlib.sha256(path.read_bytes()).hexdigest()[:12] in raised.value.what
    assert hashlib.sha256(installed.originals["srt/models/llama_eagle3.py"]).hexdigest()[:12] in raised.value.what
    assert installed.contents() == before
    status = patch.status(project, here, **where(installed))
    assert (status.state, status.exit_code) == ("foreign", ExitCode.PATCH)


def test_an_edit_over_the_patch_refuses_the_removal_and_touches_nothing(installed, project, here):
    patch.apply(project, here, [SET], **where(installed))
    path = installed.path("srt/layers/logits_processor.py")
    path.write_text(path.read_text().replace("return hidden_states", "return None"))
    before = installed.contents()
    with pytest.raises(PatchError, match="edited above the footer"):
        patch.remove(project, here, **where(installed))
    assert installed.contents() == before


def test_a_foreign_file_that_we_never_patched_does_not_keep_ours(installed, project, here):
    patch.apply(project, here, [SET], **where(installed))
    other = installed.path("srt/models/other.py")
    other.write_text("x = 1\n")
    patch.remove(project, here, **where(installed))
    assert installed.pristine
    assert other.read_text() == "x = 1\n"


def test_a_source_install_is_patched_and_restored_without_record(installed, project, here):
    installed.info.joinpath("RECORD").unlink()
    done = patch.apply(project, here, [SET], **where(installed))
    assert any("source install" in note for note in done.notes)
    patch.remove(project, here, **where(installed))
    assert installed.pristine


def test_a_reinstall_under_the_patch_is_recognised_and_patched_anew(installed, project, here):
    patch.apply(project, here, [SET], **where(installed))
    for path, data in installed.originals.items():
        installed.path(path).write_bytes(data + b"# next release\n")
    installed.record()
    status = patch.status(project, here, **where(installed))
    assert status.state == "pristine"
    assert any("installed anew" in note for note in status.notes)
    assert patch.apply(project, here, [SET], **where(installed)).verb == "patched"
    patch.remove(project, here, **where(installed))
    assert installed.pristine


def test_the_manifest_may_be_lost(installed, project, here, tmp_path):
    patch.apply(project, here, [SET], **where(installed))
    here.state_dir = str(tmp_path / "another-operator")
    assert patch.status(project, here, **where(installed)).state == "ours"
    assert patch.apply(project, here, [SET], **where(installed)).verb == "already-patched"
    patch.remove(project, here, **where(installed))
    assert installed.pristine


TEAM_SET = """\
taps:
  - {tap: t, module: srt/layers/logits_processor.py, object: LogitsProcessor.forward, role: enclosing}
"""


def with_team_set(tmp_path):
    """The project with a team's own folder that holds the set `mine`."""
    folder = tmp_path / "team" / "patches"
    folder.mkdir(parents=True)
    (folder / "mine.yaml").write_text(TEAM_SET)
    return Project(ROOT, extra=(tmp_path / "team",))


def test_another_set_is_refused_until_ours_is_off(installed, here, tmp_path):
    project = with_team_set(tmp_path)
    patch.apply(project, here, [SET], operator=OPERATOR, **where(installed))
    before = installed.contents()
    with pytest.raises(PatchError, match=r"another patch set is applied: eagle3-hidden-states .*\(applied by ada\)"):
        patch.apply(project, here, ["mine"], **where(installed))
    assert installed.contents() == before
    patch.remove(project, here, **where(installed))
    done = patch.apply(project, here, ["mine"], **where(installed))
    assert done.files == ("srt/layers/logits_processor.py",)
    patch.remove(project, here, **where(installed))
    assert installed.pristine


def test_two_sets_together_are_one_footer(installed, here, tmp_path):
    project = with_team_set(tmp_path)
    patch.apply(project, here, [SET, "mine"], **where(installed))
    assert patch.status(project, here, **where(installed)).patch_set == f"{SET}+mine"
    assert installed.path("srt/layers/logits_processor.py").read_text().count("# >>> sglfab") == 1
    patch.remove(project, here, **where(installed))
    assert installed.pristine


def test_a_required_method_that_is_gone_is_refused_with_the_nearest_one(installed, project, here):
    path = installed.path("srt/layers/logits_processor.py")
    path.write_text(path.read_text().replace("def forward(", "def forward_logits("))
    installed.record()
    with pytest.raises(PatchError) as raised:
        patch.apply(project, here, [SET], **where(installed))
    assert "LogitsProcessor.forward is not there" in raised.value.what
    assert "LogitsProcessor.forward_logits (line 2)" in raised.value.try_
    assert installed.pristine


def without_capture(installed):
    """The install without the method of `target-layers`, as if it had been released so."""
    path = installed.path("srt/models/deepseek_v2.py")
    path.write_text(path.read_text().replace("set_eagle3_layers_to_capture", "set_eagle3_layers"))
    installed.record()
    return installed


def test_a_method_that_this_release_lacks_is_said_and_the_rest_is_patched(tmp_path, project, here):
    installed = without_capture(Installed(tmp_path / "old", release="0.5.3"))
    done = patch.apply(project, here, [SET], **where(installed))
    assert "target-layers" in done.absent
    assert "not in this release: target-layers" in done.summary
    assert "target-layers" not in installed.path("srt/models/deepseek_v2.py").read_text()


@pytest.mark.parametrize("release", ["0.5.23", "0.6.0", "0.0.0.dev0", "a fork's own"])
def test_a_method_that_this_release_should_have_is_refused_with_the_nearest_one(tmp_path, project, here, release):
    """A release that nobody has seen, or that tells no number, fails closed."""
    installed = without_capture(Installed(tmp_path / "new", release=release))
    with pytest.raises(PatchError) as raised:
        patch.apply(project, here, [SET], **where(installed))
    assert "releases from 0.5.4.post2 have it" in raised.value.what
    assert "DeepseekV2ForCausalLM.set_eagle3_layers (line" in raised.value.try_
    assert installed.pristine


def test_a_set_of_which_this_release_has_nothing_is_refused(installed, here, tmp_path):
    project = with_team_set(tmp_path)
    (tmp_path / "team" / "patches" / "old.yaml").write_text(
        "taps: [{tap: t, module: srt/old.py, object: A.f, role: draft, until: 0.5.3}]\n"
    )
    with pytest.raises(PatchError, match="no tap of old is in this release"):
        patch.apply(project, here, ["old"], **where(installed))
    assert installed.pristine


WITH_LINES = """\
taps:
  - tap: line
    module: srt/layers/logits_processor.py
    object: LogitsProcessor.forward
    insert: {before: return hidden_states}
    role: enclosing
    values: {n: locals.hidden_states | len}
  - {tap: call, module: srt/layers/logits_processor.py, object: LogitsProcessor.forward, role: enclosing}
"""


def test_a_line_in_a_method_goes_in_and_comes_off_byte_for_byte(installed, here, tmp_path):
    project = with_team_set(tmp_path)
    (tmp_path / "team" / "patches" / "lines.yaml").write_text(WITH_LINES)
    path = installed.path("srt/layers/logits_processor.py")
    done = patch.apply(project, here, ["lines"], **where(installed))
    assert done.verb == "patched"
    assert '        if _sglfab_local is not None: _sglfab_local("line", locals())\n        return' in path.read_text()
    assert patch.apply(project, here, ["lines"], **where(installed)).verb == "already-patched"
    assert patch.status(project, here, **where(installed)).state == "ours"
    path.write_text(path.read_text().replace("return hidden_states", "return None"))
    with pytest.raises(PatchError, match="edited above the footer"):
        patch.remove(project, here, **where(installed))
    path.write_text(path.read_text().replace("return None", "return hidden_states"))
    patch.remove(project, here, **where(installed))
    assert installed.pristine


def test_a_statement_that_is_not_there_once_is_refused_with_the_nearest(installed, here, tmp_path):
    project = with_team_set(tmp_path)
    text = WITH_LINES.replace("return hidden_states}", "return hidden}\n    required: true")
    (tmp_path / "team" / "patches" / "lines.yaml").write_text(text)
    with pytest.raises(PatchError) as raised:
        patch.apply(project, here, ["lines"], **where(installed))
    assert "the statement `return hidden` is not there in LogitsProcessor.forward" in raised.value.what
    assert "return hidden_states (line 3)" in raised.value.try_
    assert installed.pristine


def test_a_symbolic_link_is_left_alone(installed, project, here, tmp_path):
    path = installed.path("srt/models/llama_eagle3.py")
    shared = tmp_path / "cache.py"
    path.rename(shared)
    path.symlink_to(shared)
    with pytest.raises(PatchError, match="symbolic link"):
        patch.apply(project, here, [SET], **where(installed))
    assert installed.pristine
    assert path.is_symlink()


def test_a_symlinked_folder_is_the_same_install(installed, project, here, tmp_path):
    link = tmp_path / "with a space"
    link.symlink_to(installed.root)
    patch.apply(project, here, [SET], sglang_path=str(link))
    assert patch.status(project, here, **where(installed)).state == "ours"
    patch.remove(project, here, **where(installed))
    assert installed.pristine


def test_a_fork_under_another_distribution_name_is_judged_by_its_own_record(tmp_path, project, here):
    fork = Installed(tmp_path / "fork", distribution="amd_sglang", release="0.5.12.post1")
    done = patch.apply(project, here, [SET], sglang_path=str(fork.root))
    assert done.release == "0.5.12.post1"
    assert not any("source install" in note for note in done.notes)


def test_the_folder_sglang_itself_is_understood(installed, project, here):
    assert patch.status(project, here, sglang_path=str(installed.root / "sglang")).root == str(installed.root)


@pytest.mark.parametrize("given", ["missing", "empty"])
def test_a_folder_without_sglang_is_bad_input(tmp_path, project, here, given):
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError) as raised:
        patch.status(project, here, sglang_path=str(tmp_path / given))
    assert raised.value.code == "sglang-not-found"


def test_no_sglang_in_the_interpreter_is_bad_input(project, host):
    with pytest.raises(InputError) as raised:
        patch.status(project, host)
    assert raised.value.code == "sglang-not-found"


def test_an_unknown_set_names_the_known(project, here, installed):
    with pytest.raises(InputError) as raised:
        patch.preview(project, here, ["eagle3-hiden-states"], **where(installed))
    assert (raised.value.code, SET in raised.value.try_) == ("patch-set-unknown", True)


def test_a_change_between_look_and_write_is_refused(installed, project, here):
    seen = patch.preview(project, here, [SET], **where(installed))
    path = installed.path("srt/models/deepseek_v2.py")
    path.write_bytes(path.read_bytes() + b"# meanwhile\n")
    before = installed.contents()
    request = {"root": str(installed.root), "files": list(seen.writing.files), "manifest": None}
    with pytest.raises(PatchError) as raised:
        here.call("patch-write", request)
    assert raised.value.code == "patch-drift"
    assert installed.contents() == before


def test_what_does_not_compile_is_never_written(installed, here):
    path = "srt/models/deepseek_v2.py"
    sha = hashlib.sha256(installed.originals[path]).hexdigest()
    files = [{"path": path, "expect_sha256": sha, "text": "def ("}]
    with pytest.raises(PatchError) as raised:
        here.call("patch-write", {"root": str(installed.root), "files": files, "manifest": None})
    assert raised.value.code == "patch-does-not-compile"
    assert installed.pristine


@pytest.mark.parametrize("path", ["../../evil.py", "/etc/evil.py", "srt/x.txt"])
def test_no_path_leads_out_of_the_package(installed, here, path):
    with pytest.raises(PatchError) as raised:
        here.call("patch-read", {"sglang_path": str(installed.root), "files": [path]})
    assert raised.value.code == "patch-path-invalid"
    files = [{"path": path, "expect_sha256": "0" * 64, "text": ""}]
    with pytest.raises(PatchError) as raised:
        here.call("patch-write", {"root": str(installed.root), "files": files, "manifest": None})
    assert raised.value.code == "patch-path-invalid"


def test_bytecode_that_never_looks_at_its_source_is_dropped(installed, project, here):
    """`unchecked-hash` .pyc files (some images have them) would go on hiding the patch."""
    path = installed.path("srt/models/llama_eagle3.py")
    compiled = [sys.executable, "-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash", str(path)]
    subprocess.run(compiled, check=True)
    assert list(path.parent.glob("__pycache__/llama_eagle3.*.pyc"))
    patch.apply(project, here, [SET], **where(installed))
    assert not list(path.parent.glob("__pycache__/llama_eagle3.*.pyc"))


def test_the_install_lock_of_another_operator_keeps_us_out(installed, project, host):
    lock = {"install": f"{installed.root}/sglang", "operator": "bob", "laptop": "x", "what": "launch of y"}
    with host.stream("hold-locks", lock) as held:
        next(held)
        with pytest.raises(LockedError, match="bob"):
            patch.patch_debug(project, host, [SET], operator=OPERATOR, **where(installed))
    assert installed.pristine


def test_two_at_once_end_patched_and_whole(installed, project, tmp_path, here):
    """Four processes apply at the same time: at least one succeeds, the others find it done, in its way, or drifted."""
    children = []
    for _ in range(4):
        child = os.fork()
        if child == 0:
            try:
                patch.apply(project, here, [SET], **where(installed))
            except (LockedError, PatchError):
                os._exit(5)
            except BaseException:
                os._exit(1)
            os._exit(0)
        children.append(child)
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    assert 0 in codes
    assert set(codes) <= {0, 5}
    assert patch.status(project, here, **where(installed)).state == "ours"
    patch.remove(project, here, **where(installed))
    assert installed.pristine


@pytest.fixture
def for_all_to_read():
    """An install in a folder that every user may enter, unlike pytest's own."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        installed = Installed(Path(folder) / "site-packages")
        if os.getuid() != 0:  # then we are the somebody else, and the file must be closed to us
            for path in installed.originals:
                installed.path(path).chmod(0o444)
        yield installed


def test_a_file_that_is_not_ours_to_write_is_refused_and_its_owner_named(for_all_to_read, project):
    child = os.fork()
    if child == 0:
        try:
            if os.getuid() == 0:
                os.setuid(65534)
            os._exit(refused_with_owner(for_all_to_read, project))
        except BaseException as why:
            print(repr(why))
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, "see the child's output above"


def refused_with_owner(installed, project):
    owner = pwd.getpwuid(installed.path("srt/models/deepseek_v2.py").stat().st_uid).pw_name
    try:
        patch.preview(project, HereHost("/nonexistent"), [SET], **where(installed))
    except PatchError as error:
        return 0 if "not writable" in error.what and owner in error.what else 2
    return 3
