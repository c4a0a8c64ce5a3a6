"""For a team's own fabfile: our tasks as a collection, wherever the clone is, beside a team's own `tasks`."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from sglfab.errors import InputError

PACKAGE = "sglfab_tasks"  # under a name of its own: the team may have a package `tasks` too


def collection(clone: str | Path) -> Any:
    """The Invoke collection of the clone's tasks, for `Collection.add_collection(…)`.

    Raises InputError not-a-clone when the folder holds no tasks/.
    """
    return _tasks_package(Path(clone).expanduser().resolve()).namespace


def _tasks_package(root: Path) -> ModuleType:
    init = root / "tasks" / "__init__.py"
    spec = importlib.util.spec_from_file_location(PACKAGE, init, submodule_search_locations=[str(init.parent)])
    if not init.is_file() or spec is None or spec.loader is None:
        raise InputError("not-a-clone", f"no tasks in {root}", where=str(root), try_="the folder that holds fabfile.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[PACKAGE] = module
    spec.loader.exec_module(module)
    return module
