"""The program on the host, killed by strace at a file-changing system call of its write."""

import shutil
import subprocess
import sys

import pytest
from patch_installs import SET

from sglfab.errors import SglfabError
from sglfab.flows import patch
from sglfab.transports.host import Host
from sglfab.transports.local import LocalTransport

# What of a write can leave something half done. `write` also stands for the answer: done, and nobody was told.
CHANGING = ("write", "fsync", "fchmod", "ftruncate", "rename,renameat,renameat2", "unlink,unlinkat")
MOST = 40
# (verb, calls) → which of the calls, and the state that the kill leaves.
IN_EVERY_RUN = {
    ("apply", "rename,renameat,renameat2"): {1: "pristine", 3: "unfinished", 5: "unfinished"},
    ("apply", "fsync"): {2: "unfinished"},
    ("remove", "rename,renameat,renameat2"): {2: "unfinished", 4: "unfinished"},
    ("remove", "unlink,unlinkat"): {7: "unfinished"},
}


class Killable(Host):
    """A host whose next `patch-write` runs under strace."""

    calls = ""
    when = 0

    def call(self, op, request=None, *, timeout_s=60.0):
        self._transport.prefix = self._strace() if op == "patch-write" and self.calls else ()
        return super().call(op, request, timeout_s=timeout_s)

    def _strace(self):
        wanted = ",".join("?" + name for name in self.calls.split(","))  # `?`: not on every architecture
        inject = f"inject={wanted}:signal=KILL:when={self.when}"
        return ("strace", "-f", "-qq", "-o", "/dev/null", "-e", f"trace={wanted}", "-e", inject)

    def kill_at(self, calls, when):
        self.calls, self.when = calls, when


class Prefixed(LocalTransport):
    prefix = ()

    def open(self, argv):
        return super().open([*self.prefix, *argv])


@pytest.fixture
def host(tmp_path, monkeypatch):
    works = (
        shutil.which("strace") and subprocess.run(["strace", "-o", "/dev/null", "true"], check=False).returncode == 0
    )
    if not works:
        pytest.skip("no strace that may trace: apt-get install strace")
    monkeypatch.setenv("SGLFAB_LOCK_DIR", str(tmp_path / "locks"))
    return Killable(Prefixed(), python=sys.executable, state_dir=str(tmp_path / "state"))


class World:
    def __init__(self, installed, project, host):
        self.installed, self.host = installed, host
        self._project, self._where = project, {"sglang_path": str(installed.root)}
        patch.apply(project, host, [SET], **self._where)
        self.patched, self.originals = installed.contents(), installed.originals

    def do(self, verb):
        if verb == "apply":
            patch.apply(self._project, self.host, [SET], **self._where)
        else:
            patch.remove(self._project, self.host, **self._where)

    @property
    def state(self):
        return patch.status(self._project, self.host, **self._where).state

    def killed(self, verb, calls, when):
        """Whether the write was killed at the when-th of those calls; False: it came to its end before."""
        self.host.kill_at(calls, when)
        try:
            self.do(verb)
        except SglfabError:
            return True
        finally:
            self.host.kill_at("", 0)
        return False

    def finish(self, then):
        """The state that the kill left; the next call has completed it or rolled it back."""
        now, state = self.installed.contents(), self.state
        assert all(now[path] in (self.patched[path], self.originals[path]) for path in now)
        self.do(then)
        assert self.installed.contents() == (self.patched if then == "apply" else self.originals)
        assert self.state == ("ours" if then == "apply" else "pristine")
        assert self.installed.leftovers() == []
        return state


@pytest.fixture
def world(installed, project, host):
    return World(installed, project, host)


@pytest.mark.parametrize(("verb", "calls"), IN_EVERY_RUN, ids=lambda value: value.partition(",")[0])
def test_the_next_call_completes_or_rolls_back(world, verb, calls):
    for number, (when, state) in enumerate(IN_EVERY_RUN[verb, calls].items()):
        world.do("remove" if verb == "apply" else "apply")
        assert world.killed(verb, calls, when), f"there is no {when}th {calls}"
        assert world.finish(("apply", "remove")[number % 2]) == state


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("then", ["apply", "remove"])
@pytest.mark.parametrize("verb", ["apply", "remove"])
def test_every_call_of_a_write(world, verb, then):
    reached, states = 0, set()
    for calls in CHANGING:
        for when in range(1, MOST):
            world.do("remove" if verb == "apply" else "apply")
            if not world.killed(verb, calls, when):
                break
            reached += 1
            states.add(world.finish(then))
    assert reached > 20
    assert states == {"pristine", "ours", "unfinished"}  # `write` 1 and last: before it began, and done but not told
