"""Whether the schedulers of an install load plugins: read in its source, whatever the release calls itself."""

from __future__ import annotations

import ast
import os
import warnings
from typing import Optional

GROUP = "sglang.srt.plugins"
# 0.5.11 to 0.5.23 have both; before, there is no such folder.
LOADER, SCHEDULER, ENTRY = "srt/plugins/__init__.py", "srt/managers/scheduler.py", "run_scheduler_process"


def without_plugins(root: str) -> Optional[str]:
    """Why a server of this install would load no plugin in its schedulers, as the end of a sentence; None: it would."""
    loader = _parsed(os.path.join(root, "sglang", LOADER))
    if not any(isinstance(node, ast.Constant) and node.value == GROUP for node in ast.walk(loader)):
        return "knows no plugins (they came with 0.5.11)"
    if not _loads_plugins(_parsed(os.path.join(root, "sglang", SCHEDULER))):
        return "loads no plugins in its schedulers"
    return None


def _loads_plugins(scheduler: ast.Module) -> bool:
    return any(
        isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "load_plugins"
        for function in scheduler.body
        if isinstance(function, ast.FunctionDef) and function.name == ENTRY
        for call in ast.walk(function)
    )


def _parsed(path: str) -> ast.Module:
    """An empty module for a file that is not there or is no Python: it loads nothing."""
    try:
        with open(path, "rb") as file, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(file.read())
    except (OSError, SyntaxError, ValueError):
        return ast.Module([], [])
