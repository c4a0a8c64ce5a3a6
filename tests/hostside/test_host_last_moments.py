"""A process that ends in the moment after it got its name, before the watch has seen the name."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from sglfab.hostside.family import Server
from sglfab.hostside.processes import Ident, look
from sglfab.hostside.watch_processes import ProcessWatch

# Starts a child that, told to on stdin, takes a name and is killed at once; nobody asks how it ended.
MAIN = """
import subprocess, sys, time
child = '''
import os, sys
sys.stdin.readline()
open("/proc/self/comm", "w").write(sys.argv[1])
os.kill(os.getpid(), 9)
'''
kid = subprocess.Popen([sys.executable, "-c", child, sys.argv[1]], stdin=subprocess.PIPE)
print(kid.pid, flush=True)
sys.stdin.readline()
kid.stdin.write(b"go\\n")
kid.stdin.flush()
time.sleep(600)
"""
CASES = {
    "sglang::schedul": "scheduler",
    "sglang::detoken": "detokenizer",
    "sglang::data_pa": "other",
    "pt_main": "other",
}


@pytest.fixture
def main(request):
    words = [sys.executable, "-c", MAIN, request.param]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True) as process:
        yield process
        process.kill()


@pytest.mark.parametrize(("main", "role"), CASES.items(), indirect=["main"], ids=CASES)
def test_its_zombie_tells_who_it_was(main, role, eventually):
    told = []
    kid = int(main.stdout.readline())
    watch = ProcessWatch(Server(Ident(main.pid, look(main.pid).start)), lambda _, data: told.append(data), lambda: None)
    watch.poll()
    assert {one["pid"] for one in told[0]["alive"]} == {main.pid, kid}
    main.stdin.write(b"go\n")
    main.stdin.flush()
    eventually(lambda: look(kid).dead)
    assert Path(f"/proc/{kid}/cmdline").read_bytes() == b""
    eventually(lambda: watch.poll() or told[-1]["gone"])
    assert [(one["pid"], one["role"]) for one in told[-1]["gone"]] == [(kid, role)]
