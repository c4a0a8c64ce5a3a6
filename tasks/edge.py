"""The edge between Invoke and the flows: how a task is declared, and how every error leaves it."""

from __future__ import annotations

import errno
import functools
import os
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from fabric import task
from invoke.exceptions import Exit

from sglfab.errors import ExitCode, HostsideBugError, InputError, SglfabError

from . import pipes
from .commandline import command_line, core_flag, runs_nothing

if TYPE_CHECKING:
    from .desk import Desk

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
        pipes.open_streams()
        try:
            _refuse_bare_set()
            _refuse_empty(kwargs)
            with pipes.sigterm_interrupts():
                body(c, *args, **kwargs)
        except Exit:
            raise
        except SglfabError as error:
            raise leave(error, as_json=as_json) from None
        except KeyboardInterrupt:
            raise leave_interrupted(as_json=as_json) from None
        except BrokenPipeError:  # nobody reads how it goes on: as if it were interrupted
            pipes.forget_reader()
            raise Exit(code=ExitCode.INTERRUPTED) from None
        except OSError as why:
            if why.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise leave(_as_error(why), as_json=as_json) from None
            what = f"the answer cannot be written: {why.strerror}"
            raise leave(InputError("disk-full", what, where="stdout", try_="df -h"), as_json=False) from None
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


def _refuse_empty(flags: dict[str, Any]) -> None:
    """`--log "$LOG"` of a script whose variable is unset: whatever was meant, it was not what no flag at all means."""
    for name, value in flags.items():
        if value == "":
            flag = "--" + name.strip("_").replace("_", "-")
            what = f"{flag} got an empty value"
            raise InputError("empty-value", what, where=flag, try_=f"{flag} VALUE, or nothing of it")


def refuse_bad_start() -> None:
    """Refuse what Fabric acts upon before any task runs, and would end in a traceback over. At load time."""
    if runs_nothing():
        pipes.end_quietly_without_reader()
        return
    try:
        _refuse_bad_hosts(core_flag("hosts"))
        _refuse_bad_ssh_config(core_flag("ssh-config"))
    except InputError as error:
        raise leave(error, as_json="--json" in command_line()) from None


def _refuse_bad_hosts(given: str | None) -> None:
    """Also `-H ""`, as a script types it whose variable is unset: this machine was not meant."""
    if given is None:
        return
    from sglfab.transports.ssh_address import parse_address

    for host in given.split(","):
        parse_address(host.strip())


def _refuse_bad_ssh_config(given: str | None) -> None:
    from sglfab.transports.ssh_files import refuse_unreadable

    refuse_unreadable(given)


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
