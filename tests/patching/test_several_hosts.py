"""One patch set on several hosts: the same bytes everywhere, or nothing anywhere."""

import sys

import pytest
from patch_installs import OPERATOR, SET, Installed

from sglfab.errors import LockedError, SglfabError, UnreachableError
from sglfab.flows import patch
from sglfab.flows.patch_hosts import Place, patch_all, preview_all
from sglfab.transports.host import Host
from sglfab.transports.local import LocalTransport

DEEPSEEK = "srt/models/deepseek_v2.py"


class Site:
    """A host of its own: an install, a state folder, and how it is reached."""

    def __init__(self, root, label):
        self.installed = Installed(root / label / "site-packages")
        self.state = root / label / "state"
        self.host = Host(LocalTransport(), python=sys.executable, state_dir=str(self.state), label=label)

    @property
    def place(self):
        return Place(self.host, lambda: str(self.installed.root))

    @property
    def leftovers(self):
        return [*self.installed.leftovers(), *self.state.glob("patches/*.json")]


@pytest.fixture
def sites(tmp_path, monkeypatch):
    monkeypatch.setenv("SGLFAB_LOCK_DIR", str(tmp_path / "locks"))
    return [Site(tmp_path, label) for label in ("gpu1", "gpu2", "gpu3")]


def patch_them(project, sites):
    return patch_all(project, [site.place for site in sites], [SET], operator=OPERATOR)


def codes(answers):
    return [answer.code if isinstance(answer, SglfabError) else answer.verb for answer in answers]


def test_the_same_bytes_on_every_host(sites, project):
    assert codes(patch_them(project, sites)) == ["patched"] * 3
    assert len({tuple(site.installed.contents().items()) for site in sites}) == 1
    assert not any(site.installed.pristine for site in sites)
    assert codes(patch_them(project, sites)) == ["already-patched"] * 3
    for site in sites:
        patch.unpatch_debug(project, site.host, operator=OPERATOR, sglang_path=str(site.installed.root))
    assert all(site.installed.pristine for site in sites)


def test_one_that_is_patched_already_is_as_good(sites, project):
    patch.patch_debug(project, sites[1].host, [SET], operator=OPERATOR, sglang_path=str(sites[1].installed.root))
    assert codes(patch_them(project, sites)) == ["patched", "already-patched", "patched"]


def another_release(site, project):
    path = site.installed.path(DEEPSEEK)
    path.write_text(path.read_text() + "# as the next release has it\n")
    site.installed.record()


def foreign_edit(site, project):
    path = site.installed.path(DEEPSEEK)
    path.write_text(path.read_text() + "# an idea\n")


def no_sglang(site, project):
    site.installed.root.joinpath("sglang").rename(site.installed.root / "gone")
    site.installed.contents = lambda: {}
    site.installed.originals = {}


EVERYWHERE = ["patch-hosts-differ"] * 3
BECAUSE = "patch-not-everywhere"


@pytest.mark.parametrize(
    ("spoil", "expected"),
    [
        (another_release, EVERYWHERE),
        (foreign_edit, [BECAUSE, "patch-conflict", BECAUSE]),
        (no_sglang, [BECAUSE, "sglang-not-found", BECAUSE]),
    ],
    ids=lambda value: value.__name__.replace("_", " ") if callable(value) else "",
)
def test_one_that_cannot_be_patched_like_the_others_keeps_all_as_they_are(sites, project, spoil, expected):
    spoil(sites[1], project)
    before = [site.installed.contents() for site in sites]
    dry = preview_all(project, [site.place for site in sites], [SET])
    answers = patch_them(project, sites)
    assert codes(answers) == codes(dry) == expected
    assert "gpu2" in answers[0].what
    assert [site.installed.contents() for site in sites] == before
    assert [site.leftovers for site in sites] == [[], [], []]


def test_a_host_that_another_operator_holds_keeps_all_as_they_are(sites, project):
    lock = {"install": f"{sites[2].installed.root}/sglang", "operator": "bob", "laptop": "x", "what": "launch of y"}
    with sites[2].host.stream("hold-locks", lock) as held:
        next(held)
        answers = patch_them(project, sites)
    assert codes(answers) == [BECAUSE, BECAUSE, "locked"]
    assert isinstance(answers[2], LockedError)
    assert all(site.installed.pristine for site in sites)
    assert codes(patch_them(project, sites)) == ["patched"] * 3  # the locks of the first two were given back


def no_place_for_the_manifest(site, monkeypatch):
    site.state.mkdir(parents=True)
    site.state.joinpath("patches").write_text("a file, where a folder should be\n")


def lost(site, monkeypatch):
    real = site.host.call

    def call(op, request=None, *, timeout_s=60.0):
        if op == "patch-write":
            raise UnreachableError("ssh-lost", "the connection is gone", where=site.host.label)
        return real(op, request, timeout_s=timeout_s)

    monkeypatch.setattr(site.host, "call", call)


@pytest.mark.parametrize("spoil", [no_place_for_the_manifest, lost], ids=["on the host", "on the way to it"])
def test_a_write_that_fails_takes_back_those_before_it(sites, project, monkeypatch, spoil):
    patch.patch_debug(project, sites[0].host, [SET], operator=OPERATOR, sglang_path=str(sites[0].installed.root))
    patched = sites[0].installed.contents()
    spoil(sites[2], monkeypatch)
    answers = patch_them(project, sites)
    assert codes(answers)[:2] == [BECAUSE, BECAUSE]
    assert isinstance(answers[2], SglfabError)
    assert answers[2].code != BECAUSE
    assert sites[0].installed.contents() == patched  # that one had been patched before
    assert [site.installed.pristine for site in sites[1:]] == [True, True]
    assert sites[1].leftovers == []


def test_what_cannot_be_taken_back_is_named(sites, project, monkeypatch):
    lost(sites[1], monkeypatch)
    real = sites[0].host.call
    writes = []

    def once(op, request=None, *, timeout_s=60.0):
        writes.append(op)
        if op == "patch-write" and writes.count(op) > 1:
            raise UnreachableError("ssh-lost", "the connection is gone", where="gpu1")
        return real(op, request, timeout_s=timeout_s)

    monkeypatch.setattr(sites[0].host, "call", once)
    answers = patch_them(project, sites)
    assert codes(answers) == ["patch-left-behind", "ssh-lost", BECAUSE]
    assert "unpatch-debug" in answers[0].try_
    status = patch.status(project, sites[0].host, sglang_path=str(sites[0].installed.root))
    assert status.state == "ours"


def test_an_interruption_takes_back_what_was_written(sites, project, monkeypatch):
    def interrupted():
        if not sites[0].installed.pristine:
            raise KeyboardInterrupt
        return str(sites[1].installed.root)

    places = [sites[0].place, Place(sites[1].host, interrupted)]
    with pytest.raises(KeyboardInterrupt):
        patch_all(project, places, [SET], operator=OPERATOR)
    assert all(site.installed.pristine for site in sites)


def test_hosts_that_share_one_install_are_patched_once(sites, project, monkeypatch, tmp_path):
    """A venv on NFS: every host has its own state folder and its own locks."""
    shared = sites[0].installed
    locks = iter((tmp_path / "locks1", tmp_path / "locks2"))
    for site in sites[:2]:
        site.installed = shared
        monkeypatch.setattr(site.host, "_transport", WithLocks(next(locks)))
    assert codes(patch_them(project, sites[:2])) == ["patched", "already-patched"]
    assert [patch.status(project, s.host, sglang_path=str(shared.root)).state for s in sites[:2]] == ["ours"] * 2
    for site in sites[:2]:
        patch.unpatch_debug(project, site.host, operator=OPERATOR, sglang_path=str(shared.root))
    assert shared.pristine
    assert [site.leftovers for site in sites[:2]] == [[], []]


class WithLocks(LocalTransport):
    """This machine with a lock folder of its own, as another machine has it."""

    def __init__(self, folder):
        super().__init__()
        self._folder = folder

    def open(self, argv):
        return super().open(["env", f"SGLFAB_LOCK_DIR={self._folder}", *argv])
