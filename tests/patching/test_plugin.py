"""The taps as a plugin: which installs take one, and what it does in which process of a server."""

import json
import os
import subprocess
import sys
from dataclasses import replace

import pytest
from patch_installs import ROOT, SET

from sglfab.errors import PatchError
from sglfab.flows import patch
from sglfab.flows.patch_install import read
from sglfab.flows.patch_plugin import preview_plugin
from sglfab.flows.patch_refusal import shared_note
from sglfab.patching.planning import ServerSeen
from sglfab.project import Project

RECORDER = """
import json, os
def install(namespace, module, about, taps):
    if os.environ.get("FAIL"):
        raise SystemExit(os.environ["FAIL"])
    with open(os.environ["SGLFAB_TRACE_DIR"] + "/installed", "a") as file:
        file.write(json.dumps([module, namespace["__name__"], about["set"], [tap["tap"] for tap in taps]]) + "\\n")
"""
PROCESSES = """
import sys
role, *early = sys.argv[1:]
def load(names):
    for name in names:
        __import__(name)
MODULES = ["sglang.srt.layers.logits_processor", "sglang.srt.models.deepseek_v2", "sglang.srt.models.llama_eagle3"]
load(early)
from sglang.srt.managers import scheduler
def then():
    load(MODULES)
if role == "scheduler":
    scheduler.run_scheduler_process(then)
else:
    scheduler.load_plugins()
    if role == "all": then()
print([name for name in MODULES if name in sys.modules], "sglfab_probe" in sys.modules)
"""
LOGITS = "sglang.srt.layers.logits_processor"


@pytest.fixture
def taking(installed):
    installed.load_plugins()
    return installed


def where(installed):
    return {"sglang_path": str(installed.root)}


# --- which install takes one ------------------------------------------------------------------------------------------


def test_a_preview_writes_nothing_and_names_its_folder_by_its_content(taking, project, here):
    seen = preview_plugin(project, here, [SET], **where(taking))
    assert taking.pristine
    assert not os.path.exists(here.state_dir)
    assert seen.plugin.modules == tuple(taking.originals)
    assert "no file is touched" in seen.summary
    assert seen.plugin.sha == preview_plugin(project, here, [SET], **where(taking)).plugin.sha


def test_a_method_that_the_release_lacks_is_named(taking, project, here):
    path = taking.path("srt/models/deepseek_v2.py")
    path.write_text(path.read_text().replace("set_eagle3_layers_to_capture", "other"))
    (taking.root / "sglang" / "version.py").write_text('__version__ = "0.5.4"\n')
    assert preview_plugin(project, here, [SET], **where(taking)).absent == ("target-layers",)


def test_a_foreign_edit_is_no_obstacle(taking, project, here):
    path = taking.path("srt/models/llama_eagle3.py")
    path.write_text(path.read_text() + "# a colleague's print\n")
    assert preview_plugin(project, here, [SET], **where(taking)).plugin.modules == tuple(taking.originals)


def gone(installed, project, here):
    installed.path("srt/plugins/__init__.py").unlink()


def another_group(installed, project, here):
    path = installed.path("srt/plugins/__init__.py")
    path.write_text(path.read_text().replace("sglang.srt.plugins", "sglang.plugins"))


def not_in_the_scheduler(installed, project, here):
    installed.path("srt/managers/scheduler.py").write_text("def run_scheduler_process():\n    pass\n")


def broken_scheduler(installed, project, here):
    installed.path("srt/managers/scheduler.py").write_text("def (\n")


def footers(installed, project, here):
    patch.apply(project, here, [SET], **where(installed))


def no_such_method(installed, project, here):
    path = installed.path("srt/layers/logits_processor.py")
    path.write_text(path.read_text().replace("def forward(", "def forward_logits("))


@pytest.mark.parametrize(
    ("spoil", "code", "try_"),
    [
        (gone, "patch-no-plugins", "--via file"),
        (another_group, "patch-no-plugins", "--via file"),
        (not_in_the_scheduler, "patch-no-plugins", "--via file"),
        (broken_scheduler, "patch-no-plugins", "--via file"),
        (footers, "patch-footers-present", "fab unpatch-debug"),
        (no_such_method, "patch-conflict", "LogitsProcessor.forward_logits"),
    ],
    ids=lambda value: value.__name__.replace("_", " ") if callable(value) else "",
)
def test_what_takes_no_plugin_is_refused_with_the_reason(taking, project, here, *, spoil, code, try_):
    spoil(taking, project, here)
    with pytest.raises(PatchError) as raised:
        preview_plugin(project, here, [SET], **where(taking))
    assert (raised.value.code, raised.value.exit_code) == (code, 6)
    assert try_ in raised.value.try_


# --- when it is recommended -------------------------------------------------------------------------------------------


TEAM_SET = """\
taps:
  - {tap: top, module: srt/layers/logits_processor.py, object: LogitsProcessor.forward, role: enclosing}
  - tap: line
    module: srt/models/deepseek_v2.py
    object: DeepseekV2Model.forward
    role: target
    insert: {before: return input_ids}
    values: {ids: locals.input_ids}
"""


def test_lines_inside_a_method_are_left_out_and_named(taking, here, tmp_path):
    folder = tmp_path / "team" / "patches"
    folder.mkdir(parents=True)
    (folder / "mixed.yaml").write_text(TEAM_SET)
    (folder / "lines.yaml").write_text("taps:\n" + TEAM_SET.partition("enclosing}\n")[2])
    project = Project(ROOT, extra=(tmp_path / "team",))
    seen = preview_plugin(project, here, ["mixed"], **where(taking))
    assert (seen.plugin.modules, seen.plugin.inserts) == (("srt/layers/logits_processor.py",), ("line",))
    assert "only with --via file: line" in seen.summary
    with pytest.raises(PatchError, match="which no plugin can put there"):
        preview_plugin(project, here, ["lines"], **where(taking))


@pytest.mark.parametrize("plugins", [True, False], ids=["a release with plugins", "a release without"])
def test_a_refusal_for_a_foreign_edit_recommends_it_where_it_works(installed, project, here, *, plugins):
    if plugins:
        installed.load_plugins()
    path = installed.path("srt/models/llama_eagle3.py")
    path.write_text(path.read_text() + "# a colleague's print\n")
    with pytest.raises(PatchError) as raised:
        patch.apply(project, here, [SET], **where(installed))
    assert ("--via plugin" in raised.value.try_) is plugins
    assert "--force-reinstall" in raised.value.try_


def test_an_install_of_ones_own_is_patched_without_a_word_about_plugins(taking, project, here):
    assert not [note for note in patch.apply(project, here, [SET], **where(taking)).notes if "plugin" in note]


def owner(install):
    return replace(install, files=tuple(replace(file, owner="carol") for file in install.files))


def server(install):
    return replace(install, servers=(ServerSeen(7, 0.0, None, starting=False, traced=None, user="bob"),))


def own_server(install):
    return replace(install, servers=(ServerSeen(7, 0.0, None, starting=False, traced=False, user=install.user),))


def nothing(install):
    return install


def old_release(install):
    return replace(server(install), no_plugins="knows no plugins")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (owner, "carol owns it"),
        (server, "bob runs a server from it"),
        (own_server, None),
        (nothing, None),
        (old_release, None),
    ],
    ids=lambda value: value.__name__.replace("_", " ") if callable(value) else "",
)
def test_an_install_that_others_use_is_told_to_be_shared(taking, project, here, *, change, says):
    install = change(read(project, here, (), **where(taking)))
    notes = shared_note(install)
    assert [says in note and "--via plugin" in note for note in notes] == ([True] if says else [])
    preview = patch.preview(project, here, [SET], **where(taking))
    checks = patch.checks(replace(preview, install=install))
    assert [check.text for check in checks if check.name == "patch-shared"] == list(notes)


# --- in the server ----------------------------------------------------------------------------------------------------


@pytest.fixture
def run(taking, project, here, tmp_path):
    """Run a process of a server that sees the plugin; (what it printed, its stderr, what was installed)."""
    folder, trace = tmp_path / "plug in", tmp_path / "trace"
    for name, text in preview_plugin(project, here, [SET], **where(taking)).plugin.files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    trace.mkdir()
    (tmp_path / "recorder.py").write_text(RECORDER)

    def run(role, *early, **env):
        told = {"SGLFAB_TRACE_DIR": str(trace), "SGLFAB_PROBE": str(tmp_path / "recorder.py"), **env}
        path = os.pathsep.join([str(taking.root), str(folder)])
        argv = [sys.executable, "-c", PROCESSES, role, *early]
        done = subprocess.run(
            argv, capture_output=True, text=True, check=True, env={**os.environ, "PYTHONPATH": path, **told}
        )
        lines = (trace / "installed").read_text().splitlines() if (trace / "installed").exists() else []
        return done.stdout, done.stderr, [json.loads(line) for line in lines]

    return run


def test_in_a_scheduler_each_module_is_wrapped_once_when_it_is_imported(run):
    _, said, installed = run("scheduler")
    assert said == ""
    assert [(module, name) for module, name, *_ in installed] == [
        ("srt/layers/logits_processor.py", LOGITS),
        ("srt/models/deepseek_v2.py", "sglang.srt.models.deepseek_v2"),
        ("srt/models/llama_eagle3.py", "sglang.srt.models.llama_eagle3"),
    ]
    assert {name for *_, name, _ in installed} == {SET}
    assert installed[0][3] == ["logits-processor"]


def test_what_was_imported_before_is_wrapped_as_well(run):
    _, _, installed = run("scheduler", LOGITS)
    assert [module for module, *_ in installed].count("srt/layers/logits_processor.py") == 1
    assert len(installed) == 3


@pytest.mark.parametrize("role", ["launcher", "all"], ids=["imports nothing more", "imports the models"])
def test_another_process_wraps_nothing_and_imports_nothing_for_it(run, role):
    out, said, installed = run(role)
    assert (said, installed) == ("", [])
    assert out.split("] ")[1] == "False\n"
    assert out.startswith("[]") is (role == "launcher")


def test_a_server_that_is_not_to_trace_wraps_nothing(run):
    out, said, installed = run("scheduler", SGLFAB_TRACE_DIR="")
    assert (said, installed) == ("", [])
    assert out.endswith("False\n")


@pytest.mark.parametrize("env", [{"FAIL": "7"}, {"SGLFAB_PROBE": "/nonexistent.py"}], ids=["SystemExit", "no probe"])
def test_whatever_fails_is_one_line_and_never_the_servers_end(run, env):
    out, said, installed = run("scheduler", LOGITS, **env)
    assert installed == []
    assert out.count("sglang.srt") == 3
    assert 1 <= said.count("sglfab: no trace by the plugin") <= 3
