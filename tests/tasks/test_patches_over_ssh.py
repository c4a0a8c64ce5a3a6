"""`fab -H gpu1,gpu2 patch-debug`: two sshds, two installs, two state folders."""

from __future__ import annotations

import os

import pytest
import yaml

from sglfab.testing import sshd as real_sshd
from sglfab.testing.fixtures import find_free_port
from sglfab.testing.standin.build import make_standin, write_record

pytestmark = pytest.mark.ssh
FILES = ("srt/models/deepseek_v2.py", "srt/models/llama_eagle3.py", "srt/layers/logits_processor.py")


class Pair:
    """`gpu1` and `gpu2`, and the `fab` that reaches both."""

    def __init__(self, place, one, two):
        self.standins = (place.host.standin, make_standin(place.host.root / "env of gpu2"))
        self.states = (one.state_dir, two.state_dir)
        one.host("gpu1")
        one.host("gpu2", Port=str(two.port), IdentityFile=str(two.key), UserKnownHostsFile=str(two.known_hosts))
        hosts = {f"gpu{n}": {"python": str(s.python)} for n, s in enumerate(self.standins, 1)}
        (place.host.configs / "hosts.yaml").write_text(yaml.safe_dump(hosts))
        one.host("away", Port=str(find_free_port()))
        self.over = place.fab.where("-S", str(one.config))
        self.fab = self.over.where("-H", "gpu1,gpu2")

    def contents(self):
        return [{file: (standin.sglang / file).read_bytes() for file in FILES} for standin in self.standins]


@pytest.fixture
def pair(place, tmp_path):
    why = real_sshd.missing()
    if why and os.environ.get("SGLFAB_REQUIRE_REAL"):
        pytest.fail(why)
    if why:
        pytest.skip(why)
    with real_sshd.running(tmp_path / "sshd1") as one, real_sshd.running(tmp_path / "sshd2") as two:
        yield Pair(place, one, two)


def test_both_or_none(pair):
    originals = pair.contents()
    edited = pair.standins[1].sglang / FILES[0]
    edited.write_text(edited.read_text() + "# an idea on gpu2\n")
    before = pair.contents()
    refused = pair.fab("patch-debug", "--json")
    assert refused.code == 6, refused
    first, second = refused.json["hosts"]
    assert (first["host"], first["error"]["code"]) == ("gpu1", "patch-not-everywhere")
    assert "because gpu2 could not be" in first["error"]["what"]
    assert (second["host"], second["error"]["code"]) == ("gpu2", "patch-conflict")
    assert pair.contents() == before

    write_record(pair.standins[1].site_packages, pair.standins[1].dist_info)  # another release, as it were
    differ = pair.fab("patch-debug", "--json")
    assert [host["error"]["code"] for host in differ.json["hosts"]] == ["patch-hosts-differ"] * 2
    assert pair.contents() == before

    edited.write_bytes(originals[1][FILES[0]])
    write_record(pair.standins[1].site_packages, pair.standins[1].dist_info)
    done = pair.fab("patch-debug", "--json")
    assert [(host["host"], host["verb"]) for host in done.json["hosts"]] == [("gpu1", "patched"), ("gpu2", "patched")]
    patched = pair.contents()
    assert patched[0] == patched[1] != originals[0]
    assert all(len(list((state / "patches").iterdir())) == 1 for state in pair.states)
    removed = pair.fab("unpatch-debug", "--json")
    assert [host["verb"] for host in removed.json["hosts"]] == ["restored"] * 2
    assert pair.contents() == originals


def test_a_host_that_is_not_there_keeps_the_other_as_it_is(pair):
    before = pair.contents()
    done = pair.over("-H", "gpu1,away", "patch-debug", "--json")
    assert done.code == 7, done
    assert done.json["hosts"][0]["error"]["code"] == "patch-not-everywhere"
    assert pair.contents() == before
