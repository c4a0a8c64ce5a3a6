"""Profile → Plan: argv, environment, launch.sh. `render`, `explain_render`."""

from sglfab.commands.explaining import Row, explain_render
from sglfab.commands.planning import render

__all__ = ["Row", "explain_render", "render"]
