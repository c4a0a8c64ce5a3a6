"""Exactly one JSON object on stdout."""

from __future__ import annotations

import io
import json

import pytest

from sglfab.report.json_out import hosts_json, print_json
from sglfab.report.redact import Redactor


def printed(value, redactor=None):
    stream = io.StringIO()
    print_json(value, stream=stream, redactor=redactor)
    return stream.getvalue()


@pytest.mark.parametrize(
    "value", [{"schema": 1}, {"text": 'line\nline\t"q"', "n": [1, 2.5, None, True]}, {"deep": {"empty": {}}}]
)
def test_what_is_printed_reads_back(value):
    assert json.loads(printed(value)) == value


def test_output_is_ascii_and_survives_bytes_that_were_no_text():
    text = printed({"line": "grün \udce4 \U0001f600"})
    assert text.isascii()
    assert json.loads(text) == {"line": "grün � \U0001f600"}


def test_a_number_that_json_does_not_know_is_null():
    assert json.loads(printed({"norm": float("nan"), "max": float("inf")})) == {"norm": None, "max": None}


def test_secrets_are_hidden():
    assert json.loads(printed({"api_key": "abc", "line": "vErYsEcReT"}, Redactor(["vErYsEcReT"]))) == {
        "api_key": "***",
        "line": "***",
    }


def test_one_host_is_the_object_itself():
    assert hosts_json([{"schema": 1, "verdict": "ready"}]) == {"schema": 1, "verdict": "ready"}


def test_several_hosts_are_wrapped_in_order():
    assert hosts_json([{"host": "b"}, {"host": "a"}]) == {"schema": 1, "hosts": [{"host": "b"}, {"host": "a"}]}


def test_stdout_is_the_default(capsys):
    print_json({"schema": 1})
    assert json.loads(capsys.readouterr().out) == {"schema": 1}
