"""`--via plugin`: the server sees the taps, the install does not."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

SET = "eagle3-hidden-states"
FILES = ("srt/models/deepseek_v2.py", "srt/models/llama_eagle3.py", "srt/layers/logits_processor.py")


def contents(place):
    return {file: (place.host.standin.sglang / file).read_bytes() for file in FILES}


def environ(pid):
    pairs = Path(f"/proc/{pid}/environ").read_text().split("\0")
    return dict(pair.split("=", 1) for pair in pairs if "=" in pair)


def test_a_launch_brings_the_plugin_along_and_touches_no_file(place):
    """The stand-in has no torch, so the probe cannot wrap: what counts is who asked it to."""
    before = contents(place)
    place.host.write_profile(patches=[SET], env={"SGLANG_PLUGINS": "of-our-own", "PYTHONPATH": "/of/our/own"})
    done = place.fab("launch", "--profile", "standin", "--via", "plugin", "--json")
    assert (done.code, done.json["verdict"]) == (8, "degraded"), done
    assert done.json["primary"]["id"] == "patch.not_active"
    assert contents(place) == before
    assert not (place.host.state_dir / "patches").exists()
    run = done.json["run"]
    env = environ(place.pid(run))
    own, plugin = env["PYTHONPATH"].split(":")
    assert (own, plugin, env["SGLANG_PLUGINS"]) == ("/of/our/own", env["SGLFAB_PLUGIN"], "of-our-own,sglfab")
    assert Path(plugin).parent == place.host.state_dir / "plugins"
    recorded = place.runs()[run]
    assert recorded["plan"]["patch_via"] == "plugin"
    assert (recorded["patch_manifest"]["via"], recorded["patch_manifest"]["plugin"]) == ("plugin", Path(plugin).name)
    refusals = [line for line in place.logged(run).splitlines() if "no trace by the plugin" in line]
    assert len(refusals) == len(FILES) * 2  # both schedulers; launcher and detokenizer have no part in it
    status = place.fab("patch-status", "--profile", "standin", "--json").json
    assert (status["state"], status["servers"][0]["active"]) == ("pristine", True)
    assert "as a plugin" in status["servers"][0]["why"]


def test_the_launch_script_run_by_hand_has_no_taps(place):
    place.host.write_profile(patches=[SET])
    launch = ("launch", "--profile", "standin", "--dry-run", "--json")
    plugin, file = (done.json["plan"]["script"] for done in place.fab.all((*launch, "--via", "plugin"), launch))
    assert plugin.index('if [ -n "${SGLFAB_PLUGIN:-}" ]') < plugin.index("export PYTHONPATH")
    assert "PLUGIN" not in file


def test_a_release_without_plugins_leaves_the_old_server_alone(place):
    run = place.fab("launch", "--profile", "standin", "--json").json["run"]
    shutil.rmtree(place.host.standin.sglang / "srt" / "plugins")
    place.host.write_profile(patches=[SET], patch_via="plugin")
    launched, flag, checked = place.fab.all(
        ("launch", "--profile", "standin", "--no-wait", "--json"),
        ("patch-debug", "--profile", "standin", "--via", "plugin", "--json"),
        ("preflight", "--profile", "standin", "--json"),
    )
    for done in (launched, flag):
        assert (done.code, done.json["error"]["code"]) == (6, "patch-no-plugins"), done
    assert checked.code == 10
    assert place.live == [run]


def test_patch_debug_says_how_to_launch_and_writes_nothing(place):
    before = contents(place)
    told, other = place.fab.all(
        ("patch-debug", "--profile", "standin", "--via", "plugin", "--json"),
        ("patch-debug", "--profile", "standin", "--via", "plug"),
    )
    assert told.code == 0, told
    assert told.json["next"] == f"fab launch --profile standin --set patches={SET} --via plugin"
    assert told.json["verb"] == "fits-as-plugin"
    assert contents(place) == before
    assert not place.host.state_dir.joinpath("plugins").exists()
    assert other.code == 2
    assert "bad-via" in other.said


def test_footers_and_plugin_at_once_are_refused(place):
    assert place.fab("patch-debug", "--profile", "standin").code == 0
    place.host.write_profile(patches=[SET])
    done = place.fab("launch", "--profile", "standin", "--via", "plugin", "--dry-run", "--json")
    blockers = [check["name"] for check in done.json["checks"] if check["state"] == "blocker"]
    assert (done.code, blockers) == (6, ["patch-footers-present"]), json.dumps(done.json)
