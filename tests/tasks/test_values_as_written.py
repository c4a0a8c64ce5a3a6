"""A value of a profile arrives at the server as it was written: no shell and no YAML on the way changes it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sglfab.testing.place import place_in

NASTY = {
    "spaces": "  two  words ",
    "quotes": 'it\'s "quoted" `so`',
    "a command": "$(touch /tmp/never) ${HOME} $PATH !! \\",
    "newlines": "first\nsecond\n\nlast",
    "json": '{"a": [1, "x y"], "b": null}',
    "glob": "* ? [a-z] ~ #",
    "non-ASCII": "Größe 模型 \t.",
    "a dash": "--not-a-flag",
    "empty": "",
}
OVERRIDE = {"rope_scaling": {"factor": 2.5, "type": "it's"}, "text": "a b"}


@pytest.fixture(scope="module")
def arrived(tmp_path_factory):
    with place_in(tmp_path_factory.mktemp("values") / "host") as place:
        env = {f"VALUE_{number}": value for number, value in enumerate(NASTY.values())}
        args = {
            "served-model-name": NASTY["quotes"],
            "chat-template": NASTY["a command"],
            "json-model-override-args": OVERRIDE,
        }
        place.host.write_profile(env=env, args=args)
        pid = place.pid(place.launch())
        assert place.fab("wait-health", "--json").json["verdict"] == "ready"
        split = [Path(f"/proc/{pid}/{name}").read_bytes().decode().split("\0") for name in ("environ", "cmdline")]
        yield dict(item.partition("=")[::2] for item in split[0]), split[1]


@pytest.mark.parametrize(("number", "value"), list(enumerate(NASTY.values())), ids=NASTY.keys())
def test_a_variable(arrived, number, value):
    assert arrived[0][f"VALUE_{number}"] == value


def test_an_argument(arrived):
    argv = arrived[1]
    assert argv[argv.index("--served-model-name") + 1] == NASTY["quotes"]
    assert argv[argv.index("--chat-template") + 1] == NASTY["a command"]
    assert json.loads(argv[argv.index("--json-model-override-args") + 1]) == OVERRIDE


def test_nothing_of_it_was_executed(arrived):
    assert not Path("/tmp/never").exists()
