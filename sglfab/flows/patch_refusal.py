"""Why an install is not patched, and what the operator can do instead."""

from __future__ import annotations

import shlex
from collections.abc import Collection

from sglfab.errors import PatchError
from sglfab.patching.installed import DRIFTED, FOREIGN, OURS
from sglfab.patching.planning import Install, Refused

VIA_PLUGIN = "fab launch --profile NAME --via plugin"


def conflict(refused: Refused, install: Install) -> PatchError:
    """The error of a plan that was refused."""
    first, *others = refused.conflicts.items()
    path, found = first
    more = "".join(f"; {other}: {reason.reason}" for other, reason in others)
    if install.states[path].kind == OURS and install.manifest and install.manifest.operator:
        more += f" (applied by {install.manifest.operator})"
    nearest = f"nearest: {', '.join(found.sites)}; " if found.sites else ""
    return PatchError(
        "patch-conflict",
        f"{path}: {found.reason}{more}",
        where=f"{install.root}/sglang/{path} (SGLang {install.release})",
        try_=f"{nearest}nothing was written; fab patch-status; {_way_out(install, path)}",
    )


def _way_out(install: Install, path: str) -> str:
    """What brings the file back, then the way around it."""
    state, file = install.states[path], install.file(path)
    if state.kind == OURS and file.writable:
        return "fab unpatch-debug"
    ways = [_as_released(install)] if state.kind in (FOREIGN, DRIFTED) and install.record else []
    if (state.kind == FOREIGN or not file.writable or file.link) and plugin_is_possible(install):
        ways.append(f"or trace without touching a file: {VIA_PLUGIN}")
    return "; ".join(ways) or "docs/runbooks/read-the-debug-trace.md"


def plugin_is_possible(install: Install) -> bool:
    """A footer that is there would trace beside the plugin."""
    return not install.no_plugins and not {state.kind for state in install.states.values()} & {OURS, DRIFTED}


def _as_released(install: Install) -> str:
    if install.editable:
        return f"git -C {shlex.quote(install.root)} stash, or a commit of the edit, makes it HEAD's"
    return f"a reinstall of the same wheel (pip install --force-reinstall --no-deps) brings back {install.release}"


def refuse_while_starting(install: Install, replaces: Collection[str]) -> None:
    """Raises PatchError patch-server-starting. replaces: runs about to be stopped, which may still be starting."""
    busy = [server for server in install.servers if server.starting and server.run not in replaces]
    if busy:
        what = f"{busy[0].name} is starting from this install right now: half of it would import other files"
        plugin = f", or touch no file: {VIA_PLUGIN}" if plugin_is_possible(install) else ""
        try_ = f"wait until it is ready (fab wait-health), or stop it{plugin}"
        raise PatchError("patch-server-starting", what, where=install.root, try_=try_)


def shared_note(install: Install) -> tuple[str, ...]:
    """Where others run from the install too: that there is a way which touches no file of it."""
    strangers = {server.user for server in install.servers if server.user not in (None, install.user)}
    owners = {file.owner for file in install.files if file.owner and file.owner != install.user}
    who = sorted(strangers) or sorted(owners)
    if not who or not plugin_is_possible(install):
        return ()
    why = f"{', '.join(map(str, who))} {'runs a server from it' if strangers else 'owns it'}"
    return (f"this install is shared ({why}); {VIA_PLUGIN} traces without touching it",)
