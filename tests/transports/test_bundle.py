"""The one file that goes to a host."""

from __future__ import annotations

import base64
import hashlib
import io
import re
import shlex
import zipfile
from importlib import resources
from pathlib import Path

import pytest

from sglfab.transports.bundle import bootstrap_argv, bundle, pack, sources


def archive() -> zipfile.ZipFile:
    return zipfile.ZipFile(io.BytesIO(bundle().data))


def test_it_is_named_by_the_hash_of_its_bytes() -> None:
    assert bundle().sha == hashlib.sha256(bundle().data).hexdigest()


def test_every_python_file_of_hostside_is_in_it_and_nothing_else_is() -> None:
    folder = Path(str(resources.files("sglfab.hostside")))
    here = {f"sglfab/hostside/{f.relative_to(folder)}" for f in folder.rglob("*.py")}
    assert set(archive().namelist()) == here | {"__main__.py", "sglfab/__init__.py"}


def test_what_is_in_it_is_what_is_in_the_checkout() -> None:
    folder = resources.files("sglfab.hostside")
    assert archive().read("sglfab/hostside/failure.py") == folder.joinpath("failure.py").read_bytes()


def test_the_order_of_the_files_does_not_change_the_bytes() -> None:
    files = sources()
    assert pack(dict(reversed(files.items()))) == pack(files)


def test_no_time_of_the_build_is_in_it() -> None:
    assert {entry.date_time for entry in archive().infolist()} == {(1980, 1, 1, 0, 0, 0)}


def test_one_changed_byte_makes_it_another_program() -> None:
    files = sources()
    changed = {**files, "sglfab/hostside/failure.py": files["sglfab/hostside/failure.py"] + b"\n"}
    assert pack(changed).sha != pack(files).sha


def test_the_framed_bytes_say_their_length_first() -> None:
    framed = bundle().framed()
    assert int(framed[:16]) == len(framed) - 16
    assert framed[16:] == bundle().data


@pytest.mark.parametrize("word", [2, 3, 4, 5], ids=["the loader", "the bootstrap", "the hash", "the state folder"])
def test_no_login_shell_finds_anything_to_expand_in(word: int) -> None:
    # Between single quotes, csh still acts on ! and newlines, fish on backslashes.
    text = bootstrap_argv("python3", "ab12", "/it's\n!here\\")[word]
    assert not re.search(r"[!'\\\n\r]", text)


def test_the_argv_survives_the_quoting_of_a_shell() -> None:
    argv = bootstrap_argv("/opt/my venv/bin/python", "ab12", "/data/it's here/$(id)")
    assert tuple(shlex.split(shlex.join(argv))) == argv


def test_the_bootstrap_in_the_argv_is_the_file_of_the_checkout() -> None:
    sent = base64.b64decode(bootstrap_argv("python3", "ab12", None)[3])
    assert sent == resources.files("sglfab.hostside").joinpath("bootstrap.py").read_bytes()
