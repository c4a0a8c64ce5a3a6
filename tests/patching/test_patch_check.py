"""`fab patch-check`: a set against a release or an install, offline, with nothing changed."""

import zipfile

import pytest
from patch_installs import ROOT, SET, SOURCES, Installed

from sglfab.errors import InputError
from sglfab.flows import patch
from sglfab.flows.patch_check import check_install, check_release
from sglfab.flows.wheels import sources
from sglfab.project import Project
from sglfab.testing.fab import Fab

TEAM_SET = """\
taps:
  - tap: fits
    module: srt/models/llama_eagle3.py
    object: LlamaModel.forward
    role: draft
    values: {ids: args.input_ids | list, temperature: args.sampling.temperature, either: [args.a, args.positions | len]}
  - tap: line
    module: srt/models/llama_eagle3.py
    object: LlamaModel.forward
    insert: {before: return input_ids}
    role: draft
    tensors: {ids: locals.input_ids, gone: locals.hidden}
  - {tap: older, module: srt/models/old.py, object: A.f, role: draft, until: 0.5.3}
  - {tap: optional, module: srt/models/deepseek_v2.py, object: DeepseekV2Model.gone, role: target}
  - {tap: renamed, module: srt/models/deepseek_v2.py, object: DeepseekV2Model.forwards, role: target, required: true}
"""


def make_wheel(folder, release, files=SOURCES):
    """A wheel that pip takes for one, with the files of an install in it."""
    folder.mkdir(parents=True, exist_ok=True)
    info = f"sglang-{release}.dist-info"
    path = folder / f"sglang-{release}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(f"sglang/{name}", text)
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: sglang\nVersion: {release}\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return path


@pytest.fixture
def team(tmp_path):
    folder = tmp_path / "team" / "patches"
    folder.mkdir(parents=True)
    (folder / "mine.yaml").write_text(TEAM_SET)
    return folder.parent


@pytest.fixture
def offline(tmp_path, monkeypatch):
    """A home of its own with one kept wheel, and a pip that knows one other and no network."""
    make_wheel(tmp_path / "home" / ".cache" / "sglfab" / "wheels", "0.5.9")
    make_wheel(tmp_path / "offered", "0.5.8")
    env = {"HOME": str(tmp_path / "home"), "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path / "offered")}
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    return tmp_path


def test_a_teams_own_set_is_judged_tap_by_tap(offline, team):
    found = check_release(Project(ROOT, extra=(team,)), ["mine"], "0.5.9")
    states = {tap.tap: tap.state for tap in found.taps}
    assert states == {
        "fits": "fits",
        "line": "fits",
        "older": "absent",
        "optional": "absent",
        "renamed": "refused",
    }
    by_name = {tap.tap: tap for tap in found.taps}
    assert by_name["fits"].leaves_out == ("temperature",)
    assert by_name["line"].leaves_out == ("gone",)
    assert by_name["line"].where == "LlamaModel.forward (line 8, before `return input_ids`)"
    assert by_name["renamed"].nearest[0] == "DeepseekV2Model.forward (line 3)"
    assert found.exit_code == 6
    assert found.release == "0.5.9"


def test_a_set_that_fits_is_exit_0_and_what_the_release_lacks_is_no_refusal(offline, project):
    found = check_release(project, ["draft-weights"], "0.5.9")
    assert {tap.state for tap in found.taps} == {"fits", "absent"}
    assert found.exit_code == 0


def test_an_install_is_judged_as_it_was_before_our_taps(installed, project, here):
    before = check_install(project, here, [SET], sglang_path=str(installed.root))
    patch.apply(project, here, [SET], sglang_path=str(installed.root))
    patched = installed.contents()
    assert check_install(project, here, [SET], sglang_path=str(installed.root)) == before
    assert installed.contents() == patched
    assert [tap.state for tap in before.taps if tap.tap.startswith("mla-")] == ["refused"] * 3  # 0.5.23 should have it


def test_a_file_that_would_not_be_the_same_program_is_refused(offline, tmp_path):
    (tmp_path / "c" / "patches").mkdir(parents=True)
    (tmp_path / "c" / "patches" / "odd.yaml").write_text(
        "taps: [{tap: t, module: srt/odd.py, object: A.f, role: draft, insert: {before: x = 1}}]\n"
    )
    make_wheel(
        tmp_path / "home" / ".cache" / "sglfab" / "wheels",
        "0.5.7",
        {"srt/odd.py": "class A:\n    def f(self):\n        if self: \\\n            x = 1\n"},
    )
    (tap,) = check_release(Project(ROOT, extra=(tmp_path / "c",)), ["odd"], "0.5.7").taps
    assert (tap.state, "same program" in tap.where) == ("refused", True)


def test_a_wheel_is_fetched_once_and_kept(offline, project):
    kept = offline / "home" / ".cache" / "sglfab" / "wheels"
    check_release(project, ["draft-weights"], "0.5.8")
    assert [path.name for path in sorted(kept.iterdir())] == [
        "sglang-0.5.8-py3-none-any.whl",
        "sglang-0.5.9-py3-none-any.whl",
    ]
    (offline / "offered" / "sglang-0.5.8-py3-none-any.whl").unlink()
    check_release(project, ["draft-weights"], "0.5.8")


NO_WHEEL = {
    "a release that does not exist": ("0.5.99", "release-unknown", "0.5.8"),
    "no number": ("newest", "bad-release", "0.5.12"),
}


@pytest.mark.parametrize("case", NO_WHEEL)
def test_a_release_that_is_none_is_said(offline, project, case):
    release, code, says = NO_WHEEL[case]
    with pytest.raises(InputError) as raised:
        check_release(project, [SET], release)
    assert (raised.value.code, says in raised.value.try_) == (code, True)


def test_a_machine_without_network_says_how_to_go_on(offline, project, monkeypatch):
    monkeypatch.delenv("PIP_FIND_LINKS")
    with pytest.raises(InputError) as raised:
        check_release(project, [SET], "0.5.8")
    error = raised.value
    assert error.code == "wheel-not-here"
    assert error.where == str(offline / "home" / ".cache" / "sglfab" / "wheels")
    assert "--sglang-path" in error.try_


def test_what_an_operator_types(offline, team):
    fab = Fab()
    done = fab("patch-check", "--patches", "mine", "--release", "0.5.9", "--configs", str(team))
    assert done.code == 6, done
    assert "not in this release: srt/models/old.py" in done.out
    assert "DeepseekV2Model.forwards is not there" in done.out
    assert "try: DeepseekV2Model.forward (line 3)" in done.out
    told = fab("patch-check", "--patches", "mine", "--release", "0.5.9", "--configs", str(team), "--json").json
    assert (told["schema"], told["set"], told["sglang_version"]) == (1, "mine", "0.5.9")
    assert [tap["state"] for tap in told["taps"]] == ["fits", "fits", "absent", "absent", "refused"]


REFUSED = {
    "a set that is not there": (["--patches", "nothing", "--release", "0.5.9"], "patch-set-unknown"),
    "a release and a folder": (["--release", "0.5.9", "--sglang-path", "/tmp"], "release-or-folder"),
    "a folder without sglang": (["--sglang-path", "/nonexistent"], "sglang-not-found"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_input_is_exit_2(offline, case):
    words, code = REFUSED[case]
    done = Fab()("patch-check", *words)
    assert (done.code, code in done.err) == (2, True), done


def test_sources_of_a_wheel(tmp_path):
    path = make_wheel(tmp_path, "0.5.9", {"srt/a.py": "# größer\n", "srt/b.txt": ""})
    found = sources(path, ["srt/a.py", "srt/b.py"])
    assert found.texts == {"srt/a.py": "# größer\n", "srt/b.py": None}
    assert found.modules == ("srt/a.py",)


def test_a_file_that_moved_is_found_by_its_name(offline, tmp_path):
    (tmp_path / "c" / "patches").mkdir(parents=True)
    (tmp_path / "c" / "patches" / "moved.yaml").write_text(
        "taps: [{tap: t, module: srt/layers/logits.py, object: A.f, role: draft, required: true}]\n"
    )
    kept = tmp_path / "home" / ".cache" / "sglfab" / "wheels"
    make_wheel(kept, "0.5.7", {"srt/layers/heads/logits.py": "", "srt/layers/logit.py": "", "srt/other.py": ""})
    (tap,) = check_release(Project(ROOT, extra=(tmp_path / "c",)), ["moved"], "0.5.7").taps
    assert tap.where == "the file is not there"
    assert tap.nearest == ("srt/layers/heads/logits.py", "srt/layers/logit.py")


def test_a_wheel_that_is_no_wheel_is_said(offline, project):
    broken = offline / "home" / ".cache" / "sglfab" / "wheels" / "sglang-0.5.6-py3-none-any.whl"
    broken.write_bytes(b"PK, or not")
    with pytest.raises(InputError) as raised:
        check_release(project, [SET], "0.5.6")
    assert (raised.value.code, raised.value.try_) == ("wheel-damaged", f"rm {broken}")


def test_a_home_that_cannot_hold_wheels_is_said(tmp_path, project, monkeypatch):
    (tmp_path / "home").write_text("a file")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    with pytest.raises(InputError) as raised:
        check_release(project, [SET], "0.5.6")
    assert raised.value.code == "wheel-not-here"


def test_an_install_of_an_unknown_release_is_judged_by_its_shape(tmp_path, project, here):
    installed = Installed(tmp_path / "dev", release="0.0.0.dev0")
    found = check_install(project, here, ["logits-sanity"], sglang_path=str(installed.root))
    assert {tap.tap: tap.state for tap in found.taps}["logits"] == "fits"
