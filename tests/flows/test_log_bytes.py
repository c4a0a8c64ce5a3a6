"""What can be read as a log, and what is said of what cannot. Files that only look odd are read like any other."""

from __future__ import annotations

import gzip
import lzma
import os
import threading
import time

import pytest

from sglfab.errors import InputError
from sglfab.flows.log_bytes import read

TEXT = b"[2026-12-01 10:00:00] The server is fired up and ready to roll!\n"
READ = {
    "a log": TEXT,
    "nothing yet": b"",
    "bytes that are no text": bytes(range(256)) * 99,
    "zeros of a log that was truncated while it was written": bytes(5000) + TEXT,
    "more than one piece": TEXT * 40_000,
}


@pytest.mark.parametrize("content", READ.values(), ids=READ.keys())
def test_is_read_as_it_is(tmp_path, content):
    (tmp_path / "log").write_bytes(content)
    assert b"".join(read(str(tmp_path / "log"), None)) == content


def test_a_pipe_whose_writer_takes_its_time():
    """`fab diagnose --log <(slow command)`: the shell hands over /dev/fd/63."""
    reader, writer = os.pipe()

    def write() -> None:
        time.sleep(0.2)
        with open(writer, "wb") as out:
            out.write(TEXT)

    threading.Thread(target=write).start()
    try:
        assert b"".join(read(f"/dev/fd/{reader}", None)) == TEXT
    finally:
        os.close(reader)


def test_a_pipe_without_a_writer_is_empty(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    assert list(read(str(tmp_path / "pipe"), None)) == []


REFUSED = {
    "a folder": (None, "log-unreadable", "ls -t "),
    "gzip": (gzip.compress(TEXT), "log-compressed", "zcat "),
    "xz": (lzma.compress(TEXT), "log-compressed", "xzcat "),
    "zstd": (b"\x28\xb5\x2f\xfd" + TEXT, "log-compressed", "zstdcat "),
    "bzip2": (b"BZh91AY" + TEXT, "log-compressed", "bzcat "),
}


@pytest.mark.parametrize(("content", "code", "try_"), REFUSED.values(), ids=REFUSED.keys())
def test_is_refused(tmp_path, content, code, try_):
    path = tmp_path / "log"
    path.mkdir() if content is None else path.write_bytes(content)
    with pytest.raises(InputError) as caught:
        list(read(str(path), None))
    assert (caught.value.code, caught.value.where) == (code, str(path))
    assert caught.value.try_.startswith(try_ + str(path))
