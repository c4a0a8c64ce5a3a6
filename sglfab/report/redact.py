"""Nothing secret leaves: known values in all their spellings, and whatever stands where a secret stands."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from sglfab.model import Json
from sglfab.report.secret_forms import written_forms
from sglfab.report.secret_names import Secrecy, holds_secret, secrecy

MASK = "***"

_HINT = re.compile(r"key|token|secret|passw|passphrase|credential|authorization|bearer|://|hf_|sk-|gh[a-z]_", re.I)
# Starts only at the beginning of a word: a name of any length costs one pass.
_NAME = re.compile(
    r"""(?<![\w.\-])(?P<name>[\w.\-]*?(?:key|token|secret|passw|passphrase|credential)[\w\-]*)
        (?P<quote>\\*["'])?
        (?P<sep>[ \t]*(?:=(?!=)|:(?!:))[ \t]*(?:b(?=["']))?|[ \t]*,[ \t]*(?:b(?=["']))?|[ \t]+)""",
    re.VERBOSE | re.IGNORECASE,
)
# A quote that never closes ends with its line: the last line of a log may be cut.
_VALUE = re.compile(
    r"""(?P<open>\\+["'])(?P<escaped>.*?)(?P<close>\\+["']|(?=\n|\Z))
       |'(?P<single>(?:\\.|[^'\\\n])*)(?:'|(?=\n|\Z))
       |"(?P<double>(?:\\.|[^"\\\n])*)(?:"|(?=\n|\Z))
       |(?P<bare>\S+)""",
    re.VERBOSE,
)
_CLOSING = ",;)]}>\"'\\"
_PROSE = frozenset(
    "to is and or for with was must flag option argument requires required instead when if in the".split()
)
# argparse takes every unambiguous beginning of a flag.
_SHORT_FLAG = re.compile(r"(?<![\w\-])(--(?:api|admin)(?:-[a-z\-]*)?(?:=|[ \t]+))(?!-)(\S+)")
_AUTHORIZATION = re.compile(
    r"""(authorization\\*["']?[ \t]*[:=,][ \t]*b?\\*["']?)(?:(bearer|basic|token|digest)[ \t]+)?([^\s"'\\,;]+)""", re.I
)
_BEARER = re.compile(r"\b(bearer[ \t]+)(?=[^\s\"']*\d)([\w.+/=~\-]{12,})", re.I)
_URL_PASSWORD = re.compile(r"(://[^/\s:@\"']*:)([^@/\s\"']+)(?=@)")
_KNOWN_TOKENS = re.compile(
    r"(?<![\w\-])(?:hf_(?=[A-Za-z0-9]*\d)[A-Za-z0-9]{8,}|hf_[A-Za-z]{30,}|sk-(?=[\w\-]*\d)[\w\-]{8,}|gh[pousr]_[A-Za-z0-9]{20,})"
)


class Redactor:
    """Takes secrets out of text and JSON. Safe for text that is split at line ends; applying it twice changes nothing."""

    def __init__(self, secret_values: Iterable[str] = ()) -> None:
        forms = {form for value in secret_values for form in written_forms(value)}
        # Longest first, so that no spelling leaves the tail of a longer one behind.
        ordered = sorted(forms, key=len, reverse=True)
        self._known = re.compile("|".join(map(re.escape, ordered))) if ordered else None

    def text(self, text: str) -> str:
        """`text` with every secret replaced by `***`."""
        known = self._known.sub(MASK, text) if self._known else text
        return _by_place(known) if _HINT.search(known) else known

    def value(self, value: Json) -> Json:
        """A JSON value with every secret replaced: in its strings, under secret names, after flags in an argv list."""
        match value:
            case str():
                return self.text(value)
            case Mapping():
                return {self.text(str(k)): self._named(str(k), v) for k, v in value.items()}
            case list() | tuple():
                return self._items(value)
        return value

    def _named(self, name: str, value: Json) -> Json:
        return MASK if isinstance(value, str) and holds_secret(name, value) else self.value(value)

    def _items(self, items: Iterable[Json]) -> list[Json]:
        done: list[Json] = []
        before = ""
        for item in items:
            done.append(self._named(before, item) if before.startswith("--") else self.value(item))
            before = item if isinstance(item, str) else ""
        return done


def _by_place(text: str) -> str:
    named = _named_values(text)
    named = _SHORT_FLAG.sub(_short_flag, named)
    named = _AUTHORIZATION.sub(_authorization, named)
    named = _BEARER.sub(rf"\1{MASK}", named)
    named = _URL_PASSWORD.sub(_url_password, named)
    return _KNOWN_TOKENS.sub(MASK, named)


def _named_values(text: str) -> str:
    """Mask what stands after a secret name. Goes on right behind a name that is none: its value may hold others."""
    parts: list[str] = []
    done = at = 0
    while found := _NAME.search(text, at):
        at = found.end()
        value = _VALUE.match(text, at)
        if not value or secrecy(found["name"]) is Secrecy.NEVER:
            continue
        start, end = _secret_span(found, value)
        if start < end:
            parts += (text[done:start], MASK)
            done = at = end
    return "".join((*parts, text[done:]))


def _secret_span(found: re.Match[str], value: re.Match[str]) -> tuple[int, int]:
    """Where the secret is, without quotes and closing brackets; an empty span where there is none."""
    kind = value.lastgroup if value.lastgroup in ("single", "double", "bare") else "escaped"
    start, end = value.span(kind)
    if kind == "bare":
        start, end = _bare_span(found["name"], value["bare"], start)
    text = value.string[start:end]
    if not _separates(found, kind, text) or not holds_secret(found["name"], text):
        return start, start
    return start, end


def _bare_span(name: str, text: str, start: int) -> tuple[int, int]:
    upper = name.rsplit(".", 1)[-1].isupper()
    text = text if upper else text.partition("&")[0]  # a query string; an environment value may hold "&"
    return start, start + len(text.rstrip(_CLOSING))


def _separates(found: re.Match[str], kind: str, text: str) -> bool:
    sep = found["sep"].strip().rstrip("b")
    if sep == ",":
        return bool(found["quote"]) and kind != "bare"  # "--api-key", "…" or (b"x-api-key", b"…")
    if sep == "":
        return found["name"].startswith("--") and not text.startswith("-") and text not in _PROSE
    return True


def _short_flag(found: re.Match[str]) -> str:
    flag = found[1].rstrip("= \t")
    is_start = "--api-key".startswith(flag) or "--admin-api-key".startswith(flag)
    text = found[2].strip(_CLOSING)
    masked = is_start and text not in _PROSE and holds_secret("api_key", text)
    return found[1] + found[2].replace(text, MASK) if masked else found[0]


def _authorization(found: re.Match[str]) -> str:
    if not found[2] and not (re.search(r"\d", found[3]) and len(found[3]) >= 8):
        return found[0]  # prose: "Authorization: required"
    return found[0][: found.start(3) - found.start()] + MASK


def _url_password(found: re.Match[str]) -> str:
    return found[1] + (MASK if holds_secret("password", found[2]) else found[2])
