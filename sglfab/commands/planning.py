"""Profile → Plan: the exact command for one release. Nothing runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from sglfab.commands import lint, speculation
from sglfab.commands.environment import http_host, unproxied
from sglfab.commands.script import MODULE, PLACEHOLDER, launch_script, start_program
from sglfab.commands.words import words
from sglfab.errors import InputError
from sglfab.model import Json, Origin, Plan, Profile
from sglfab.profiles.spelling import LIMITS
from sglfab.project import Project
from sglfab.sglang.flags import Flag, FlagFacts, FlagList, read_flags
from sglfab.sglang.graphs import OFF, off_flags

DRAFT = "speculative-draft-model-path"
MOST_RANKS = 4096  # far above any cluster: a slip of the keyboard ends here


def render(project: Project, profile: Profile, *, release: str, release_source: str, python: str = "python3") -> Plan:
    """The plan for that release of SGLang. release_source: "--release", "host" or "assumed".

    python: the host's interpreter, for a profile that names none. Raises InputError with the profile's line for a flag
    that the release does not have, a value that it cannot take, and rules that SGLang checks too late or not at all.
    """
    facts = read_flags(project)
    at = facts.at(release)
    args = _arguments(profile, at)
    notes = (*_release_notes(at, release_source), *_checked(profile, args, facts, at))
    flags = tuple(_flags(profile, args, at))
    host = http_host(args)
    plan = Plan(
        profile=profile.name,
        release=release,
        release_source=release_source,
        argv=(profile.python or python, "-m", MODULE, *(word for group in flags for word in group)),
        env=tuple(profile.env.items()),
        cwd=profile.cwd,
        setup=profile.setup,
        ulimits=tuple(profile.ulimits.items()),
        python=profile.python or python,
        http_host=host,
        port=profile.port,
        tp_size=_whole(args, "tp-size", profile),
        model_path=str(args["model-path"]),
        draft_path=str(args[DRAFT]) if args.get(DRAFT) else None,
        patches=profile.patches,
        secrets=profile.secrets,
        wait=profile.wait,
        stop_grace_s=profile.stop_grace_s,
        script="",
        starter=start_program(project) if _secret_flags(profile) else None,
        notes=notes,
        patch_via=profile.patch_via,
    )
    limits = tuple((LIMITS[name], value) for name, value in profile.ulimits.items())
    return replace(plan, script=launch_script(project, plan, flags, limits=limits, loopback=unproxied(host)))


def _arguments(profile: Profile, at: FlagList) -> Mapping[str, Json]:
    """The profile's flags, model first, with what its intents mean in this release, and the port."""
    if not profile.args.get("model-path"):
        what = f"profile {profile.name} names no model"
        raise InputError("flag-missing", what, where=profile.files[-1], try_="args: {model-path: …}")
    lint.graph_intent(profile.args, profile.cuda_graphs, profile.origins)
    graphs = off_flags(at) if profile.cuda_graphs is False else {}
    own = {k: v for k, v in profile.args.items() if k != "model-path" and k not in graphs}
    return {"model-path": profile.args["model-path"], **own, **graphs, "port": profile.port}


def _secret_flags(profile: Profile) -> tuple[str, ...]:
    return tuple(s.target.removeprefix("args.") for s in profile.secrets if s.target.startswith("args."))


# --- checks -----------------------------------------------------------------------------------------------------------


def _release_notes(at: FlagList, release_source: str) -> Iterator[str]:
    if release_source == "assumed":
        yield f"SGLang {at.basis.wanted} is assumed: no host was asked (--release names another)"
    note = at.basis.note()
    if note:
        yield note


def _checked(profile: Profile, args: Mapping[str, Json], facts: FlagFacts, at: FlagList) -> tuple[str, ...]:
    """Everything that the lint says, as notes. Raises InputError for what cannot work."""
    notes: list[str | None] = []
    for name in (*args, *_secret_flags(profile)):
        origin = _origin(profile, name)
        notes.append(lint.known_flag(name, origin, facts, at))
        if name in at.flags and name in profile.args and args[name] is not False:
            notes.append(lint.retired(name, origin, at))
    speculation.check(args, profile.origins)
    lint.several_nodes(args, profile.origins)
    notes += [*speculation.notes(args, at.basis.wanted), *lint.hazards(args, profile.env, profile.origins)]
    return tuple(note for note in notes if note)


def _origin(profile: Profile, flag: str) -> Origin:
    """Where a flag was said: a mapping's own line, a secret's, or that of the setting that became the flag."""
    for key in (f"args.{flag}", f"secrets.args.{flag}", flag):
        if key in profile.origins:
            return profile.origins[key]
    return profile.origins.get("cuda_graphs", Origin("the profile"))


def _whole(args: Mapping[str, Json], flag: str, profile: Profile) -> int:
    value = str(args.get(flag, 1))
    if not value.isdecimal() or not 1 <= int(value) <= MOST_RANKS:
        what = f"--{flag} takes a whole number from 1 to {MOST_RANKS}, not '{value}'"
        raise InputError("flag-wrong-type", what, where=str(_origin(profile, flag)), try_=f"{flag}: 8")
    return int(value)


# --- argv -------------------------------------------------------------------------------------------------------------


def _flags(profile: Profile, args: Mapping[str, Json], at: FlagList) -> Iterator[tuple[str, ...]]:
    """The words of each flag, in order."""
    for name, value in args.items():
        flag = at.flags.get(name) or _guessed(name, value, at)
        group = words(flag, value, _origin(profile, name))
        if group:
            yield _joined(group) if value == OFF else group
    for name in _secret_flags(profile):
        yield (f"{_secret_option(profile, name, at)}={PLACEHOLDER}args.{name}",)


def _joined(group: tuple[str, ...]) -> tuple[str, ...]:
    """`--cuda-graph-backend-decode=disabled`, as SGLang's own messages spell it."""
    return ("=".join(group),)


def _guessed(name: str, value: Json, at: FlagList) -> Flag:
    """A flag of a release newer than our lists: by its value."""
    kind = "switch" if isinstance(value, bool) else "list" if isinstance(value, list) else "value"
    here, spelled = at.basis.wanted, name.replace("_", "-")
    return Flag(name, since=here, until=here, kind=kind, nargs="*" if kind == "list" else None, spelled=spelled)


def _secret_option(profile: Profile, name: str, at: FlagList) -> str:
    flag = at.flags.get(name)
    if flag is not None and flag.kind != "value":
        what = f"--{name} takes no single value, so it can hold no secret"
        raise InputError("flag-wrong-type", what, where=str(_origin(profile, name)), try_=f"args: {{{name}: …}}")
    return flag.option if flag else f"--{name}"
