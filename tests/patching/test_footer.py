"""Footers: appended, found, cut off byte for byte; inert unless the environment says otherwise."""

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sglfab.patching.footer import END, SEPARATOR, BrokenFooter, Footer, append, find, sha256

MODULE = "srt/models/deepseek_v2.py"
ORIGINAL = "# größer\nclass DeepseekV2Model:\n    def forward(self):\n        return 1\n"


def patched(patch_set, original=ORIGINAL):
    return append(original, patch_set, MODULE, patch_set.taps_of(MODULE), modules=patch_set.modules)


# Any text that a file can hold, lone surrogates aside.
TEXTS = st.text(st.characters(blacklist_categories=("Cs",))).filter(lambda text: "sglfab" not in text)


@given(original=TEXTS)
def test_cutting_gives_back_any_text_byte_for_byte(patch_set, original):
    found = find(patched(patch_set, original))
    assert isinstance(found, Footer)
    assert found.original == original
    assert found.intact
    assert found.set_name == "eagle3-hidden-states"
    assert found.original + SEPARATOR + found.block == patched(patch_set, original)


@given(text=TEXTS)
def test_a_text_without_marks_has_no_footer(text):
    assert find(text) is None


def test_a_footer_is_python_whatever_the_taps_say(patch_set):
    compile(patched(patch_set), MODULE, "exec")


BREAK = {
    "a line after it": lambda text: text + "# mine\n",
    "its end mark gone": lambda text: text.replace(END, ""),
    "its begin mark gone": lambda text: text.replace("# >>> sglfab", "# >>> ", 1),
    "a second footer": lambda text: text + text[text.index("# >>> sglfab") :],
    "cut in the middle": lambda text: text[: text.index("probe.install")],
    "glued to the line before it": lambda text: text.replace("\n\n\n# >>> sglfab", "\n# >>> sglfab"),
    "its hash no hash": lambda text: text.replace(sha256(ORIGINAL), "0" * 63),
}


@pytest.mark.parametrize("name", BREAK)
def test_a_damaged_footer_is_not_taken_for_a_whole_one(patch_set, name):
    assert isinstance(find(BREAK[name](patched(patch_set))), BrokenFooter)


EDITS = {"a changed number": ("return 1", "return 2"), "an empty line too few": ("\n\n\n# >>>", "\n\n# >>>")}


@pytest.mark.parametrize("name", EDITS)
def test_an_edit_above_the_footer_shows(patch_set, name):
    found = find(patched(patch_set).replace(*EDITS[name]))
    assert isinstance(found, Footer)
    assert not found.intact


def run(source, tmp_path, **env):
    """Run a module with its footer in a fresh interpreter, as `sglang…` does; its stdout and stderr."""
    module = tmp_path / "patched_module.py"
    module.write_text(source, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", CHECK],
        check=False,
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path), **env},
        text=True,
        capture_output=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip(), done.stderr.strip()


CHECK = """
import sys
before = set(sys.modules)
import patched_module as m
function = vars(m.DeepseekV2Model)["forward"]
new = set(sys.modules) - before - {"patched_module"}
print(function.__qualname__, hasattr(function, "__wrapped__"), sorted(n for n in vars(m) if "sglfab" in n), sorted(new))
"""


def test_without_the_environment_nothing_is_imported_wrapped_or_left_behind(patch_set, tmp_path):
    out, err = run(patched(patch_set), tmp_path)
    assert out == "DeepseekV2Model.forward False [] []"
    assert err == ""


PROBES = {
    "the probe is not there": None,
    "a syntax error in the probe": "def (",
    "an exception while the probe loads": "raise RuntimeError('boom')",
    "the probe exits": "raise SystemExit(1)",
    "the probe exits at install": "def install(*args):\n    raise SystemExit(2)",
    "an exception at install": "def install(*args):\n    1 / 0",
}


@pytest.mark.parametrize("name", PROBES)
def test_a_broken_probe_costs_one_line_and_nothing_else(patch_set, tmp_path, name):
    probe = tmp_path / "broken_probe.py"
    if PROBES[name] is not None:
        probe.write_text(PROBES[name])
    env = {"SGLFAB_TRACE_DIR": str(tmp_path), "SGLFAB_PROBE": str(probe)}
    out, err = run(patched(patch_set), tmp_path, **env)
    assert out.startswith("DeepseekV2Model.forward False []")
    assert err.startswith("sglfab: no trace of patched_module: ")
    assert len(err.splitlines()) == 1


def test_a_missing_probe_variable_costs_one_line(patch_set, tmp_path):
    _, err = run(patched(patch_set), tmp_path, SGLFAB_TRACE_DIR=str(tmp_path))
    assert err == "sglfab: no trace of patched_module: KeyError('SGLFAB_PROBE')"


def test_the_probe_is_loaded_once_for_all_modules_and_gets_its_taps(patch_set, tmp_path):
    probe = tmp_path / "probe.py"
    probe.write_text(
        "print('loaded')\ndef install(space, module, about, taps):\n    print(module, about['set'], len(taps))\n"
    )
    (tmp_path / "second.py").write_text(patched(patch_set), encoding="utf-8")
    env = {"SGLFAB_TRACE_DIR": str(tmp_path), "SGLFAB_PROBE": str(probe)}
    out, err = run("import second\n" + patched(patch_set), tmp_path, **env)
    line = f"{MODULE} eagle3-hidden-states 3"
    assert out.splitlines()[:3] == ["loaded", line, line]
    assert err == ""


def test_ctrl_c_during_import_stays_the_operators(patch_set, tmp_path):
    (tmp_path / "patched_module.py").write_text(patched(patch_set), encoding="utf-8")
    (tmp_path / "probe.py").write_text("raise KeyboardInterrupt")
    env = {"PYTHONPATH": str(tmp_path), "SGLFAB_TRACE_DIR": str(tmp_path), "SGLFAB_PROBE": str(tmp_path / "probe.py")}
    done = subprocess.run(
        [sys.executable, "-c", "import patched_module"], check=False, env=env, capture_output=True, text=True
    )
    assert done.returncode != 0
    assert "KeyboardInterrupt" in done.stderr
