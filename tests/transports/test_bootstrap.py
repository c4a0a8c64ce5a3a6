"""What happens on a host before hostside runs: the bundle is found, or asked for, checked, and kept."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from sglfab.transports.bundle import bootstrap_argv, bundle
from sglfab.transports.host import Host
from sglfab.transports.local import LocalTransport

REQUEST = b'{"op": "ping", "state_dir": null, "echo": "here"}\n'


def converse(sent: bytes, state: str, *, cwd: Path | None = None, env: dict[str, str] | None = None) -> list[dict]:
    """Everything that the bootstrap and what it became said, for all that is sent at once."""
    argv = bootstrap_argv(sys.executable, bundle().sha, state)
    done = subprocess.run(argv, input=sent, capture_output=True, cwd=cwd, env=env, timeout=60, check=False)
    return [json.loads(line) for line in done.stdout.split(b"\n") if line]


def stored(state: Path) -> Path:
    return state / "bin" / f"hostside-{bundle().sha}.pyz"


def keep_bundle(state: Path, data: bytes) -> Path:
    stored(state).parent.mkdir(parents=True)
    stored(state).write_bytes(data)
    return stored(state)


def test_a_missing_bundle_is_asked_for_kept_and_run_with_the_rest_of_stdin(state: Path) -> None:
    need, have, reply = converse(bundle().framed() + REQUEST, str(state))
    assert need == {"need": bundle().sha}
    assert have == {"have": bundle().sha, "gap": None}
    assert reply["reply"]["echo"] == "here"
    assert stored(state).read_bytes() == bundle().data


def test_it_is_kept_for_the_owner_only(state: Path) -> None:
    converse(bundle().framed() + REQUEST, str(state))
    assert stat.S_IMODE(stored(state).stat().st_mode) == 0o600
    assert stat.S_IMODE(stored(state).parent.stat().st_mode) == 0o700


def test_no_draft_is_left_beside_it(state: Path) -> None:
    converse(bundle().framed() + REQUEST, str(state))
    assert list(stored(state).parent.iterdir()) == [stored(state)]


def test_a_bundle_that_is_there_is_not_asked_for(state: Path) -> None:
    keep_bundle(state, bundle().data)
    have, reply = converse(REQUEST, str(state))
    assert have == {"have": bundle().sha, "gap": None}
    assert reply["reply"]["echo"] == "here"


DAMAGED = [
    ("cut short by a full disk", bundle().data[:-100]),
    ("with one byte changed", bundle().data[:-1] + bytes([bundle().data[-1] ^ 1])),
    ("empty", b""),
]


@pytest.mark.parametrize("data", [c[1] for c in DAMAGED], ids=[c[0] for c in DAMAGED])
def test_a_damaged_bundle_is_never_run_but_replaced(state: Path, data: bytes) -> None:
    keep_bundle(state, data)
    need, _have, reply = converse(bundle().framed() + REQUEST, str(state))
    assert need == {"need": bundle().sha}
    assert reply["reply"]["echo"] == "here"
    assert stored(state).read_bytes() == bundle().data


def test_a_bundle_that_arrives_damaged_is_an_error_and_is_not_kept(state: Path) -> None:
    framed = bytearray(bundle().framed())
    framed[100] ^= 1
    _need, error = converse(bytes(framed) + REQUEST, str(state))
    assert error["error"]["code"] == "bundle-damaged"
    assert not stored(state).exists()


def test_a_connection_that_breaks_in_the_middle_leaves_nothing(state: Path) -> None:
    assert converse(bundle().framed()[:5000], str(state)) == [{"need": bundle().sha}]
    assert not stored(state).exists()


def unwritable(tmp_path: Path) -> str:
    (tmp_path / "file").write_text("")
    return str(tmp_path / "file" / "state")


def open_to_others(tmp_path: Path) -> str:
    (tmp_path / "shared" / "bin").mkdir(parents=True)
    (tmp_path / "shared" / "bin").chmod(0o777)
    return str(tmp_path / "shared")


@pytest.mark.parametrize(
    ("make_state", "why"),
    [(unwritable, "Not a directory"), (open_to_others, "can be written by others"), (lambda _: "relative", "no home")],
    ids=["a folder that cannot be made", "a folder in which others could swap the file", "no home folder at all"],
)
def test_where_it_cannot_be_kept_it_runs_from_memory_and_says_so(tmp_path: Path, make_state, why: str) -> None:
    _need, have, reply = converse(bundle().framed() + REQUEST, make_state(tmp_path), cwd=tmp_path)
    assert why in have["gap"]
    assert reply["reply"]["echo"] == "here"


def test_a_full_disk_is_no_end(small_disk: Path) -> None:
    _need, have, reply = converse(bundle().framed() + REQUEST, str(small_disk))
    assert "No space left" in have["gap"]
    assert reply["reply"]["echo"] == "here"
    assert list((small_disk / "bin").iterdir()) == []


@pytest.fixture
def small_disk(tmp_path: Path):
    """A file system with less room than the bundle needs."""
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16k,mode=700", "none", str(folder)], check=False)
    if mounted.returncode != 0:
        pytest.skip("file systems cannot be mounted here")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_bundle_in_a_folder_of_others_is_not_trusted(tmp_path: Path) -> None:
    state = Path(open_to_others(tmp_path))
    stored(state).write_bytes(bundle().data)
    assert converse(bundle().framed() + REQUEST, str(state))[0] == {"need": bundle().sha}


def test_modules_in_the_current_folder_are_not_imported(tmp_path: Path, state: Path) -> None:
    for name in ("json", "base64", "os", "hashlib", "threading", "sglfab"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('the wrong module')")
    *_, reply = converse(bundle().framed() + REQUEST, str(state), cwd=tmp_path)
    assert reply["reply"]["echo"] == "here"


PLACES = [
    ("the state folder that was asked for", {"SGLFAB_STATE_DIR": "env"}, "asked", "asked"),
    ("that of the host's environment", {"SGLFAB_STATE_DIR": "env"}, "", "env"),
    ("the home", {}, "", "home/.sglfab"),
]


@pytest.mark.parametrize(("env", "asked", "place"), [c[1:] for c in PLACES], ids=[c[0] for c in PLACES])
def test_it_is_kept_in(tmp_path: Path, env: dict[str, str], asked: str, place: str) -> None:
    env = {name: str(tmp_path / value) for name, value in env.items()}
    where = str(tmp_path / asked) if asked else ""
    converse(
        bundle().framed() + REQUEST, where, env={**env, "HOME": str(tmp_path / "home"), "PATH": os.environ["PATH"]}
    )
    assert stored(tmp_path / place).exists()


def test_two_hosts_that_share_a_home_keep_one_bundle(state: Path) -> None:
    argv = bootstrap_argv(sys.executable, bundle().sha, str(state))
    pipe = subprocess.PIPE
    both = [subprocess.Popen(argv, stdin=pipe, stdout=pipe) for _ in range(2)]
    for one in both:
        assert one.stdout.readline() == b"\n"
        assert json.loads(one.stdout.readline()) == {"need": bundle().sha}
    said = [one.communicate(bundle().framed() + REQUEST, timeout=60)[0] for one in both]
    assert all(b'"echo":"here"' in text for text in said)
    assert list(stored(state).parent.iterdir()) == [stored(state)]


def test_the_gap_reaches_whoever_calls(tmp_path: Path) -> None:
    host = Host(LocalTransport(), python=sys.executable, state_dir=unwritable(tmp_path))
    host.call("ping")
    host.call("ping")
    assert len(host.gaps) == 1
    assert "sent anew with every call" in host.gaps[0]


def test_no_gap_without_reason(local_host: Host) -> None:
    local_host.call("ping")
    assert local_host.gaps == ()
