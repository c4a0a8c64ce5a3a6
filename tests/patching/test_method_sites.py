import ast

import pytest

from sglfab.patching.shapes import Missing, Site, locate

SOURCE = """\
import abc

if True:
    class UnderIf:
        def f(self): ...

try:
    class UnderTry: pass
except ImportError:
    class UnderExcept:
        def f(self): ...

class Plain:
    x = 1
    @no_grad()
    def forward(self): ...
    @property
    def model(self): ...
    @staticmethod
    def helper(): ...
    async def serve(self): ...
    if FAST:
        def twice(self): ...
    else:
        def twice(self): ...
    class Inner:
        def g(self): ...

class Child(Plain):
    pass

class Orphan:
    pass

class Twice:
    def f(self): ...

class Twice:
    def f(self): ...

def factory():
    class Hidden:
        def f(self): ...
"""
TREE = ast.parse(SOURCE)


@pytest.mark.parametrize(
    ("name", "inherited", "line"),
    [
        ("Plain.forward", False, 16),
        ("UnderIf.f", False, 5),
        ("UnderExcept.f", False, 11),
        ("Child.forward", True, 29),
        ("Plain.forward", True, 16),
    ],
    ids=["plain", "under if", "under except", "inherited", "its own although it might be inherited"],
)
def test_a_method_is_found_by_name(name, inherited, line):
    found = locate(TREE, name, inherited=inherited)
    assert isinstance(found, Site)
    assert found.line == line


@pytest.mark.parametrize(
    ("name", "inherited", "reason"),
    [
        ("Plain.forwards", False, "Plain.forwards is not there"),
        ("Child.forward", False, "Child.forward is not there"),
        ("Orphan.forward", True, "Orphan.forward is not there"),
        ("Gone.forward", False, "class Gone is not there"),
        ("Hidden.f", False, "class Hidden is not there"),
        ("Inner.g", False, "class Inner is not there"),
        ("Twice.f", False, "class Twice is there 2 times"),
        ("Plain.twice", False, "Plain.twice is there 2 times"),
        ("Plain.model", False, "Plain.model is a property, line 18"),
        ("Plain.helper", False, "Plain.helper is a staticmethod, line 20"),
        ("Plain.serve", False, "Plain.serve is a coroutine, line 21"),
    ],
    ids=[
        "mistyped",
        "inherited, and not said so",
        "no base to inherit from",
        "no such class",
        "a class inside a function",
        "a class inside a class",
        "two classes of one name",
        "two methods of one name",
        "a property",
        "a static method",
        "a coroutine",
    ],
)
def test_what_cannot_be_wrapped_is_missing_with_the_reason(name, inherited, reason):
    found = locate(TREE, name, inherited=inherited)
    assert isinstance(found, Missing)
    assert found.reason == reason


def test_a_renamed_method_is_offered():
    found = locate(ast.parse("class DeepseekV2Model:\n    def forward_impl(self): ...\n"), "DeepseekV2Model.forward")
    assert isinstance(found, Missing)
    assert found.nearest == ("DeepseekV2Model.forward_impl (line 2)",)
