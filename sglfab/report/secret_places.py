"""Where secrets stand in a text that nobody told us about: after their names, in headers and URLs, as known tokens."""

from __future__ import annotations

import re
from dataclasses import dataclass

from sglfab.report.secret_names import Secrecy, holds_secret, secrecy

MASK = "***"

# The character class first: several times faster than a case-insensitive alternation.
_WORD = re.compile(r"[KkTtSsPpCc](?i:ey|oken|ecret|assw|assphrase|redential)[\w\-]*")
_BEFORE = re.compile(r"[\w.\-]*\Z")
_LONGEST_NAME = 200
_AFTER = re.compile(
    r"""(?P<quote>\\*["'])?
        (?P<sep>[ \t]*(?:=(?!=)|:(?!:))[ \t]*(?:b(?=["']))?|[ \t]*,[ \t]*(?:b(?=["']))?|[ \t]+)""",
    re.VERBOSE,
)
# A quote that never closes ends with its line: the last line of a log may be cut.
_VALUE = re.compile(
    r"""(?P<open>\\+["'])(?P<escaped>.*?)(?P<close>\\+["']|(?=\n|\Z))
       |'(?P<single>(?:\\.|[^'\\\n])*)(?:'|(?=\n|\Z))
       |"(?P<double>(?:\\.|[^"\\\n])*)(?:"|(?=\n|\Z))
       |(?P<bare>\S{1,8192})""",  # bounded: else each name in a line of a megabyte would cost a megabyte
    re.VERBOSE,
)
_CLOSING = ",;)]}>\"'\\"
_PROSE = re.compile(r"to|is|and|or|for|with|was|must|flag|option|argument|requires?|instead|when|if|in|the")
# What follows the path of a file that is called like a secret: its line, or why it cannot be read.
_OF_A_FILE = re.compile(r"\d{1,5}(?::\d+)*:?|\[Errno|it|No|Is|Not|Permission")
# argparse takes every unambiguous beginning of a flag.
_SHORT_FLAG = re.compile(r"(?<![\w\-])(--(?:api|admin)(?:-[a-z\-]*)?(?:=|[ \t]+))(?!-)(\S+)")
_AUTHORIZATION = re.compile(
    r"""(authorization\\*["']?[ \t]*[:=,][ \t]*(?:b(?=["']))?\\*["']?)
        (?:(bearer|basic|token|digest)[ \t]+)?([^\s"'\\,;]+)""",
    re.VERBOSE | re.IGNORECASE,
)
_BEARER = re.compile(r"\b(bearer[ \t]+)(?=[^\s\"']*\d)([\w.+/=~\-]{12,})", re.IGNORECASE)
_URL_PASSWORD = re.compile(r"(://[^/\s:@\"']*:)([^@/\s\"']+)(?=@)")
_KNOWN_TOKENS = re.compile(
    r"(?<![\w\-])(?:hf_(?=[A-Za-z0-9]*\d)[A-Za-z0-9]{8,}|hf_[A-Za-z]{30,}|sk-(?=[\w\-]*\d)[\w\-]{8,}|gh[pousr]_[A-Za-z0-9]{20,})"
)


@dataclass(frozen=True)
class _Place:
    """A name and what stands between it and its value, which begins at `value_at`."""

    name: str
    in_path: bool
    quoted: bool
    sep: str
    value_at: int


def mask_by_place(text: str) -> str:
    """`text` with `***` wherever a secret stands. Never looks across a line end."""
    masked = _mask_named(text)
    lower = masked.lower()  # plain searches are cheap, and most logs hold none of these
    if "--a" in lower:
        masked = _SHORT_FLAG.sub(_short_flag, masked)
    if "authorization" in lower:
        masked = _AUTHORIZATION.sub(_authorization, masked)
    if "bearer" in lower:
        masked = _BEARER.sub(rf"\1{MASK}", masked)
    if "://" in lower:
        masked = _URL_PASSWORD.sub(_url_password, masked)
    if any(start in lower for start in ("hf_", "sk-", "gho_", "ghp_", "ghu_", "ghs_", "ghr_")):
        masked = _KNOWN_TOKENS.sub(MASK, masked)
    return masked


def _mask_named(text: str) -> str:
    """Mask what stands after a secret name. Goes on right behind a name that is none: its value may hold others."""
    parts: list[str] = []
    done = at = 0
    while word := _WORD.search(text, at):
        at = word.end()
        place = _place(text, word)
        if place is None or secrecy(place.name) is Secrecy.NEVER:
            continue
        value = _VALUE.match(text, place.value_at)
        if value is None:
            continue
        start, end = _secret_span(place, value)
        if start < end:
            parts += (text[done:start], MASK)
            done = at = end
    return "".join((*parts, text[done:]))


def _place(text: str, word: re.Match[str]) -> _Place | None:
    after = _AFTER.match(text, word.end())
    before = _BEFORE.search(text, max(0, word.start() - _LONGEST_NAME), word.start())
    if after is None or before is None:
        return None
    sep = after["sep"].strip().removesuffix("b").rstrip()
    in_path = text[max(0, before.start() - 1) : before.start()] == "/"
    return _Place(before[0] + word[0], in_path, bool(after["quote"]), sep, after.end())


def _secret_span(place: _Place, value: re.Match[str]) -> tuple[int, int]:
    """Where the secret is, without quotes and closing brackets; an empty span where there is none."""
    kind = value.lastgroup if value.lastgroup in ("single", "double", "bare") else "escaped"
    start, end = value.span(kind)
    if kind == "bare":
        end = start + len(_bare(place.name, value["bare"]))
    text = value.string[start:end]
    if not _separates(place, kind, text) or not holds_secret(place.name, text):
        return start, start
    return start, end


def _bare(name: str, text: str) -> str:
    """A value without quotes: up to `&` in a query string, though the value of a variable may hold one."""
    whole = text if name.rsplit(".", 1)[-1].isupper() else text.partition("&")[0]
    return whole.rstrip(_CLOSING)


def _separates(place: _Place, kind: str, text: str) -> bool:
    is_flag = place.name.startswith("--")
    match place.sep:
        case ",":
            return place.quoted and kind != "bare"  # "--api-key", "…" or (b"x-api-key", b"…")
        case "":
            return is_flag and not text.startswith("-") and not _PROSE.fullmatch(text)
        case ":":
            of_a_file = place.in_path and _OF_A_FILE.fullmatch(text)
            return place.quoted or not (is_flag or of_a_file)  # not: "argument --api-key: expected one argument"
    return True


def _short_flag(found: re.Match[str]) -> str:
    flag = found[1].rstrip("= \t")
    is_start = any(full.startswith(flag) and full != flag for full in ("--api-key", "--admin-api-key"))
    text = found[2].strip(_CLOSING)
    masked = is_start and not _PROSE.fullmatch(text) and holds_secret("api_key", text)
    return found[1] + found[2].replace(text, MASK) if masked else found[0]


def _authorization(found: re.Match[str]) -> str:
    if not found[2] and not (re.search(r"\d", found[3]) and len(found[3]) >= 8):
        return found[0]  # prose: "Authorization: required"
    return found[0][: found.start(3) - found.start()] + MASK


def _url_password(found: re.Match[str]) -> str:
    return found[1] + (MASK if holds_secret("password", found[2]) else found[2])
