"""Results that a user saves from the Terminal."""

from __future__ import annotations

import csv
import io

import pytest

from lakelog.service.terminal.protocol.results import csv_of


@pytest.mark.parametrize(
    "text",
    ["=1+1", "+SUM(A1)", "-2+3", "@cmd", "\t=1", "\r=1", "\n=1", "＝1+1", "＠cmd", "a\r=1", '=HYPERLINK("http://x")'],
)
def test_no_text_of_a_table_is_a_formula_in_a_spreadsheet(text: str) -> None:
    header, row = csv.reader(io.StringIO(csv_of([text], [[text]]).decode(), newline=""))
    assert header == row == [text if text[0] == "a" else f"'{text}"]


def test_no_part_of_a_text_after_a_semicolon_is_a_formula() -> None:
    _, row = csv.reader(io.StringIO(csv_of(["t"], [["a;=1+1;b;@x"]]).decode(), newline=""))
    assert row == ["a;'=1+1;b;'@x"]


@pytest.mark.parametrize("number", [-5, -1.5, "-1.50", "+3", "-9007199254740993", "-1e-7"])
def test_numbers_stay_numbers(number: object) -> None:
    assert csv_of(["n"], [[number]]) == f"n\r\n{number}\r\n".encode()


def test_other_values_are_saved_as_they_are_shown() -> None:
    assert csv_of(["a", "b"], [[None, [1, 2]], ["x,y", {"k": "=1"}]]) == (
        b'a,b\r\n,"[1,2]"\r\n"x,y","{""k"":""=1""}"\r\n'
    )
