"""The value of a flag → words of argv, as that flag's kind in that release wants them."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from sglfab.errors import InputError
from sglfab.model import Json, Origin
from sglfab.sglang.flags import Flag

SIZE = re.compile(r"-?[0-9]+|[0-9]+(?:\.[0-9]+)?[kMGT]|[0-9]+[KMGT]i")  # human_readable_int of SGLang


def words(flag: Flag, value: Json, origin: Origin) -> tuple[str, ...]:
    """argv of one flag: () where it is absent. Raises InputError flag-wrong-type with the profile's line."""
    if value is None or (value is False and flag.kind != "boolean"):
        return ()
    match flag.kind:
        case "switch" | "boolean":
            return (_switch(flag, value, origin),)
        case "list":
            return _several(flag, value, origin)
        case "append":
            items = value if isinstance(value, list) else [value]
            return tuple(word for item in items for word in _pair(flag.option, _text(flag, item, origin)))
    return _single(flag, value, origin)


def _switch(flag: Flag, value: Json, origin: Origin) -> str:
    """`--x`, or `--no-x` for a flag that is on or automatic where nothing is said."""
    if not isinstance(value, bool):
        raise _wrong(flag, "is a switch: true or false", value, origin)
    return flag.option if value else "--no-" + flag.option.removeprefix("--")


def _single(flag: Flag, value: Json, origin: Origin) -> tuple[str, ...]:
    if value is True:
        if flag.nargs == "?":
            return (flag.option,)
        raise _wrong(flag, f"takes {TAKES[flag.type]}", value, origin)
    return _pair(flag.option, _text(flag, value, origin))


def _several(flag: Flag, value: Json, origin: Origin) -> tuple[str, ...]:
    """`--flag a b c`. A word that begins with a dash cannot be passed so: argparse would take it for a flag."""
    items = value if isinstance(value, list) else [value]
    if not items and flag.nargs == "+":
        raise _wrong(flag, "takes at least one value", value, origin)
    texts = tuple(_text(flag, item, origin) for item in items)
    if len(texts) == 1:
        return _pair(flag.option, texts[0])
    if any(_looks_like_flag(text) for text in texts):
        raise _wrong(flag, "cannot take a value that begins with a dash", value, origin)
    return (flag.option, *texts)


def _pair(option: str, text: str) -> tuple[str, ...]:
    return (f"{option}={text}",) if _looks_like_flag(text) else (option, text)


def _looks_like_flag(text: str) -> bool:
    """As argparse sees it: `-1` and `-0.5` are numbers, any other word with a dash in front is a flag."""
    return text.startswith("-") and not re.fullmatch(r"-\d+|-\d*\.\d+", text)


TAKES = {
    "int": "a whole number",
    "float": "a number",
    "size": "a whole number, or one such as 4k",
    "json": "a mapping or list, or JSON text",
    "str": "a value",
}
EXAMPLES = {"int": "8", "float": "0.85", "size": "4k", "json": "{key: value}", "str": "some text"}


def _text(flag: Flag, value: Json, origin: Origin) -> str:
    """One value as the word that the flag's type parses."""
    if isinstance(value, bool):
        raise _wrong(flag, f"takes {TAKES[flag.type]}", value, origin)
    if isinstance(value, dict) or (isinstance(value, list) and (flag.type == "json" or _is_deep(value))):
        text = compact(value)
    elif isinstance(value, list):
        text = ",".join(_text(flag, item, origin) for item in value)
    else:
        text = str(value)
    _check(flag, text, origin)
    return text


def _is_deep(value: Sequence[Json]) -> bool:
    return any(isinstance(item, dict | list) for item in value)


def compact(value: Json) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _check(flag: Flag, text: str, origin: Origin) -> None:
    if not _parses(flag.type, text):
        raise _wrong(flag, f"takes {TAKES[flag.type]}", text, origin)
    if flag.choices and text not in flag.choices:
        what = f"'{text}' is not a choice of --{flag.name}"
        raise InputError("flag-bad-choice", what, where=str(origin), try_=", ".join(flag.choices))


def _parses(type_: str, text: str) -> bool:
    try:
        match type_:
            case "int":
                int(text)
            case "float":
                float(text)
            case "size":
                return bool(SIZE.fullmatch(text))
            case "json":
                json.loads(text)
    except ValueError:
        return False
    return True


def _wrong(flag: Flag, takes: str, value: Json, origin: Origin) -> InputError:
    shown = value if isinstance(value, str) else compact(value)
    what = f"--{flag.name} {takes}, not '{shown}'"
    return InputError("flag-wrong-type", what, where=str(origin), try_=_example(flag))


def _example(flag: Flag) -> str:
    if flag.choices:
        return f"{flag.name}: {flag.choices[0]}"
    return f"{flag.name}: {'true' if flag.kind in ('switch', 'boolean') else EXAMPLES[flag.type]}"
