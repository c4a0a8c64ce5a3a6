"""`insert:` taps: which statement an anchor means, where the line goes, and that it comes off byte for byte."""

import ast
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sglfab.patching.footer import BrokenFooter, Footer, append, find
from sglfab.patching.inserts import Spot, locate, put_in, take_out
from sglfab.patching.shapes import Missing
from sglfab.patching.statements import same_shape, statement_shape
from sglfab.patching.taps import Insert, PatchSet, Tap

MODULE = "srt/a.py"
OURS = 'if _sglfab_local is not None: _sglfab_local("t", locals())'
SOURCE = """\
class M:
    def forward(self, x, batch):
        '''Größe.'''
        h = batch.spec.hidden  # ä
        if h.shape[-1] != x.shape[-1]:
            h = self.fc(h)
        elif h is None:
            raise ValueError
        for i in range(3):
            h = self.layers[i](
                x,
                h,
            )
        a = 1; b = 2
        if a: c = 3

        def inner():
            h = self.fc(x)
            return h

        out, _ = self.norm(h, x, eps=1)
        with self.ctx(h):
            return out, [h]

    @property
    def model(self):
        y = 1
        return y
"""


def tap(anchor, place="before", name="t", owner="M.forward"):
    return Tap(name, MODULE, owner, "draft", insert=Insert(place, anchor))


def find_spot(anchor, place="before", source=SOURCE, owner="M.forward"):
    return locate(ast.parse(source), source, tap(anchor, place, owner=owner))


FOUND = {
    "the statement as it stands": ("h = batch.spec.hidden", 4),
    "any call of it": ("h = self.fc(...)", 6),
    "any arguments after the first": ("_ = self.layers[i](x, ...)", 10),
    "some of its named arguments": ("_ = self.norm(h, ..., eps=1)", 21),
    "any target": ("_ = self.norm(...)", 21),
    "a tuple of so many": ("out, _ = self.norm(h, x, eps=1)", 21),
    "an if with any body and any else": ("if h.shape[-1] != x.shape[-1]: ...", 5),
    "a loop with any body": ("for i in range(_): ...", 9),
    "a with with any body": ("with self.ctx(_): ...", 22),
    "a return, inside of a block": ("return out, _", 23),
}


@pytest.mark.parametrize("case", FOUND)
def test_an_anchor_is_found_by_its_shape(case):
    anchor, line = FOUND[case]
    found = find_spot(anchor)
    assert isinstance(found, Spot)
    assert found.line == line


LEFT_ALONE = {
    "another name": ("g = self.fc(h)", "is not there"),
    "another argument": ("h = self.fc(x)", "is not there"),
    "one argument too few": ("h = self.fc()", "is not there"),
    "more arguments than it has": ("_ = self.norm(h, x, h, ...)", "is not there"),
    "a named argument that it does not have": ("_ = self.norm(..., dim=1)", "is not there"),
    "a tuple of another length": ("return _, _, _", "is not there"),
    "a name where an attribute stands": ("h = fc(h)", "is not there"),
    "a number of another kind": ("a = True", "is not there"),
    "a statement of a function defined in it": ("return h", "is not there"),
    "two of one shape": ("h = _", "is there 3 times"),
    "a statement that shares its line": ("a = 1", "shares its line"),
    "a statement behind another on its line": ("b = 2", "shares its line"),
    "the body of an if on one line": ("c = 3", "shares its line"),
    "an elif, which is no statement of its own": ("if h is None: ...", "shares its line"),
}


@pytest.mark.parametrize("case", LEFT_ALONE)
def test_what_is_not_exactly_there_once_is_refused(case):
    anchor, reason = LEFT_ALONE[case]
    found = find_spot(anchor)
    assert isinstance(found, Missing)
    assert reason in found.reason
    assert anchor in found.reason


SHAPES = {
    "names, which are plain texts": ("global a, b", "global a, b", True),
    "other names": ("global a, b", "global a, c", False),
    "a True for a 1": ("x = 1", "x = True", False),
    "an f-string": ("x = f'{a}!'", "x = f'{a}!'", True),
    "a dict with a spread": ("x = {**a, 'b': _}", "x = {**a, 'b': c(d)}", True),
    "a try with any body": ("try: ...\nexcept E: ...", "try:\n    a()\nexcept E:\n    raise", True),
    "a try for another error": ("try: ...\nexcept E: ...", "try:\n    a()\nexcept F:\n    raise", False),
    "an if with an else of its own": ("if _: ...\nelse: ...", "if a:\n    b", False),
    "any name in a longer one": ("_.x = 1", "self.y.x = 1", True),
    "a load for a store": ("x", "x = 1", False),
}


@pytest.mark.parametrize("case", SHAPES)
def test_shapes(case):
    shape, statement, same = SHAPES[case]
    assert same_shape(statement_shape(shape), statement_shape(statement)) is same


def test_the_nearest_statements_are_named():
    found = find_spot("h = self.fc_norm(h)")
    assert found.nearest[0] == "h = self.fc(h) (line 6)"
    assert set(find_spot("h = _").nearest) == {
        "h = batch.spec.hidden (line 4)",
        "h = self.fc(h) (line 6)",
        "h = self.layers[i](x, h) (line 10)",
    }


@pytest.mark.parametrize(
    ("owner", "reason"), [("M.forwards", "M.forwards is not there"), ("N.f", "class N is not there")]
)
def test_a_method_that_is_not_there_is_refused(owner, reason):
    assert find_spot("h = _", owner=owner).reason == reason


def test_a_property_takes_a_line_although_it_cannot_be_wrapped():
    assert find_spot("y = _", owner="M.model").line == 27


WRONG = {
    "no Python": ("h = = 1", "no statement"),
    "an if without a body": ("if h:", "body"),
    "two statements": ("a; b", "2 statements"),
    "nothing": ("", "0 statements"),
    "a definition": ("def f(): ...", "definition"),
}


@pytest.mark.parametrize("case", WRONG)
def test_an_anchor_that_is_none_says_why(case):
    anchor, reason = WRONG[case]
    with pytest.raises(ValueError, match=reason):
        statement_shape(anchor)


def edited(*taps, source=SOURCE):
    spots = [locate(ast.parse(source), source, one) for one in taps]
    assert all(isinstance(spot, Spot) for spot in spots), spots
    return put_in(source, spots)


PLACES = {
    "before a statement": ("h = batch.spec.hidden", "before", f"        {OURS}\n        h = batch.spec.hidden  # ä\n"),
    "after a statement with a comment": (
        "h = _.spec.hidden",
        "after",
        f"hidden  # ä\n        {OURS}\n        if h.shape",
    ),
    "after a whole if with its elif": (
        "if h.shape[-1] != _: ...",
        "after",
        f"            raise ValueError\n        {OURS}\n        for i",
    ),
    "after a statement of several lines": ("_ = self.layers[i](...)", "after", f"            )\n            {OURS}\n"),
    "before the first line of several": (
        "_ = self.layers[i](...)",
        "before",
        f"{OURS}\n            h = self.layers[i](\n",
    ),
    "before a return": (
        "return out, _",
        "before",
        f"        with self.ctx(h):\n            {OURS}\n            return",
    ),
}


@pytest.mark.parametrize("case", PLACES)
def test_the_line_goes_beside_the_statement_with_its_indentation(case):
    anchor, place, expected = PLACES[case]
    text, spans = edited(tap(anchor, place))
    assert expected in text
    assert take_out(text, spans) == SOURCE
    compile(text, MODULE, "exec")


def test_two_at_one_place_stand_in_the_order_of_the_set():
    text, spans = edited(
        tap("h = batch.spec.hidden", "after", "first"), tap("if h.shape[-1] != _: ...", "before", "second")
    )
    assert text.index('"first"') < text.index('"second"')
    assert take_out(text, spans) == SOURCE


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("indent", ["    ", "\t", "  "])
@pytest.mark.parametrize("place", ["before", "after"])
@pytest.mark.parametrize("last", ["", "\n"], ids=["without a last line end", "with one"])
def test_line_ends_and_indentation_are_those_of_the_file(ending, indent, place, last):
    source = (
        f"class M:\n{indent}def f(self):\n{indent}{indent}x = '\\u2028 \x0c'  # é\n{indent}{indent}y = x{last}".replace(
            "\n", ending
        )
    )
    text, spans = edited(tap("y = x", place, owner="M.f"), source=source)
    assert take_out(text, spans) == source
    compile(text.replace("\r\n", "\n").replace("\r", "\n"), MODULE, "exec")
    assert f"{indent}{indent}{OURS}" in text
    assert {line[len(line.rstrip("\r\n")) :] for line in text.splitlines(keepends=True) if OURS in line} <= {
        ending,
        "",
        "\n",
    }


def test_a_line_that_would_change_the_program_is_refused():
    source = "class M:\n    def f(self):\n        if self: \\\n            x = 1\n"
    spot = locate(ast.parse(source), source, tap("x = 1", owner="M.f"))
    with pytest.raises(ValueError, match="same program"):
        put_in(source, [spot])


# --- with the footer --------------------------------------------------------------------------------------------------

SET = PatchSet("mine", "", (tap("h = batch.spec.hidden", "after"), tap("return out, _", "before", "u")))


def patched(source=SOURCE):
    spots = [locate(ast.parse(source), source, one) for one in SET.taps]
    return append(source, SET, MODULE, SET.taps, modules=[MODULE], spots=spots)


def test_the_footer_knows_its_lines_and_gives_back_every_byte():
    found = find(patched())
    assert isinstance(found, Footer)
    assert found.original == SOURCE
    assert found.intact


HARMED = {
    "a character before the lines": lambda text: text.replace("class M", "class  M"),
    "one of the lines gone": lambda text: text.replace(f"        {OURS}\n", "", 1),
    "a line moved": lambda text: text.replace(f"        {OURS}\n        if h", "        if h", 1),
    "the places edited": lambda text: text.replace("# inserts ", "# inserts 1+1 ", 1),
    "the places unreadable": lambda text: text.replace("# inserts ", "# inserts: ", 1),
    "the places gone": lambda text: "\n".join(line for line in text.split("\n") if not line.startswith("# inserts")),
    "a place far behind the end": lambda text: text.replace("# inserts ", "# inserts 999999999+999999999 ", 1),
}


@pytest.mark.parametrize("case", HARMED)
def test_a_harmed_file_does_not_pass_for_whole(case):
    harmed = HARMED[case](patched())
    assert harmed != patched()
    found = find(harmed)
    assert isinstance(found, Footer)
    assert not found.intact or found.original == SOURCE


def test_lines_without_their_footer_are_seen():
    text = patched()
    assert isinstance(find(text[: text.index("# >>> sglfab")]), BrokenFooter)


# --- in a running interpreter -----------------------------------------------------------------------------------------

RUNS = """\
class M:
    def f(self, x):
        y = x + 1
        for _ in range(2):
            y += 1
        return y
"""
PROBE = """\
def install(namespace, module, about, taps):
    def local(tap, values):
        print(tap, values["x"], values["y"])

    print([tap for tap in taps])
    namespace["_sglfab_local"] = local
"""
WRITTEN = (
    tap("y += 1", "after", "inside", "M.f"),
    tap("return y", "before", "end", "M.f"),
)


def run(tmp_path, **env):
    """A module with two lines of ours in it, as an interpreter runs it."""
    spots = [locate(ast.parse(RUNS), RUNS, one) for one in WRITTEN]
    text = append(RUNS, PatchSet("mine", "", WRITTEN), MODULE, WRITTEN, modules=[MODULE], spots=spots)
    (tmp_path / "patched_module.py").write_text(text, encoding="utf-8")
    (tmp_path / "probe.py").write_text(PROBE)
    check = "import patched_module as m; print(m.M().f(1), sorted(n for n in vars(m) if 'sglfab' in n))"
    argv, env = [sys.executable, "-c", check], {"PYTHONPATH": str(tmp_path), **env}
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=True)
    assert done.stderr == "" or "SGLFAB_PROBE" not in env
    return done.stdout.splitlines()


def test_without_the_environment_the_lines_do_nothing(tmp_path):
    assert run(tmp_path) == ["4 ['_sglfab_local']"]


def test_the_probe_sees_the_locals_at_every_line(tmp_path):
    taps, *seen = run(tmp_path, SGLFAB_TRACE_DIR=str(tmp_path), SGLFAB_PROBE=str(tmp_path / "probe.py"))
    assert (
        taps == "[{'tap': 'inside', 'insert': True, 'role': 'draft'}, {'tap': 'end', 'insert': True, 'role': 'draft'}]"
    )
    assert seen == ["inside 1 3", "inside 1 4", "end 1 4", "4 ['_sglfab_local']"]


def test_a_probe_that_is_not_there_leaves_the_lines_asleep(tmp_path):
    assert run(tmp_path, SGLFAB_TRACE_DIR=str(tmp_path)) == ["4 ['_sglfab_local']"]


STATEMENTS = st.sampled_from(
    ("x = f(1)", "if x:\n    y = 2", "for i in z:\n    y = i", "pass", "'é'", "w = (1,\n  2)", "# c")
)


@given(
    before=st.lists(STATEMENTS, max_size=5),
    after=st.lists(STATEMENTS, max_size=5),
    place=st.sampled_from(("before", "after")),
)
def test_any_method_is_given_back_byte_for_byte(before, after, place):
    body = "\n".join((*before, "anchor = here(1)", *after))
    source = "class M:\n    def f(self):\n" + "".join(f"        {line}\n" for line in body.split("\n"))
    spot = locate(ast.parse(source), source, tap("anchor = here(...)", place, owner="M.f"))
    text, spans = put_in(source, [spot])
    assert take_out(text, spans) == source
    assert text.count(OURS) == 1
