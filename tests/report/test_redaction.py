"""What is hidden, what is left alone, in text and in JSON."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from urllib.parse import quote, quote_plus

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from sglfab.report.redact import Redactor

CASES = yaml.safe_load((Path(__file__).parent / "redaction_cases.yaml").read_text())
AWKWARD = "pä ss'w\"o\\rd/&=<>\t%"


@pytest.mark.parametrize("case", CASES["hide"], ids=lambda case: case["phrase"])
def test_hides(case):
    assert Redactor().text(case["text"]) == case["shown"]


@pytest.mark.parametrize("text", CASES["leave"], ids=lambda text: text[:60])
def test_leaves_alone(text):
    assert Redactor().text(text) == text


def test_half_of_the_cases_are_left_alone():
    assert len(CASES["leave"]) >= 0.9 * len(CASES["hide"])


@pytest.mark.parametrize(
    "written",
    [
        AWKWARD,
        quote(AWKWARD),
        quote(AWKWARD, safe=""),
        quote_plus(AWKWARD),
        json.dumps(AWKWARD),
        json.dumps(AWKWARD, ensure_ascii=False),
        repr(AWKWARD),
        shlex.quote(AWKWARD),
        json.dumps({"log": repr(AWKWARD)}),
        json.dumps(json.dumps(AWKWARD)),
    ],
    ids=["raw", "url path", "url", "form", "json", "json utf-8", "repr", "shell", "repr in json", "json in json"],
)
def test_a_known_value_is_hidden_in_every_spelling(written):
    shown = Redactor([AWKWARD]).text(f"x {written} y")
    assert "***" in shown
    for part in ("pä", "ss'w", "o\\rd", "rd/", "%C3", "u00e4"):
        assert part not in shown
    assert shown.startswith("x ")
    assert shown.endswith(" y")


def test_each_line_of_a_multi_line_value_is_hidden():
    value = "-----BEGIN KEY-----\nMIIEvQIBADANBgkq\n-----END KEY-----\n"
    assert "MIIEvQ" not in Redactor([value]).text("read MIIEvQIBADANBgkq from it")


def test_a_longer_value_leaves_no_tail_of_a_shorter_one():
    assert Redactor(["abcd", "abcdefgh"]).text("abcdefgh abcd") == "*** ***"


@pytest.mark.parametrize("value", ["", "a", "abc"])
def test_a_value_too_short_to_tell_from_text_is_left_alone(value):
    assert Redactor([value]).text("abc a cab") == "abc a cab"


def test_a_value_learned_later_is_hidden_from_then_on():
    redactor = Redactor()
    assert redactor.text("see vErYsEcReT") == "see vErYsEcReT"
    redactor.learn(["vErYsEcReT"])
    assert redactor.text("see vErYsEcReT") == "see ***"


def test_json_is_redacted_by_name_by_flag_and_by_value():
    redactor = Redactor(["vErYsEcReT"])
    shape = {
        "env": {"HF_TOKEN": "abc", "NCCL_DEBUG": "INFO"},
        "argv": ["--api-key", "xyz", "--port", "30000"],
        "text": "saw vErYsEcReT",
        "n": 5,
        "none": None,
        "api_key": None,
    }
    assert redactor.value(shape) == {
        "env": {"HF_TOKEN": "***", "NCCL_DEBUG": "INFO"},
        "argv": ["--api-key", "***", "--port", "30000"],
        "text": "saw ***",
        "n": 5,
        "none": None,
        "api_key": None,
    }


@pytest.mark.parametrize("piece", ["x_key=", "x_key='", "token: ", "bearer a", "://a:", "key", "--api ", "hf_a"])
def test_a_huge_line_of_near_misses_is_left_alone_in_good_time(piece):
    line = piece * 10_000
    assert Redactor().text(line) == line


PIECES = st.lists(
    st.sampled_from([case["text"] for case in CASES["hide"]] + CASES["leave"] + ["", "plain text", "\t'\"\\"]),
    max_size=8,
)


@given(PIECES)
def test_split_at_line_ends_is_as_good_as_whole(pieces):
    redactor = Redactor(["vErYsEcReT"])
    lines = [piece + "\n" for piece in pieces]
    assert "".join(map(redactor.text, lines)) == redactor.text("".join(lines))


@given(st.text(max_size=200))
def test_twice_is_as_good_as_once(text):
    redactor = Redactor(["vErYsEcReT"])
    assert redactor.text(redactor.text(text)) == redactor.text(text)


@given(st.text(min_size=4, max_size=20).filter(lambda s: s.strip() and "*" not in s), st.text(max_size=20))
def test_a_known_value_never_survives(secret, around):
    assert secret not in Redactor([secret]).text(around + secret + around).replace("***", "\0\0\0")
