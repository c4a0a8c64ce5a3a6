"""The edge between Invoke and the flows: how a task is declared, and how every error leaves it."""

from __future__ import annotations

import errno
import functools
import os
import sys
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from fabric import task
from invoke.exceptions import Exit

from sglfab.errors import ExitCode, HostsideBugError, InputError, SglfabError

if TYPE_CHECKING:
    from .desk import Desk

LOCAL = "local"  # the label of this machine

COMMON_HELP = {
    "json": "one JSON object on stdout instead of text",
    "configs": "a team's own configs folder(s), searched first (or SGLFAB_CONFIGS)",
    "profile": "name of a profile (see `fab profiles`), or a path to one",
    "run": "the run with this id (see `fab runs`)",
    "port": "the run on this port",
    "set": "KEY=VALUE over the profile; VALUE is YAML, null deletes; repeatable",
    "release": "the SGLang release to render for (default: the host's)",
    "dry-run": "change nothing, print the plan",
    "takeover": "replace a live run of another operator",
    "deadline": "hard cap in seconds (default: none)",
    "pid": "a server that we did not start, by its main process",
    "yes": "do not ask",
    "via": "how the taps get in: file (footers in the installed files) or plugin (no file is touched)",
    "sglang-path": "the folder that holds sglang/ and its dist-info (default: of the profile's python)",
}


def verb(**options: Any) -> Callable[[Callable[..., None]], Any]:
    """Declare a task: flags only (positional arguments by name, no automatic short flags), help from one table.

    Without `positional=[]` Invoke would take an unknown flag for a positional value.
    """

    def declare(body: Callable[..., None]) -> Any:
        names = [name.strip("_").replace("_", "-") for name in _parameters(body)]
        own = options.pop("help", {})
        help_ = {name: own.get(name, COMMON_HELP.get(name, "")) for name in names}
        missing = [name for name, text in help_.items() if not text]
        if missing:
            raise TypeError(f"{body.__name__}: no help for {missing}")
        return task(
            positional=options.pop("positional", []),
            auto_shortflags=options.pop("auto_shortflags", False),
            help=help_,
            **options,
        )(_guarded(body))

    return declare


def open_desk(c: Any, **flags: Any) -> Desk:
    """The operator's desk. Imported here: `fab --list` needs none of what it needs."""
    from .desk import Desk

    return Desk.open(c, **flags)


def _parameters(body: Callable[..., None]) -> list[str]:
    code = body.__code__
    return list(code.co_varnames[1 : code.co_argcount + code.co_kwonlyargcount])


def _guarded(body: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(body)
    def guarded(c: Any, *args: Any, **kwargs: Any) -> None:
        as_json = bool(kwargs.get("json"))
        try:
            _refuse_bare_set()
            body(c, *args, **kwargs)
        except Exit:
            raise
        except SglfabError as error:
            raise leave(error, as_json=as_json) from None
        except KeyboardInterrupt:
            raise leave_interrupted(as_json=as_json) from None
        except BrokenPipeError:
            os._exit(ExitCode.OK)  # the reader of our stdout went away (`| head`): not an error
        except OSError as why:
            if why.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise leave(_as_error(why), as_json=as_json) from None
            what = f"the answer cannot be written: {why.strerror}"
            raise leave(InputError("disk-full", what, where="stdout"), as_json=False) from None
        except Exception as bug:
            if os.environ.get("SGLFAB_TRACEBACK"):
                raise
            raise leave(_as_error(bug), as_json=as_json) from None

    return guarded


def _refuse_bare_set() -> None:
    """A bare `--set` is our exit 2; Invoke would drop it without a word."""
    words = command_line()
    for word, following in zip(words, [*words[1:], ""], strict=True):
        if word == "--set" and "=" not in following:
            raise InputError(
                "bare-set", "--set needs a name, = and a value", where="--set", try_="--set args.tp-size=4"
            )


def command_line() -> list[str]:
    """The words after `fab`, as the running program got them."""
    from fabric.main import program

    return list(getattr(program, "argv", None) or sys.argv)[1:]


def command_prefix(host: str) -> tuple[list[str], str]:
    """The words with which a further command reaches the same host, and the namespace of our tasks ("" or "sgl.").

    Core flags (-S, -r, -i …) stay as they were typed; -H names that one host; -R goes.
    """
    from fabric.main import program

    core = getattr(program, "core", None)
    unparsed = list(getattr(core, "unparsed", None) or [])
    words = without_hosts(command_line()[: len(command_line()) - len(unparsed)]) if core else []
    where = [] if host == LOCAL else ["-H", host]
    namespace = unparsed[0].rpartition(".")[0] if unparsed else ""
    return ["fab", *words, *where], f"{namespace}." if namespace else ""


def without_hosts(words: list[str]) -> list[str]:
    """The words in front of a task without -H in any of its spellings, and without -R."""
    kept: list[str] = []
    skip = False
    for word in words:
        if skip or word in ("-R", "--dry") or word.startswith(("--hosts=", "-H")) or word == "--hosts":
            skip = not skip and word in ("-H", "--hosts")
            continue
        kept.append(word)
    return kept


def cli_hosts(c: Any) -> list[str]:
    """What `-H` named, in order and once each; empty without -H."""
    from fabric.main import program

    core = getattr(program, "core", None)
    given = core[0].args.hosts.value if core else getattr(c, "original_host", None)
    return list(dict.fromkeys(host.strip() for host in (given or "").split(",") if host.strip()))


def refuse_bad_hosts() -> None:
    """Refuse what -H names when it names no host. At load time: Fabric makes its connections before any task runs."""
    from fabric.main import program

    core = getattr(program, "core", None)
    given = core[0].args.hosts.value if core else None
    if not given:
        return
    from sglfab.transports.ssh_address import parse_address

    try:
        for host in given.split(","):
            parse_address(host.strip())
    except InputError as error:
        raise leave(error, as_json="--json" in command_line()) from None


def first_call() -> bool:
    """Whether this is a task's first call: Fabric calls it once per host of -H, one by one.

    Counted, since what Fabric makes of `user@host:port` cannot be compared with what was typed.
    """
    from fabric.main import program

    core = getattr(program, "core", None)
    given = (core[0].args.hosts.value if core else None) or ""
    turn = getattr(program, "sglfab_turn", 0)
    program.sglfab_turn = turn + 1
    return turn % len(given.split(",")) == 0


def leave(error: SglfabError, *, as_json: bool) -> Exit:
    """Show the error where it belongs; the Exit to raise."""
    from sglfab.report import errors, json_out

    if as_json:
        json_out.print_json(errors.error_json(error))
    else:
        errors.print_error(error)
    return Exit(code=int(error.exit_code))


def leave_interrupted(*, as_json: bool) -> Exit:
    """Ctrl-C before anything was asked of a host."""
    line = "interrupted before anything was done"
    if as_json:
        from sglfab.model import Verdict
        from sglfab.report import json_out

        json_out.print_json(Verdict("loading", notes=(line,)).to_json())
    return Exit(line, code=ExitCode.INTERRUPTED)


def _as_error(bug: Exception) -> SglfabError:
    frame = traceback.extract_tb(bug.__traceback__)[-1]
    return HostsideBugError(
        "bug",
        f"{type(bug).__name__}: {bug}",
        where=f"{frame.filename}:{frame.lineno}",
        try_="SGLFAB_TRACEBACK=1 fab … shows the traceback; please report it",
    )
