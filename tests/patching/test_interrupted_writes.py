"""A kill, or a full disk, at every file-changing step: completed or rolled back by the next call."""

import errno
import os
import shutil
import signal
import sys

import pytest
from patch_installs import SET

from sglfab.errors import InputError
from sglfab.flows import patch

CHANGING = {"os.rename", "os.remove", "os.chmod", "os.chown", "os.truncate"}
MOST_STEPS = 200
DONE, REFUSED, BROKEN, SWALLOWED = 0, 7, 1, 3


def is_change(event, args):
    if event == "open":
        return isinstance(args[2], int) and bool(args[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))
    return event in CHANGING


def run_with(accident, step, work, *, below):
    """Exit status of a child that runs `work` and meets the accident at its step-th change of a file in `below`.

    DONE: it came to its end before that step.
    """
    child = os.fork()
    if child == 0:
        count = [0]

        def audit(event, args):
            if is_change(event, args) and str(args[0]).startswith(below):
                count[0] += 1
                if count[0] == step:
                    accident()

        sys.addaudithook(audit)
        try:
            work()
        except InputError:
            os._exit(REFUSED)
        except BaseException:
            os._exit(BROKEN)
        os._exit(SWALLOWED if count[0] >= step else DONE)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def kill():
    os.kill(os.getpid(), signal.SIGKILL)


def disk_full():
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class World:
    """An install and the state folder beside it, which can be put back to how they were."""

    def __init__(self, installed, project, here):
        self.installed, self._project, self._here = installed, project, here
        self._trees = (installed.root, installed.root.parent / "state")
        self._saved = installed.root.parent / "saved"

    @property
    def below(self):
        return tuple(str(tree) for tree in self._trees)

    def apply(self):
        return patch.apply(self._project, self._here, [SET], sglang_path=str(self.installed.root))

    def remove(self):
        return patch.remove(self._project, self._here, sglang_path=str(self.installed.root))

    @property
    def state(self):
        return patch.status(self._project, self._here, sglang_path=str(self.installed.root)).state

    def save(self):
        for tree in self._trees:
            shutil.copytree(tree, self._saved / tree.name)

    def put_back(self):
        for tree in self._trees:
            shutil.rmtree(tree)
            shutil.copytree(self._saved / tree.name, tree)


@pytest.fixture
def world(installed, project, here):
    world = World(installed, project, here)
    world.apply()
    return world


def start_before(world, verb):
    """The contents with and without the patch; the world stands where `verb` has something to do, and is saved."""
    patched = world.installed.contents()
    if verb == "apply":
        world.remove()
    world.save()
    return patched, world.installed.originals


@pytest.mark.parametrize("then", ["apply", "remove"])
@pytest.mark.parametrize("verb", ["apply", "remove"])
def test_a_kill_at_any_step_is_completed_or_rolled_back(world, verb, then):
    patched, originals = start_before(world, verb)
    reached, states = 0, set()
    for step in range(1, MOST_STEPS):
        world.put_back()
        status = run_with(kill, step, getattr(world, verb), below=world.below)
        if status == DONE:
            break
        assert status == -signal.SIGKILL
        reached = step
        now = world.installed.contents()
        assert all(now[path] in (patched[path], originals[path]) for path in now)
        states.add(world.state)
        getattr(world, then)()
        assert world.installed.contents() == (patched if then == "apply" else originals)
        assert world.state == ("ours" if then == "apply" else "pristine")
        assert world.installed.leftovers() == []
    assert reached >= 10  # the manifest, three files staged, three swapped, the manifest again
    assert states == {"pristine" if verb == "apply" else "ours", "unfinished"}


@pytest.mark.parametrize("verb", ["apply", "remove"])
def test_a_full_disk_at_any_step_changes_nothing(world, verb):
    start_before(world, verb)
    before, state, reached = world.installed.contents(), world.state, 0
    for step in range(1, MOST_STEPS):
        status = run_with(disk_full, step, getattr(world, verb), below=world.below)
        if status == DONE:
            break
        assert status == REFUSED
        reached = step
        assert world.installed.contents() == before
        assert world.state == state
        assert world.installed.leftovers() == []
    assert reached >= 10
