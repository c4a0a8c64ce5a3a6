"""Where every value of a plan came from, for `fab render`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sglfab.commands.environment import unproxied
from sglfab.commands.script import PLACEHOLDER
from sglfab.model import Origin, Plan, Profile, SecretSource

HIDDEN = "***"
BY_FAB = "added by fab: never a proxy to ourselves"
PROXIES = ("no_proxy", "NO_PROXY")


@dataclass(frozen=True)
class Row:
    """One value. kind: flag, env or setting; value: `***` for a secret; origin: file:line, `--set`, or in words."""

    kind: str
    name: str
    value: str
    origin: str


def explain_render(plan: Plan, profile: Profile) -> list[Row]:
    """A row for every flag of the command, every variable and every setting, in the order of the command."""
    return [*_flag_rows(plan, profile), *_env_rows(plan, profile), *_setting_rows(plan, profile)]


def _flag_rows(plan: Plan, profile: Profile) -> Iterator[Row]:
    for option, values in _groups(plan.argv[3:]):
        name = option.removeprefix("--")
        shown = HIDDEN if values and values[0].startswith(PLACEHOLDER) else " ".join(values)
        yield Row("flag", option, shown, _flag_origin(name, plan, profile))


def _groups(words: tuple[str, ...]) -> Iterator[tuple[str, list[str]]]:
    """Each option with the words that follow it. A value never begins with `--`: it is joined with `=` then."""
    group: tuple[str, list[str]] | None = None
    for word in words:
        if word.startswith("--"):
            if group:
                yield group
            option, equals, value = word.partition("=")
            group = (option, [value] if equals else [])
        elif group:
            group[1].append(word)
    if group:
        yield group


def _flag_origin(name: str, plan: Plan, profile: Profile) -> str:
    origins = profile.origins
    for secret in profile.secrets:
        if secret.target == f"args.{name}":
            return f"{origins.get('secrets.' + secret.target, '')} {_source(secret)}"
    own = _origins_under(f"args.{name}", origins) or _origins_under(f"args.{name.removeprefix('no-')}", origins)
    if own:
        return own
    if name == "port" and "port" in origins:
        return str(origins["port"])
    if profile.cuda_graphs is False and "cuda_graphs" in origins:
        return f"{origins['cuda_graphs']}: CUDA graphs off, as SGLang {plan.release} spells it"
    return "the profile"


def _origins_under(key: str, origins: Mapping[str, Origin]) -> str:
    """Those of a mapping's values, each once; else the key's own."""
    inner = [str(origin) for name, origin in origins.items() if name.startswith(key + ".")]
    own = [str(origins[key])] if key in origins else []
    return ", ".join(dict.fromkeys(inner or own))


def _source(secret: SecretSource) -> str:
    if secret.env is not None:
        return f"(from ${secret.env} of this machine)"
    return f"(from the file {secret.file})" if secret.file is not None else "(from a command)"


def _env_rows(plan: Plan, profile: Profile) -> Iterator[Row]:
    origins = profile.origins
    for name, value in plan.env:
        if name not in PROXIES:
            yield Row("env", name, value, str(origins.get(f"env.{name}", "")))
    for secret in profile.secrets:
        if secret.target.startswith("env."):
            origin = origins.get("secrets." + secret.target, "")
            yield Row("env", secret.target.removeprefix("env."), HIDDEN, f"{origin} {_source(secret)}")
    own = next((name for name in PROXIES if name in profile.env), None)
    before = profile.env[own] if own else "(the host's)"
    origin = f"{origins.get(f'env.{own}')}, and {BY_FAB}" if own else BY_FAB
    yield from (Row("env", name, f"{before},{unproxied(plan.http_host)}", origin) for name in PROXIES)


def _setting_rows(plan: Plan, profile: Profile) -> Iterator[Row]:
    origins = profile.origins
    yield Row("setting", "python", plan.python, str(origins.get("python", "the host's")))
    if plan.cwd:
        yield Row("setting", "cwd", plan.cwd, str(origins["cwd"]))
    via = (plan.patch_via,) if "patch_via" in origins else ()
    for key, values in (("setup", plan.setup), ("patches", plan.patches), ("patch_via", via), ("hosts", profile.hosts)):
        if values:
            yield Row("setting", key, "; ".join(values), str(origins[key]))
    for name, value in plan.ulimits:
        yield Row("setting", f"ulimits.{name}", value, str(origins[f"ulimits.{name}"]))
    for key, origin in origins.items():
        if key.startswith(("wait.", "stop.")):
            yield Row("setting", key, _setting(key, plan), str(origin))


def _setting(key: str, plan: Plan) -> str:
    """`wait.deadline_s`, `wait.allowances.load-weights`, `stop.grace_s`."""
    last = key.rpartition(".")[2]
    if key.startswith("wait.allowances."):
        return f"{plan.wait.allowances[last]:g}"
    return f"{plan.stop_grace_s if key == 'stop.grace_s' else getattr(plan.wait, last):g}"
