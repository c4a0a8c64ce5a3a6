"""The shipped patch sets on the real released files: apply, compile, check the names, unapply, compare with RECORD."""

import ast
import json
import zipfile

import pytest
from patch_installs import KIMI_DRAFT, ROOT

from sglfab.errors import InputError
from sglfab.flows import patch
from sglfab.flows.patch_check import check_release
from sglfab.flows.patch_install import load
from sglfab.flows.wheels import wheel
from sglfab.patching.footer import find
from sglfab.project import Project

SETS = Project(ROOT).names("patches")
TOGETHER = "all of them together"
IN_EVERY_RUN = ("0.4.6", "0.5.5", "0.5.9", "0.5.12", "0.5.16", "0.5.23")
FINALS = (
    *(f"0.4.{n}" for n in range(6, 11)),
    *(f"0.5.{n}" for n in range(1, 24)),
)
POSTS = {
    "0.4.6": 5,
    "0.4.7": 1,
    "0.4.8": 1,
    "0.4.9": 6,
    "0.4.10": 2,
    "0.5.1": 3,
    "0.5.3": 3,
    "0.5.4": 3,
    "0.5.5": 3,
    "0.5.6": 2,
    "0.5.8": 1,
    "0.5.10": 1,
    "0.5.12": 1,
    "0.5.13": 1,
    "0.5.15": 1,
}
RELEASES = (*FINALS, *(f"{release}.post{n}" for release, count in POSTS.items() for n in range(1, count + 1)))
# What the releases did not have from the beginning, or lost: read from the wheels by hand, (0, 5, 4, 2) is 0.5.4.post2.
CAME = {"target-layers": (0, 5, 4, 2), "verify": (0, 5, 3, 2), "mla-": (0, 5, 12, 0)}
WENT = {"verify-v1": (0, 5, 13, 0)}


def version(text):
    """(0, 5, 4, 2) for 0.5.4.post2."""
    final, _, post = text.partition(".post")
    return (*(int(part) for part in final.split(".")), int(post or 0))


def lacks(release, tap):
    came = next(
        (since for name, since in CAME.items() if tap == name or (name[-1] == "-" and tap.startswith(name))), ()
    )
    return version(release) < came or (tap in WENT and version(release) >= WENT[tap])


def marks(release):
    return () if release in IN_EVERY_RUN else (pytest.mark.slow,)


class Unpacked:
    """What patching needs of a wheel, unpacked."""

    def __init__(self, archive_path, root, modules):
        self.root = root
        wanted = {f"sglang/{module}" for module in modules} | {"sglang/version.py", "sglang/_version.py"}
        with zipfile.ZipFile(archive_path) as archive:
            names = [
                n for n in archive.namelist() if n in wanted or n.endswith((".dist-info/RECORD", ".dist-info/METADATA"))
            ]
            archive.extractall(root, names)
        self.modules = tuple(module for module in modules if (root / "sglang" / module).exists())

    def contents(self):
        return {module: (self.root / "sglang" / module).read_bytes() for module in self.modules}


def names_of(case):
    return list(SETS) if case == TOGETHER else [case]


def released(release, distribution="sglang"):
    try:
        return wheel(release, distribution)
    except InputError as error:
        pytest.skip(f"no wheel of {distribution} {release} to be had here: {error.what[-200:]}")


def taps_in(source):
    """The taps of a patched file as its footer has them, and the names of the lines put into it."""
    installed = [
        json.loads(ast.literal_eval(line.strip().rstrip(",")))
        for line in source.splitlines()
        if line.startswith(" " * 12 + '\'{"tap"')
    ]
    calls = [n for n in ast.walk(ast.parse(source)) if isinstance(n, ast.Call)]
    return installed, [c.args[0].value for c in calls if getattr(c.func, "id", "") == "_sglfab_local"]


def methods(source):
    """Class.method of the file, and Class.forward of each class that may inherit it."""
    classes = {node.name: node for node in ast.parse(source).body if isinstance(node, ast.ClassDef)}
    own = {f"{name}.{m.name}" for name, node in classes.items() for m in node.body if isinstance(m, ast.FunctionDef)}
    return own | {f"{name}.forward" for name, node in classes.items() if node.bases}


RUNS = [
    pytest.param(release, case, marks=marks(release), id=f"{release} {case}")
    for release in RELEASES
    for case in (*SETS, TOGETHER)
]


@pytest.mark.parametrize(("release", "case"), RUNS)
def test_apply_compile_check_and_restore(release, case, project, here, tmp_path):
    patch_set = load(project, names_of(case)).for_draft([KIMI_DRAFT])
    unpacked = Unpacked(released(release), tmp_path / "with a space", patch_set.modules)
    originals = unpacked.contents()
    done = patch.apply(project, here, names_of(case), sglang_path=str(unpacked.root), draft=[KIMI_DRAFT])
    assert done.release == release
    assert set(done.absent) == {tap.tap for tap in patch_set.taps if lacks(release, tap.tap)}
    assert set(done.files) == set(unpacked.modules)
    for module, data in unpacked.contents().items():
        source = data.decode()
        compile(source, module, "exec")
        installed, lines = taps_in(source)
        assert {tap["tap"] for tap in installed} == {
            tap.tap for tap in patch_set.taps_of(module) if not lacks(release, tap.tap)
        }
        assert {tap["object"] for tap in installed if "object" in tap} <= methods(source)
        assert lines == [tap["tap"] for tap in installed if tap.get("insert")]
        assert find(source).original.encode() == originals[module]
    assert patch.status(project, here, sglang_path=str(unpacked.root)).state == "ours"
    patch.remove(project, here, sglang_path=str(unpacked.root))
    assert unpacked.contents() == originals
    status = patch.status(project, here, sglang_path=str(unpacked.root))
    assert status.state == "pristine"  # each file's sha256 equals the wheel's RECORD
    assert not any("source install" in note for note in status.notes)


@pytest.mark.parametrize("release", [pytest.param(r, marks=marks(r), id=r) for r in RELEASES])
def test_the_offline_check_says_the_same(release, project):
    released(release)
    found = check_release(project, SETS, release)
    assert found.exit_code == 0
    assert {t.tap for t in found.taps if t.state == "absent"} == {t.tap for t in found.taps if lacks(release, t.tap)}
    # What a path begins at is an argument or a local in every release.
    assert [(tap.tap, tap.leaves_out) for tap in found.taps if tap.leaves_out] == []


# Forks that ship the package under another name, with numbers of their own: what the source itself says counts.
FORKS = [
    pytest.param("sglang-kt", "0.5.2", "unknown", id="sglang-kt, which says nothing of itself"),
    pytest.param("lsglang", "1.3.1", "unknown", id="lsglang, which says nothing of itself", marks=pytest.mark.slow),
    pytest.param(
        "lsglang", "1.6.5", "0.5.15.dev105+g46b087b58", id="lsglang of between two releases", marks=pytest.mark.slow
    ),
]


@pytest.mark.parametrize(("distribution", "number", "says"), FORKS)
def test_a_fork_is_patched_by_its_shape_and_restored(distribution, number, says, project, here, tmp_path):
    wanted = load(project, SETS)
    unpacked = Unpacked(released(number, distribution), tmp_path, wanted.modules)
    originals = unpacked.contents()
    done = patch.apply(project, here, SETS, sglang_path=str(tmp_path))
    assert done.release == says
    assert set(wanted.for_draft(()).modules) >= set(done.files) > {"srt/speculative/eagle_worker_v2.py"}
    patch.remove(project, here, sglang_path=str(tmp_path))
    assert unpacked.contents() == originals
    status = patch.status(project, here, sglang_path=str(tmp_path))
    assert (status.state, any("source install" in note for note in status.notes)) == ("pristine", False)


def test_a_distribution_without_the_package_is_refused_with_that_reason(project, here, tmp_path):
    """amd-sglang 0.5.6.post1 is metadata and nothing else."""
    Unpacked(released("0.5.6.post1", "amd-sglang"), tmp_path, ())
    with pytest.raises(InputError) as raised:
        patch.apply(project, here, SETS, sglang_path=str(tmp_path))
    assert (raised.value.code, raised.value.what) == ("sglang-not-found", "no sglang/srt there")
