from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pytest

from lakelog.errors import InvalidSchema
from lakelog.paimon.types.defaults import default_scalar
from lakelog.paimon.types.types import INT, DataField, parse_type
from lakelog.sql.syntax.type_parser import parse_type_text


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("INT", "5", 5), ("BIGINT", "-7", -7), ("STRING", "none", "none"), ("STRING", "'it's'", "it's"),
        ("DOUBLE", "1.5", 1.5), ("DECIMAL(10, 2)", "1.50", Decimal("1.50")), ("BOOLEAN", "true", True),
        ("DATE", "2024-01-31", date(2024, 1, 31)),
        ("TIMESTAMP(3)", "2024-01-31 12:30:00", datetime(2024, 1, 31, 12, 30)),
        ("BYTES", "ab", b"ab"),
    ],
)  # fmt: skip
def test_a_default_is_a_value_of_its_column(kind: str, text: str, value: Any) -> None:
    found = default_scalar(DataField(0, "a", parse_type(kind), default_value=text))
    assert found is not None
    assert found.as_py() == value


def test_a_column_without_a_default_has_none() -> None:
    assert default_scalar(DataField(0, "a", INT)) is None


@pytest.mark.parametrize(
    ("kind", "text"), [("INT", "five"), ("DATE", "31.1.2024"), ("TIMESTAMP_LTZ(3)", "2024-01-31 12:30:00")]
)
def test_what_is_no_value_of_the_type_is_refused(kind: str, text: str) -> None:
    with pytest.raises(InvalidSchema, match=f"'{text}' cannot be the default of column 'a' of type"):
        default_scalar(DataField(0, "a", parse_type(kind), default_value=text))


NESTED = [
    ("ARRAY<INT>", "array(1, -2, NULL)", [1, -2, None]),
    ("ARRAY<STRING>", "array('a''b' , ',)')", None),
    ("ARRAY<STRING>", r"array('it\'s', ',)', '\n')", ["it's", ",)", "\n"]),
    ("ARRAY<INT>", "array()", []),
    ("ARRAY<DATE>", "array(date'2024-01-31')", [date(2024, 1, 31)]),
    ("MAP<STRING, ARRAY<INT>>", "MAP('a', ARRAY(1), 'b', NULL)", [("a", [1]), ("b", None)]),
    ("ROW<x INT, y STRING>", "named_struct('Y', 'b', 'x', 1)", {"x": 1, "y": "b"}),
    ("ROW<x INT, y STRING>", "struct(1, 'b')", {"x": 1, "y": "b"}),
    ("ARRAY<INT>", "array('x')", None),
    ("ARRAY<INT>", "array(1", None),
    ("ARRAY<INT>", "array(1) 2", None),
    ("ARRAY<INT>", "[1]", None),
    ("ARRAY<TIMESTAMP_LTZ(3)>", "array('2024-01-31 12:30:00')", None),
    ("ROW<x INT, y STRING>", "named_struct('x', 1)", None),
    ("ROW<x INT, y STRING>", "named_struct('x', 1, 'z', 2)", None),
]


@pytest.mark.parametrize(("kind", "text", "value"), NESTED)
def test_the_default_of_a_nested_type_is_an_expression_of_literals(kind: str, text: str, value: Any) -> None:
    field = DataField(0, "a", parse_type_text(kind), default_value=text)
    if value is None:
        with pytest.raises(InvalidSchema, match="cannot be the default of column 'a'"):
            default_scalar(field)
        return
    found = default_scalar(field)
    assert found is not None
    assert found.as_py() == value
