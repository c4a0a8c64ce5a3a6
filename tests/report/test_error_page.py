"""An operator's error, for a person and for a program."""

from __future__ import annotations

import pytest

from sglfab.errors import InputError, PatchError
from sglfab.report.errors import error_json, print_error
from sglfab.report.redact import Redactor

BAD_KEY = InputError(
    "profile-unknown-key",
    "'mem_fraction' is not a launch option of SGLang 0.5.12",
    where="configs/profiles/eagle3-debug.yaml:14",
    try_="mem-fraction-static",
)


def test_code_what_where_and_try(pipe):
    print_error(BAD_KEY, pipe.console)
    assert pipe.text.splitlines() == [
        "error[profile-unknown-key]: 'mem_fraction' is not a launch option of SGLang 0.5.12",
        "  where: configs/profiles/eagle3-debug.yaml:14",
        "  try:   mem-fraction-static",
    ]


@pytest.mark.parametrize(
    ("where", "try_", "lines"), [("", "", 1), ("here", "", 2), ("", "ls", 2)], ids=["neither", "only where", "only try"]
)
def test_what_is_not_known_has_no_line(pipe, where, try_, lines):
    print_error(PatchError("drift", "the file changed", where=where, try_=try_), pipe.console)
    assert len(pipe.text.splitlines()) == lines


def test_a_command_to_try_is_never_broken(terminal):
    command = "fab -H gpu1 launch --profile eagle3-debug --set args.mem-fraction-static=0.86 --takeover --deadline 600"
    print_error(InputError("x", "long " * 40, try_=command), terminal.console)
    assert f"  try:   {command}\n" in terminal.plain
    assert terminal.plain.count("\n") > 2


def test_several_lines_to_try_are_aligned(pipe):
    print_error(InputError("x", "y", try_="first\nsecond"), pipe.console)
    assert pipe.text.splitlines()[1:] == ["  try:   first", "         second"]


def test_no_secret_and_no_markup(pipe):
    print_error(
        InputError("x", "[bold]cannot use vErYsEcReT[/bold]", where="--api-key=abcd"),
        pipe.console,
        Redactor(["vErYsEcReT"]),
    )
    assert pipe.text == "error[x]: [bold]cannot use ***[/bold]\n  where: --api-key=***\n"


def test_json_form():
    assert error_json(BAD_KEY) == {
        "schema": 1,
        "verdict": None,
        "error": {
            "code": "profile-unknown-key",
            "what": "'mem_fraction' is not a launch option of SGLang 0.5.12",
            "where": "configs/profiles/eagle3-debug.yaml:14",
            "try": "mem-fraction-static",
        },
    }


def test_without_a_console_it_goes_to_stderr(capsys):
    print_error(BAD_KEY)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error[profile-unknown-key]: ")
