"""Which released SGLang takes the taps as a plugin: told by the source of the wheel."""

import pytest
from patch_installs import SET

from sglfab.errors import InputError, PatchError
from sglfab.flows.patch_plugin import preview_plugin
from sglfab.flows.wheels import sources, wheel
from sglfab.hostside.patch_plugins import LOADER, SCHEDULER

IN_EVERY_RUN = (9, 12, 23)
FIRST = 11
FINALS = tuple(
    pytest.param(minor, marks=() if minor in IN_EVERY_RUN else (pytest.mark.slow,), id=f"0.5.{minor}")
    for minor in range(8, 24)
)


@pytest.fixture
def unpacked(request, tmp_path, patch_set):
    """The folder of a wheel's sglang, as far as it counts here."""
    try:
        path = wheel(f"0.5.{request.param}")
    except InputError as why:
        pytest.skip(str(why))
    wanted = (*patch_set.modules, LOADER, SCHEDULER, "version.py", "_version.py")
    for module, text in sources(path, wanted).texts.items():
        if text is not None:
            (tmp_path / "sglang" / module).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / "sglang" / module).write_text(text, encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("unpacked", FINALS, indirect=True)
def test_from_0_5_11_on_schedulers_load_plugins(unpacked, project, here, request):
    minor = request.node.callspec.params["unpacked"]
    if minor < FIRST:
        with pytest.raises(PatchError, match=rf"SGLang 0\.5\.{minor} knows no plugins"):
            preview_plugin(project, here, [SET], sglang_path=str(unpacked))
        return
    plugin = preview_plugin(project, here, [SET], sglang_path=str(unpacked)).plugin
    assert set(plugin.modules) >= {"srt/models/deepseek_v2.py", "srt/layers/logits_processor.py"}
    assert plugin.absent == ()
