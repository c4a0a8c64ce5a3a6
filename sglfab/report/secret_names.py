"""Which names hold secrets, and which values are none, although they stand where a secret would."""

from __future__ import annotations

import re
from enum import Enum


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Parts of SGLang's vocabulary that look like credentials: they are about text tokens and cache keys.
_TEXT_TOKENS = _words(
    "bos eos pad unk mask sep cls new cached pending prefill decode draft full swa mamba image audio video start end "
    "begin stop think next first last prev special hot input output prompt page per num this each one non sampled "
    "accepted target bonus parent finished matched"
)
_CACHE_KEYS = _words(
    "kv cache hash block page prefix radix extra lora sort dict state tensor param weight model layer primary foreign "
    "routing request group config lookup unknown missing unexpected match child root node"
)
_CREDENTIAL_TOKENS = _words(
    "hf hub huggingface access auth bearer api refresh session secret github gitlab wandb id user client service"
)
_CREDENTIAL_KEYS = _words(
    "api access secret private auth authorization encryption signing account license master ssh openai anthropic hf "
    "aws subscription client"
)
_ALWAYS = _words(
    "secret password passwd passphrase credential credentials apikey authkey authtoken accesstoken accesskey"
)
_POINTERS = _words("file path dir folder keyfile")  # the value says where the secret is
_NOT_A_SECRET = re.compile(
    r"""(?: |none|null|nil|true|false|unset|not|missing|required|invalid|is|empty
        |\*+|\[?redacted\]?                         # redacted already
        |\$\{?[A-Za-z_]\w*\}?|\$\([^)]*\)?          # the shell fills it in later
        |<[^<>]*>?|\{\{.*                           # a placeholder
        |(?:Optional|Union|str|int|bool|bytes|list|dict|tuple)(?:\[.*)?  # a type in a line of code
    )""",
    re.VERBOSE | re.IGNORECASE,
)
_NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?%?")
_OPAQUE = re.compile(r"(?=.*\d)(?=.*[A-Za-z])[\w+/=.\-]{16,}")
LONGEST_OPAQUE = 512
_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


class Secrecy(Enum):
    """What a name says about its value."""

    ALWAYS = "always"
    IF_OPAQUE = "if it looks like a credential"
    NEVER = "never"


def secrecy(name: str) -> Secrecy:
    """How secret the value of `name` is: an environment variable, an argument, a flag or a header."""
    last = name.rsplit(".", 1)[-1].strip("-")
    words = [word.lower() for word in _PARTS.findall(last)]
    if not words or words[-1] in _POINTERS:
        return Secrecy.NEVER
    if _ALWAYS & set(words):
        return Secrecy.ALWAYS
    return _of_environment(words) if last.isupper() else _of_argument(words)


def _of_environment(words: list[str]) -> Secrecy:
    """Of an upper-case name: TOKEN or KEY anywhere, except where its neighbour speaks of a cache."""
    for before, word, after in zip(["", *words], words, [*words[1:], ""], strict=False):
        if word == "token" and before not in _TEXT_TOKENS:
            return Secrecy.ALWAYS
        if word == "key" and before not in _CACHE_KEYS and after not in {"value", *_CACHE_KEYS}:
            return Secrecy.ALWAYS
    return Secrecy.NEVER


def _of_argument(words: list[str]) -> Secrecy:
    """Of a lower-case name: only its last word counts (`speculative_token_map` maps text tokens)."""
    if words[-1] == "id" and words[-2:-1] == ["key"]:  # aws_access_key_id
        words = words[:-1]
    before, last = (words[-2] if len(words) > 1 else ""), words[-1]
    if last == "token":
        return _graded(before, always=_CREDENTIAL_TOKENS, never=_TEXT_TOKENS)
    if last == "key":
        return _graded(before, always=_CREDENTIAL_KEYS, never=_CACHE_KEYS | {""})
    return Secrecy.NEVER


def _graded(word: str, *, always: frozenset[str], never: frozenset[str]) -> Secrecy:
    if word in always:
        return Secrecy.ALWAYS
    return Secrecy.NEVER if word in never else Secrecy.IF_OPAQUE


def holds_secret(name: str, value: str) -> bool:
    """Whether `value`, without its quotes, is a secret where it stands as the value of `name`."""
    match secrecy(name):
        case Secrecy.NEVER:
            return False
        case Secrecy.IF_OPAQUE:
            return len(value) <= LONGEST_OPAQUE and bool(_OPAQUE.fullmatch(value)) and not _is_code(name, value)
    if not value.strip() or _NOT_A_SECRET.fullmatch(value) or _is_code(name, value):
        return False
    return not (_NUMBER.fullmatch(value) and _counts(name))


def _counts(name: str) -> bool:
    """A number is a count where the name speaks of tokens or keys, but may be somebody's password."""
    words = {word.lower() for word in _PARTS.findall(name)}
    return not _ALWAYS & words and "api" not in words


def _is_code(name: str, value: str) -> bool:
    """`api_key=server_args.api_key` in a line of a traceback, `--api-key API_KEY` in a usage line."""
    plain = name.rsplit(".", 1)[-1].strip("-").replace("-", "_")
    own = value.rsplit(".", 1)[-1].rstrip("]),")
    return own in (plain, plain.upper()) or bool(re.match(r"(?:os\.environ|os\.getenv|getenv|self\.)", value))
