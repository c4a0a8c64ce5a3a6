"""What a source install has in the place of RECORD: the files as HEAD of its git tree has them."""

from __future__ import annotations

import hashlib
import os
import subprocess
from typing import Dict, Iterator, List, Optional, Tuple

_ANSWER_S = 20.0


def head_hashes(root: str, paths: List[str]) -> Tuple[Optional[Dict[str, str]], str]:
    """sha256 (hex) by `sglang/<path>` as HEAD has the files, of those that it has; None, and why, where git cannot say.

    Blobs are compared as they are stored, without filters: a filter is a program that the tree's own config names.
    A tree of another user is refused by git itself, and stays refused.
    """
    asked = "".join("HEAD:./sglang/%s\n" % path for path in paths)
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        done = subprocess.run(
            ["git", "-C", root, "cat-file", "--batch"],
            input=asked.encode("utf-8", "surrogateescape"),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            timeout=_ANSWER_S,
            env=env,
            check=False,
        )
    except FileNotFoundError:
        return None, "no git on this host"
    except (OSError, subprocess.TimeoutExpired) as error:
        return None, str(error)
    if done.returncode != 0:
        return None, done.stderr.decode("utf-8", "replace").strip().split("\n")[0]
    answers = _hashes(done.stdout)
    found = {"sglang/" + path: next(answers, None) for path in paths}
    hashes = {path: digest for path, digest in found.items() if digest}
    return (hashes, "") if hashes else (None, "git does not track these files")


def _hashes(answer: bytes) -> Iterator[Optional[str]]:
    """Of `<name> blob <size>\\n<bytes>\\n` for each question in turn; None for `<question> missing\\n`."""
    while answer:
        head, _, rest = answer.partition(b"\n")
        size = head.rsplit(b" ", 1)[-1]
        if not size.isdigit():
            yield None
            answer = rest
        else:
            yield hashlib.sha256(rest[: int(size)]).hexdigest()
            answer = rest[int(size) + 1 :]
