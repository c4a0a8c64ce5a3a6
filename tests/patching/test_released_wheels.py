"""The shipped patch set on the real released files: apply, compile, check the names, unapply, compare with RECORD."""

import ast
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from sglfab.flows import patch
from sglfab.patching.footer import find

SET = "eagle3-hidden-states"
WHEELS = Path.home() / ".cache" / "sglfab" / "wheels"
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
FIRST_WITH_CAPTURE = (0, 5, 4, 2)  # a post release brought set_eagle3_layers_to_capture


def marks(release):
    return () if release in IN_EVERY_RUN else (pytest.mark.slow,)


def wheel(release):
    """The wheel of a release, from the cache or from the registry (once)."""
    found = sorted(WHEELS.glob(f"sglang-{release}-*.whl"))
    if not found:
        WHEELS.mkdir(parents=True, exist_ok=True)
        command = [
            sys.executable,
            "-m",
            "pip",
            "download",
            "-q",
            "--no-deps",
            "--dest",
            str(WHEELS),
            f"sglang=={release}",
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"no wheel of sglang {release} to be had here: {done.stderr.strip()[-200:]}")
        found = sorted(WHEELS.glob(f"sglang-{release}-*.whl"))
    return found[0]


class Unpacked:
    """What patching needs of a wheel, unpacked."""

    def __init__(self, release, root, modules):
        self.root, self.modules = root, modules
        wanted = {f"sglang/{module}" for module in modules} | {"sglang/version.py", "sglang/_version.py"}
        with zipfile.ZipFile(wheel(release)) as archive:
            names = [
                n for n in archive.namelist() if n in wanted or n.endswith((".dist-info/RECORD", ".dist-info/METADATA"))
            ]
            archive.extractall(root, names)

    def contents(self):
        return {module: (self.root / "sglang" / module).read_bytes() for module in self.modules}


@pytest.fixture
def unpacked(request, tmp_path, patch_set):
    return Unpacked(request.param, tmp_path / "with a space", patch_set.modules)


def version(text):
    """(0, 5, 4, 2) for 0.5.4.post2."""
    final, _, post = text.partition(".post")
    return (*(int(part) for part in final.split(".")), int(post or 0))


def wrapped_names(source):
    """Class.method of each tap in a patched file, and every class and method that the file has."""
    tree = ast.parse(source)
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    methods = {
        f"{name}.{item.name}"
        for name, node in classes.items()
        for item in node.body
        if isinstance(item, ast.FunctionDef)
    }
    taps = [
        ast.literal_eval(line.strip().rstrip(","))
        for line in source.splitlines()
        if line.startswith(" " * 12 + '\'{"tap"')
    ]
    return taps, methods | {f"{name}.forward" for name, node in classes.items() if node.bases}


@pytest.mark.parametrize("unpacked", [pytest.param(r, marks=marks(r), id=r) for r in RELEASES], indirect=True)
def test_apply_compile_check_and_restore(unpacked, project, here, request):
    release = request.node.callspec.id
    originals = unpacked.contents()
    done = patch.apply(project, here, [SET], sglang_path=str(unpacked.root))
    assert done.release == release
    assert done.files == unpacked.modules
    assert done.absent == (() if version(release) >= FIRST_WITH_CAPTURE else ("target-layers",))
    for module, data in unpacked.contents().items():
        compile(data, module, "exec")
        taps, methods = wrapped_names(data.decode())
        assert taps
        for tap in taps:
            assert any(f'"object": "{name}"' in tap for name in methods), tap
        assert find(data.decode()).original.encode() == originals[module]
    assert patch.status(project, here, sglang_path=str(unpacked.root)).state == "ours"
    patch.remove(project, here, sglang_path=str(unpacked.root))
    assert unpacked.contents() == originals
    status = patch.status(project, here, sglang_path=str(unpacked.root))
    assert status.state == "pristine"  # each file's sha256 equals the wheel's RECORD
    assert not any("source install" in note for note in status.notes)
