"""A patch set against the sources of a release, with nothing installed: what fits, and what it would leave out."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from sglfab.model import Json
from sglfab.patching.fitting import Absent, Fitting, Found, Misfit, fit_set, parse
from sglfab.patching.footer import append
from sglfab.patching.shapes import Missing, method_named
from sglfab.patching.taps import PatchSet, Tap

FITS, ABSENT, REFUSED = "fits", "absent", "refused"


@dataclass(frozen=True)
class TapCheck:
    """state: fits, absent (not in this release) or refused. where: its site, or why there is none; nearest: best first.

    leaves_out: names of the tap's values and tensors whose argument or local this release does not have.
    draft: the architectures that ask for the tap; empty: it is always in.
    """

    tap: str
    module: str
    state: str
    where: str
    nearest: tuple[str, ...] = ()
    leaves_out: tuple[str, ...] = ()
    draft: tuple[str, ...] = ()

    def to_json(self) -> Json:
        lists = {"nearest": list(self.nearest), "leaves_out": list(self.leaves_out), "draft": list(self.draft)}
        return {"tap": self.tap, "module": self.module, "state": self.state, "where": self.where, **lists}


def check_set(
    texts: Mapping[str, str | None], patch_set: PatchSet, *, release: str, modules: Sequence[str] = ()
) -> tuple[TapCheck, ...]:
    """Each tap of the set. texts: the source of each of its files, None for one that the release does not have.

    modules: all files of the release, where they are known: the nearest to one that is not there.
    """
    fitted = fit_set(texts, patch_set, release=release)
    broken = dict(_broken(texts, patch_set, fitted))
    checked = (_check(one, texts, broken.get(one.tap.module)) for one in fitted)
    return tuple(replace(c, nearest=_near(c.module, modules)) if texts[c.module] is None else c for c in checked)


def _near(module: str, modules: Sequence[str]) -> tuple[str, ...]:
    """Files of the same name, then of a like path."""
    name = module.rpartition("/")[2]
    same = [other for other in modules if other.rpartition("/")[2] == name]
    return tuple(dict.fromkeys([*same, *difflib.get_close_matches(module, modules, n=3, cutoff=0.7)]))[:3]


def _check(fitting: Fitting, texts: Mapping[str, str | None], broken: str | None) -> TapCheck:
    tap = fitting.tap
    named = partial(TapCheck, tap.tap, tap.module, draft=tap.draft)
    match fitting:
        case Found() if broken:
            return named(state=REFUSED, where=broken)
        case Found():
            return named(state=FITS, where=fitting.site, leaves_out=_leaves_out(tap, texts[tap.module] or ""))
        case Absent():
            return named(state=ABSENT, where=fitting.reason)
        case Misfit():
            return named(state=REFUSED, where=fitting.reason, nearest=fitting.nearest)


def _broken(
    texts: Mapping[str, str | None], patch_set: PatchSet, fitted: tuple[Fitting, ...]
) -> Iterator[tuple[str, str]]:
    """Files that would not be the same program, or no program, with the taps in: (module, why)."""
    for module in patch_set.modules:
        found = [one for one in fitted if isinstance(one, Found) and one.tap.module == module]
        spots = [one.spot for one in found if one.spot]
        try:
            taps = [one.tap for one in found]
            parse(append(texts[module] or "", patch_set, module, taps, modules=patch_set.modules, spots=spots))
        except (SyntaxError, ValueError) as why:
            yield module, str(why)


def _leaves_out(tap: Tap, text: str) -> tuple[str, ...]:
    """Names of which no path begins at something that the method has. An inherited method is not looked at."""
    method = method_named(parse(text), tap.object)
    if isinstance(method, Missing):
        return ()
    known = _locals(method) if tap.insert else _arguments(method)
    heads: dict[str, list[str]] = {}
    for rule in tap.rules:
        root, _, rest = rule.path.partition(".")
        heads.setdefault(rule.name, []).append(rest.partition(".")[0] if root in ("args", "locals") else "")
    return tuple(name for name, wanted in heads.items() if all(head and head not in known for head in wanted))


def _arguments(method: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    given = method.args
    return {a.arg for a in (*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg) if a}


def _locals(method: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    """Arguments, and whatever is assigned or imported anywhere in it."""
    names = _arguments(method)
    for node in ast.walk(method):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.alias):
            names.add((node.asname or node.name).partition(".")[0])
    return names
