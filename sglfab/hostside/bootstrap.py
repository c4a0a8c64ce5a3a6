"""The first lines that run on a host, sent as `python -c`: find or receive the bundle, check its hash, become it.

Must parse on Python 2.7, only to say that it is too old. argv: this text, the bundle's sha256, and the state
folder or "" in base64: between single quotes csh still acts on `!`.
Says on stdout one of {"error": {...}}, {"have": sha, "gap": null or text}, or {"need": sha}; after "need" it reads 16
digits (the size) and so many bytes, then says "have". Reads never a byte more: what follows is the request.
"""

import base64
import hashlib
import json
import os
import sys

OLDEST = (3, 8)


def say(message):
    # type: (object) -> None
    # The first newline ends what a login shell may have printed before us.
    os.write(1, ("\n" + json.dumps(message) + "\n").encode("ascii"))


def fail(code, what, where, try_, exit_code):
    # type: (str, str, str, str, int) -> None
    say({"error": {"code": code, "what": what, "where": where, "try": try_, "exit": exit_code}})
    sys.exit(exit_code)


def check_python():
    # type: () -> None
    if sys.version_info < OLDEST:
        what = "Python %d.%d on the host is too old: 3.8 or newer is needed" % sys.version_info[:2]
        fail("python-too-old", what, sys.executable, "set `python:` in the profile to SGLang's own interpreter", 2)


def folder_of(state):
    # type: (str) -> str
    state = state or os.environ.get("SGLFAB_STATE_DIR") or os.path.join("~", ".sglfab")
    return os.path.join(os.path.expanduser(state), "bin")


def whole(path, sha):
    # type: (str, str) -> bool
    """Whether the file is there and is exactly what the operator's side built."""
    try:
        with open(path, "rb") as f:
            return hashlib.sha256(f.read()).hexdigest() == sha
    except (IOError, OSError):
        return False


def make_private(folder):
    # type: (str) -> None
    """A folder that only we can write to: who else could, could swap the file after its hash was checked."""
    if not os.path.isabs(folder):
        raise OSError("no home folder: " + folder)
    if not os.path.isdir(folder):
        os.makedirs(folder, 0o700)
    found = os.stat(folder)
    if found.st_uid != os.geteuid() or found.st_mode & 0o022:
        raise OSError(folder + " can be written by others")


def is_private(folder):
    # type: (str) -> bool
    try:
        make_private(folder)
    except (IOError, OSError):
        return False
    return True


def read_exactly(size):
    # type: (int) -> bytes
    parts = []
    while size:
        part = os.read(0, size)
        if not part:
            sys.exit(0)  # the operator's side went away
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def receive(sha):
    # type: (str) -> bytes
    say({"need": sha})
    data = read_exactly(int(read_exactly(16)))
    if hashlib.sha256(data).hexdigest() != sha:
        fail("bundle-damaged", "the program arrived damaged on the host", sha, "run the command again", 7)
    return data


def write_all(fd, data):
    # type: (int, bytes) -> None
    while data:
        data = data[os.write(fd, data) :]


def store(path, data):
    # type: (str, bytes) -> None
    """All of it or nothing, also when two calls store at once or the home is shared by many hosts."""
    make_private(os.path.dirname(path))
    draft = "%s.%s.%d" % (path, os.urandom(6).hex(), os.getpid())
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        try:
            write_all(fd, data)
            os.fsync(fd)
        finally:
            os.close(fd)
        os.rename(draft, path)
    except BaseException:
        os.unlink(draft)
        raise


def hold(data):
    # type: (bytes) -> str
    """The bundle in memory, under a path that survives exec."""
    fd = os.memfd_create("sglfab-hostside", 0)
    write_all(fd, data)
    return "/proc/self/fd/%d" % fd


def placed(sha, state):
    # type: (str, str) -> tuple[str, str | None]
    """(path of the bundle, why it could not be kept on disk or None)."""
    path = os.path.join(folder_of(state), "hostside-%s.pyz" % sha)
    if is_private(os.path.dirname(path)) and whole(path, sha):
        return path, None
    data = receive(sha)
    try:
        store(path, data)
    except (IOError, OSError) as why:
        return hold(data), "the program is sent anew with every call: %s" % why
    return path, None


def main(sha, state):
    # type: (str, str) -> None
    check_python()
    path, gap = placed(sha, state)
    say({"have": sha, "gap": gap})
    os.execv(sys.executable, [sys.executable, path])


if __name__ == "__main__":
    main(sys.argv[2], os.fsdecode(base64.b64decode(sys.argv[3])) if sys.version_info >= OLDEST else "")
