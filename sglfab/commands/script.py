"""launch.sh and start.py. Every value goes through the shell filter; a name that a template misspells is an error."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

from jinja2 import Environment, StrictUndefined

from sglfab.model import Plan
from sglfab.project import Project

MODULE = "sglang.launch_server"
PLACEHOLDER = "SGLFAB_SECRET:"


def quoted_path(path: str) -> str:
    """A path as one word; `~/` in front means the home folder on the host."""
    if path == "~" or path.startswith("~/"):
        return '"$HOME"' + (shlex.quote(path[1:]) if path[1:] else "")
    return shlex.quote(path)


def commented(text: str) -> str:
    """Text that stays on the line of its comment."""
    return " ".join(str(text).split())


def unproxied_before(env: Mapping[str, str]) -> str:
    """What NO_PROXY holds before ours is added, as shell text: what the profile says, else what the host has."""
    for name in ("no_proxy", "NO_PROXY"):
        if name in env:
            return shlex.quote(env[name])
    return '"${no_proxy:-${NO_PROXY:-}}"'


def _environment() -> Environment:
    environment = Environment(
        undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True, autoescape=False
    )
    environment.filters.update(word=shlex.quote, path=quoted_path, comment=commented, python=repr)
    return environment


def launch_script(
    project: Project, plan: Plan, flags: Sequence[Sequence[str]], *, limits: Sequence[tuple[str, str]], loopback: str
) -> str:
    """launch.sh. flags: the words of each flag, one line each. limits: (letter of ulimit, value)."""
    template = _environment().from_string(project.template("launch.sh.j2"))
    return template.render(
        plan=plan,
        starter=plan.starter is not None,
        setup=plan.setup,
        cwd=plan.cwd,
        ulimits=limits,
        env=plan.env,
        python=plan.python,
        flags=flags,
        loopback=loopback,
        unproxied=unproxied_before(dict(plan.env)),
    )


def start_program(project: Project) -> str:
    """start.py, which puts the secrets into the arguments."""
    template = _environment().from_string(project.template("start.py.j2"))
    return template.render(module=MODULE, placeholder=PLACEHOLDER)
