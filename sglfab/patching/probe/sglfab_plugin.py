"""The taps of a patch set as an SGLang plugin: an entry point of the group `sglang.srt.plugins` names `activate`.

It lies with its sglfab_plugin.json in a folder that only the PYTHONPATH of a launched server names. SGLang loads
plugins in every process of a server; we act in its schedulers alone, and import nothing of SGLang: a module is wrapped
when it is there, or at the end of its own import. So launcher and detokenizer pay for this file and no more.
Standard library, Python 3.8 syntax. Never raises into the server.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import sys
from typing import Any, Callable, Container, Optional

SCHEDULER = "run_scheduler_process"  # who calls load_plugins() in a scheduler, in 0.5.11 to 0.5.23


def activate() -> None:
    """Wrap what the set names, in a scheduler of a server that was launched to trace."""
    if not os.environ.get("SGLFAB_TRACE_DIR") or not called_by(SCHEDULER):
        return
    try:
        Plugin().wrap_all()
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a SystemExit would end the scheduler without a word
        say(error)


def called_by(name: str) -> bool:
    """Whether a function of that name runs below us. The process has no title yet that would tell its role."""
    frame: Any = sys._getframe()
    while frame is not None and frame.f_code.co_name != name:
        frame = frame.f_back
    return frame is not None


def say(error: BaseException) -> None:
    with contextlib.suppress(Exception):  # a closed stderr is no reason to disturb the server
        sys.stderr.write("sglfab: no trace by the plugin: %r\n" % error)
        sys.stderr.flush()


class Plugin:
    """The set of this folder, and the probe that it is given to."""

    def __init__(self) -> None:
        with open(os.path.splitext(os.path.abspath(__file__))[0] + ".json", encoding="utf-8") as file:
            shape = json.load(file)
        self._about, self._taps = shape["about"], shape["taps"]
        self._probe = load_probe(os.environ["SGLFAB_PROBE"])

    def wrap_all(self) -> None:
        """Now what is imported already, and the rest when it is."""
        paths = {module_name(path): path for path in self._taps}
        later = {name: path for name, path in paths.items() if name not in sys.modules}
        if later:
            sys.meta_path.insert(0, AfterImport(later, lambda name: self._wrap(name, later[name])))
        for name in paths.keys() - later.keys():
            self._wrap(name, paths[name])

    def _wrap(self, name: str, path: str) -> None:
        self._probe.install(vars(sys.modules[name]), path, self._about, self._taps[path])


def module_name(path: str) -> str:
    """srt/models/llama_eagle3.py → sglang.srt.models.llama_eagle3"""
    return "sglang." + path[: -len(".py")].replace("/", ".")


def load_probe(path: str) -> Any:
    spec = importlib.util.spec_from_file_location("sglfab_probe", path)
    if spec is None or spec.loader is None:
        raise ImportError("no probe in %s" % path)
    probe = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(probe)
    sys.modules["sglfab_probe"] = probe
    return probe


class AfterImport:
    """A finder that finds nothing itself: it has `then` called with a module's name when that module was executed."""

    def __init__(self, names: Container[str], then: Callable[[str], None]) -> None:
        self._names, self._then = names, then

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Optional[Any]:
        spec = self._found(name, path, target) if name in self._names else None
        if spec is not None and spec.loader is not None:
            self._follow(spec.loader, name)
        return spec

    def _found(self, name: str, path: Any, target: Any) -> Optional[Any]:
        finders = (finder for finder in sys.meta_path if finder is not self and hasattr(finder, "find_spec"))
        specs = (finder.find_spec(name, path, target) for finder in finders)
        return next((spec for spec in specs if spec is not None), None)

    def _follow(self, loader: Any, name: str) -> None:
        execute = loader.exec_module

        def exec_module(module: Any) -> None:
            execute(module)
            try:
                self._then(name)
            except KeyboardInterrupt:
                raise
            except BaseException as error:
                say(error)

        loader.exec_module = exec_module
