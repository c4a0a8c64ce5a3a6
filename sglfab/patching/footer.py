"""The marked block at the end of a patched file, and the lines put into it: written, found, cut off, byte for byte."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from sglfab.patching.inserts import LOCAL, Spot, put_in, take_out
from sglfab.patching.taps import PatchSet, Tap

# Always two newlines, whatever the file ends with: cutting needs no guess.
SEPARATOR = "\n\n"
_BEGIN = re.compile(r"^# >>> sglfab (?P<set>\S+) (?P<sha>[0-9a-f]{64}) >>>$", re.MULTILINE)
_ANY_MARK = re.compile(r"^# (?:>>>|<<<) sglfab\b", re.MULTILINE)
END = "# <<< sglfab <<<\n"
OUR_PREFIX = "_sglfab_"  # in every name of ours; SGLang has none like it
# Where our own lines stand in the text above, in characters: OFFSET+LENGTH, in order.
_INSERTS = re.compile(r".*\n# inserts((?: [0-9]{1,9}\+[0-9]{1,9})+)\n")

# Nothing but `os.environ.get` runs in a server that was not launched to trace. BaseException: a SystemExit at import
# kills a scheduler without a word (seen in 0.5.23); Ctrl-C stays the operator's.
_FOOTER = """\
# >>> sglfab {set} {sha} >>>
{inserts}# Appended by `fab patch-debug`, cut off by `fab unpatch-debug`. Does nothing unless SGLFAB_TRACE_DIR is set.
def _sglfab_footer(namespace):
    import os
    import sys

    if not os.environ.get("SGLFAB_TRACE_DIR"):
        return
    try:
        import importlib.util
        import json

        taps = [
{taps}        ]
        about = {about}
        probe = sys.modules.get("sglfab_probe")
        if probe is None:
            spec = importlib.util.spec_from_file_location("sglfab_probe", os.environ["SGLFAB_PROBE"])
            probe = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(probe)
            sys.modules["sglfab_probe"] = probe
        probe.install(namespace, {module}, json.loads(about), [json.loads(tap) for tap in taps])
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        try:
            print("sglfab: no trace of %s: %r" % (__name__, error), file=sys.stderr, flush=True)
        except Exception:
            pass


_sglfab_footer(globals())
del _sglfab_footer
"""


@dataclass(frozen=True)
class Footer:
    """A whole footer at the end of a text: `original` is the text without it, whose sha256 was `original_sha256`."""

    set_name: str
    original_sha256: str
    original: str
    block: str

    @property
    def intact(self) -> bool:
        return sha256(self.original) == self.original_sha256


@dataclass(frozen=True)
class BrokenFooter:
    """Marks of ours that do not form one whole footer at the end."""

    reason: str


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def append(
    original: str,
    patch_set: PatchSet,
    module: str,
    taps: Sequence[Tap],
    *,
    modules: Sequence[str],
    spots: Sequence[Spot] = (),
) -> str:
    """`original` with the footer that installs `taps` (those of `module` that this release has).

    modules: every file that gets a footer; the probe's proof waits for all of them. spots: where the `insert:` taps
    put their lines. Raises ValueError where those would change more than they say.
    """
    about = {"set": patch_set.name, "modules": list(modules), "max_mb": patch_set.max_mb}
    edited, spans = put_in(original, spots)
    block = _FOOTER.format(
        set=patch_set.name,
        sha=sha256(original),
        inserts=_inserts(spans),
        module=repr(module),
        about=repr(json.dumps(about)),
        taps="".join(f"            {json.dumps(tap.to_json())!r},\n" for tap in taps),
    )
    return edited + SEPARATOR + block + END


def _inserts(spans: Sequence[tuple[int, int]]) -> str:
    """What the footer says of our own lines above it; the name that they use is there before anything can fail."""
    if not spans:
        return ""
    places = "".join(f" {offset}+{length}" for offset, length in spans)
    return f"# inserts{places}\n{LOCAL} = None\n"


def find(text: str) -> Footer | BrokenFooter | None:
    """The footer of a text, None where nothing of ours stands in it."""
    marks = _ANY_MARK.findall(text)
    if not marks:
        return BrokenFooter("something of ours stands in it without its footer") if OUR_PREFIX in text else None
    begins = list(_BEGIN.finditer(text))
    if len(begins) != 1 or len(marks) != 2:
        return BrokenFooter(f"{len(marks)} marks of a footer instead of 2")
    start = begins[0].start()
    if not text.endswith("\n" + END):
        return BrokenFooter("something stands after the footer, or its end mark is gone")
    if text[:start][-len(SEPARATOR) :] != SEPARATOR:
        return BrokenFooter("the empty lines before the footer were changed")
    block = text[start:]
    original = take_out(text[: start - len(SEPARATOR)], _spans(block))
    return Footer(begins[0]["set"], begins[0]["sha"], original, block)


def _spans(block: str) -> tuple[tuple[int, int], ...]:
    """The places of our own lines. What was edited here shows: the original that it leads to has another hash."""
    found = _INSERTS.match(block)
    pairs = (place.split("+") for place in found[1].split()) if found else ()
    return tuple((int(offset), int(length)) for offset, length in pairs)
