"""Old values are read after a change of type as they were, or as an error: none is wrapped, cut or NULL."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from lakelog.errors import InvalidSchema, UnsupportedFeature
from lakelog.paimon.types.arrow import arrow_type
from lakelog.paimon.types.casts import can_cast, cast_values
from lakelog.paimon.types.types import parse_type

UTC = dt.UTC
DAY = dt.date(2024, 2, 29)
BEFORE_1970 = dt.datetime(1969, 12, 31, 23, 59, 59, 999_000)
NOON = dt.datetime(2024, 2, 29, 12, 30, 5, 120_000)

UNFIT = object()
"""A value that has no counterpart in the new type."""


def cast(old: str, new: str, value: Any) -> Any:
    was, now = parse_type(old), parse_type(new)
    column = pa.array([None, value, value, None], arrow_type(was))
    found = cast_values(column, was, now, "c")
    assert found.type == arrow_type(now)
    assert found.null_count >= 2
    assert cast_values(column.slice(1, 1), was, now, "c").equals(found.slice(1, 1)) or found[1].as_py() != value
    first, second = found.slice(1, 2).to_pylist()
    assert first == second or (math.isnan(first) and math.isnan(second))
    return first


NUMBERS = [
    ("TINYINT", "BIGINT", -7, -7),
    ("INT", "TINYINT", 383, UNFIT),
    ("INT", "SMALLINT", 70_000, UNFIT),
    ("BIGINT", "INT", 2**31, UNFIT),
    ("BIGINT", "FLOAT", 16_777_217, UNFIT),
    ("INT", "DOUBLE", 7, 7.0),
    ("DOUBLE", "INT", -1.9, UNFIT),
    ("DOUBLE", "INT", 1e20, UNFIT),
    ("DOUBLE", "BIGINT", -1e30, UNFIT),
    ("DOUBLE", "TINYINT", 300.7, UNFIT),
    ("DOUBLE", "TINYINT", 1e20, UNFIT),
    ("DOUBLE", "BIGINT", float("nan"), UNFIT),
    ("FLOAT", "BIGINT", float("inf"), UNFIT),
    ("FLOAT", "DOUBLE", 0.5, 0.5),
    ("DOUBLE", "FLOAT", 1e300, UNFIT),
    ("DECIMAL(10, 2)", "DECIMAL(10, 1)", Decimal("1.25"), UNFIT),
    ("DECIMAL(10, 2)", "DECIMAL(10, 1)", Decimal("-1.25"), UNFIT),
    ("DECIMAL(3, 1)", "DECIMAL(2, 0)", Decimal("99.5"), UNFIT),
    ("DECIMAL(10, 2)", "DECIMAL(4, 2)", Decimal("100.00"), UNFIT),
    ("DECIMAL(10, 2)", "DECIMAL(38, 30)", Decimal("12345678.25"), Decimal("12345678.25")),
    ("DECIMAL(38, 38)", "DECIMAL(38, 0)", Decimal("0.6"), UNFIT),
    ("DECIMAL(38, 0)", "DECIMAL(38, 38)", Decimal("1"), UNFIT),
    ("INT", "DECIMAL(5, 2)", 999, Decimal("999.00")),
    ("INT", "DECIMAL(5, 2)", 1000, UNFIT),
    ("BIGINT", "DECIMAL(19, 0)", -(2**63), Decimal(-(2**63))),
    ("DOUBLE", "DECIMAL(5, 2)", 1.005, UNFIT),
    ("DOUBLE", "DECIMAL(20, 0)", 1e19, Decimal(10**19)),
    ("DOUBLE", "DECIMAL(5, 2)", 1e300, UNFIT),
    ("FLOAT", "DECIMAL(10, 9)", 0.1, Decimal("0.1")),
    ("DECIMAL(10, 2)", "INT", Decimal("-1.99"), UNFIT),
    ("DECIMAL(20, 0)", "INT", Decimal(2**32 + 5), UNFIT),
    ("DECIMAL(20, 0)", "BIGINT", Decimal(2**63), UNFIT),
    ("DECIMAL(10, 2)", "DOUBLE", Decimal("1.10"), 1.1),
    ("DECIMAL(38, 10)", "DOUBLE", Decimal("12345678901234567890.5"), 12345678901234567890.5),
    ("DECIMAL(10, 2)", "FLOAT", Decimal("0.50"), 0.5),
    ("BOOLEAN", "TINYINT", True, 1),
    ("BOOLEAN", "DOUBLE", False, 0.0),
    ("BOOLEAN", "DECIMAL(3, 1)", True, Decimal("1.0")),
    ("INT", "BOOLEAN", -5, UNFIT),
    ("INT", "BOOLEAN", 1, True),
    ("BIGINT", "BOOLEAN", 0, False),
]

TO_TEXT = [
    ("INT", "STRING", -12, "-12"),
    ("INT", "VARCHAR(2)", 12345, UNFIT),
    ("INT", "CHAR(4)", 12, "12  "),
    ("BOOLEAN", "STRING", True, "true"),
    ("BOOLEAN", "VARCHAR(3)", False, UNFIT),
    ("DECIMAL(10, 3)", "STRING", Decimal("-1.500"), "-1.500"),
    ("DECIMAL(38, 38)", "STRING", Decimal("1e-38"), "0." + "0" * 37 + "1"),
    ("DOUBLE", "STRING", 1.0, "1.0"),
    ("DOUBLE", "STRING", -0.0, "-0.0"),
    ("DOUBLE", "STRING", 1234567.5, "1234567.5"),
    ("DOUBLE", "STRING", 1e7, "1.0E7"),
    ("DOUBLE", "STRING", 0.001, "0.001"),
    ("DOUBLE", "STRING", 0.00012, "1.2E-4"),
    ("DOUBLE", "STRING", float("-inf"), "-Infinity"),
    ("DOUBLE", "STRING", float("nan"), "NaN"),
    ("FLOAT", "STRING", 0.1, "0.1"),
    ("FLOAT", "STRING", 3.4e38, "3.4E38"),
    ("DATE", "STRING", DAY, "2024-02-29"),
    ("TIME(3)", "STRING", dt.time(1, 2, 3, 120_000), "01:02:03.12"),
    ("TIME(3)", "STRING", dt.time(1, 2, 3), "01:02:03.0"),
    ("TIME(0)", "STRING", dt.time(1, 2, 3), "01:02:03"),
    ("TIMESTAMP(3)", "STRING", NOON, "2024-02-29 12:30:05.120"),
    ("TIMESTAMP(6)", "STRING", NOON, "2024-02-29 12:30:05.120000"),
    ("TIMESTAMP(9)", "STRING", NOON, "2024-02-29 12:30:05.120000000"),
    ("TIMESTAMP(0)", "STRING", dt.datetime(1969, 12, 31, 23, 0), "1969-12-31 23:00:00"),
    ("TIMESTAMP(1)", "STRING", NOON, "2024-02-29 12:30:05.12"),
    ("TIMESTAMP(3) WITH LOCAL TIME ZONE", "STRING", NOON.replace(tzinfo=UTC), "2024-02-29 12:30:05.120"),
    ("STRING", "VARCHAR(2)", "héllo", UNFIT),
    ("CHAR(2)", "CHAR(4)", "日x", "日x  "),
    ("BYTES", "STRING", "日".encode(), "日"),
    ("BYTES", "VARCHAR(1)", b"abc", UNFIT),
    ("BYTES", "STRING", b"a\xff", UNFIT),
    ("BINARY(2)", "BYTES", b"ab", b"ab"),
    ("BYTES", "VARBINARY(2)", b"abc", UNFIT),
    ("BYTES", "BINARY(4)", b"abc", b"abc\0"),
    ("STRING", "BINARY(3)", "a", b"a\0\0"),
    ("STRING", "VARBINARY(2)", "日", UNFIT),
    ("ARRAY<INT>", "STRING", [1, None], "[1, null]"),
    ("MAP<STRING, DOUBLE>", "STRING", [("k", 1.0), ("l", None)], "{k -> 1.0, l -> null}"),
    ("ARRAY<INT>", "VARCHAR(2)", [12, 34], UNFIT),
    ("ROW<INT, ARRAY<STRING>>", "CHAR(14)", {"f0": None, "f1": None}, "{null, null}  "),
    ("ROW<INT, ARRAY<STRING>>", "STRING", {"f0": 1, "f1": ["a", "b"]}, "{1, [a, b]}"),
]

FROM_TEXT = [
    ("STRING", "INT", "-12", -12),
    ("CHAR(5)", "INT", "12   ", 12),
    ("CHAR(5)", "BOOLEAN", "1    ", True),
    ("CHAR(5)", "DECIMAL(4, 2)", "1.5  ", Decimal("1.50")),
    ("STRING", "INT", "12.0", 12),
    ("STRING", "DOUBLE", "1e400", UNFIT),
    ("STRING", "FLOAT", "1e-80", UNFIT),
    ("STRING", "INT", "+12.9", UNFIT),
    ("STRING", "INT", ".", UNFIT),
    ("STRING", "BIGINT", "-9223372036854775808", -(2**63)),
    ("STRING", "INT", "0000000000000000000000012", 12),
    ("STRING", "TINYINT", "127", 127),
    ("STRING", "DOUBLE", " 1e3 ", 1000.0),
    ("STRING", "DOUBLE", "-Infinity", float("-inf")),
    ("STRING", "DOUBLE", "1.5d", 1.5),
    ("STRING", "FLOAT", "-0.1", -0.10000000149011612),
    ("STRING", "FLOAT", "NaN", float("nan")),
    ("STRING", "DECIMAL(4, 2)", "1.005", UNFIT),
    ("STRING", "DECIMAL(4, 2)", "1e2", UNFIT),
    ("STRING", "DECIMAL(4, 2)", "1e999999", UNFIT),
    ("STRING", "BOOLEAN", "Yes", True),
    ("STRING", "BOOLEAN", "0", False),
    ("STRING", "DATE", "2024-2-29", DAY),
    ("STRING", "DATE", "2024-02-29 10:00:00", UNFIT),
    ("STRING", "DATE", " 2024", dt.date(2024, 1, 1)),
    ("STRING", "DATE", "2024-03", dt.date(2024, 3, 1)),
    ("STRING", "DATE", "19782", dt.date(2024, 2, 29)),
    ("STRING", "TIME(3)", "1:02:03.1256", UNFIT),
    ("STRING", "TIME(3)", "10:30", dt.time(10, 30)),
    ("STRING", "TIME(3)", "10:30:00+01:15", dt.time(11, 45)),
    ("STRING", "TIME(3)", "61000", dt.time(0, 1, 1)),
    ("STRING", "TIMESTAMP(3)", "2024-02-29 12:30:05.1209", UNFIT),
    ("STRING", "TIMESTAMP(6)", "2024-2-29T12:30", dt.datetime(2024, 2, 29, 12, 30)),
    ("STRING", "TIMESTAMP(3)", "2024-02-31", UNFIT),
    ("STRING", "TIMESTAMP(0)", "61", dt.datetime(1970, 1, 1, 0, 1, 1)),
    ("STRING", "DATE", "-165", dt.date(1969, 7, 20)),
    ("STRING", "TIMESTAMP(6)", "-12", dt.datetime(1969, 12, 31, 23, 59, 59, 999_988)),
    ("STRING", "TIMESTAMP(6)", "61000000", dt.datetime(1970, 1, 1, 0, 1, 1)),
    ("STRING", "TIMESTAMP(3) WITH LOCAL TIME ZONE", "2024-02-29 12:30:05.12", NOON.replace(tzinfo=UTC)),
]

TIMES = [
    ("DATE", "TIMESTAMP(3)", DAY, dt.datetime(2024, 2, 29)),
    ("DATE", "TIMESTAMP(6) WITH LOCAL TIME ZONE", DAY, dt.datetime(2024, 2, 29, tzinfo=UTC)),
    ("TIME(3)", "TIMESTAMP(6)", dt.time(1, 2, 3), dt.datetime(1970, 1, 1, 1, 2, 3)),
    ("TIMESTAMP(6)", "DATE", NOON, UNFIT),
    ("TIMESTAMP(6)", "DATE", dt.datetime(1969, 12, 30), dt.date(1969, 12, 30)),
    ("TIMESTAMP(6)", "TIME(3)", dt.datetime(1970, 1, 1, 12, 30, 5, 120_000), dt.time(12, 30, 5, 120_000)),
    ("TIMESTAMP(6)", "TIMESTAMP(3)", BEFORE_1970, BEFORE_1970),
    ("TIMESTAMP(9)", "TIMESTAMP(2)", NOON, NOON),
    ("TIMESTAMP(3)", "BIGINT", dt.datetime(1969, 12, 31, 23, 59, 58), -2),
    ("TIMESTAMP(3)", "DATE", dt.datetime(1969, 12, 31, 23), UNFIT),
    ("TIMESTAMP(6)", "TIME(3)", NOON, UNFIT),
    ("TIMESTAMP(3)", "TIME(3)", dt.datetime(1969, 12, 31, 23), UNFIT),
    ("TIMESTAMP(6)", "TIMESTAMP(0)", NOON, UNFIT),
    ("TIMESTAMP(6)", "TIMESTAMP(2)", NOON.replace(microsecond=129_999), UNFIT),
    ("TIMESTAMP(6)", "TIMESTAMP(4)", NOON.replace(microsecond=123_456), UNFIT),
    ("TIMESTAMP(6)", "TIMESTAMP(3)", BEFORE_1970.replace(microsecond=999_999), UNFIT),
    ("TIMESTAMP(3)", "TIMESTAMP(0)", BEFORE_1970, UNFIT),
    ("TIMESTAMP(3)", "TIMESTAMP(9)", NOON, NOON),
    ("TIMESTAMP(9)", "TIMESTAMP(6)", NOON, NOON),
    ("TIMESTAMP(6)", "TIMESTAMP(3) WITH LOCAL TIME ZONE", NOON, NOON.replace(tzinfo=UTC)),
    ("TIMESTAMP(6)", "BIGINT", NOON, UNFIT),
    ("TIMESTAMP(3)", "BIGINT", dt.datetime(1969, 12, 31, 23, 59, 59, 500_000), UNFIT),
    ("TIMESTAMP(6)", "INT", NOON, UNFIT),
    ("INT", "TIMESTAMP(3)", 61, dt.datetime(1970, 1, 1, 0, 1, 1)),
    ("BIGINT", "TIMESTAMP(6)", -1, dt.datetime(1969, 12, 31, 23, 59, 59)),
]  # fmt: skip

NESTED = {
    "ARRAY<INT>": {"type": "ARRAY", "element": "INT"},
    "MAP<STRING, DOUBLE>": {"type": "MAP", "key": "STRING NOT NULL", "value": "DOUBLE"},
    "ROW<INT, ARRAY<STRING>>": {
        "type": "ROW",
        "fields": [
            {"id": 5, "name": "f0", "type": "INT"},
            {"id": 6, "name": "f1", "type": {"type": "ARRAY", "element": "STRING"}},
        ],
    },
}


@pytest.mark.parametrize(("old", "new", "value", "expected"), [*NUMBERS, *TO_TEXT, *FROM_TEXT, *TIMES])
def test_a_value_reads_as_the_new_type_or_not_at_all(old, new, value, expected) -> None:
    if expected is UNFIT:
        with pytest.raises(
            InvalidSchema, match="column 'c' was .* but has a value that does not convert: .* Change the"
        ):
            cast(NESTED.get(old, old), new, value)
        return
    found = cast(NESTED.get(old, old), new, value)
    assert repr(found) == repr(expected) if isinstance(expected, float) else found == expected


@pytest.mark.parametrize(
    ("new", "text"),
    [
        ("INT", ""),
        ("INT", "-"),
        ("INT", "1 "),
        ("INT", "1e3"),
        ("INT", "2147483648"),
        ("TINYINT", "128"),
        ("BIGINT", "9223372036854775808"),
        ("BIGINT", "99999999999999999999"),
        ("DOUBLE", "1_0"),
        ("DOUBLE", "inf"),
        ("FLOAT", "x"),
        ("DECIMAL(4, 2)", " 1"),
        ("DECIMAL(4, 2)", "NaN"),
        ("BOOLEAN", "maybe"),
        ("DATE", "2023-02-29"),
        ("DATE", "today"),
        ("TIME(3)", "noon"),
        ("TIME(3)", "-12"),
        ("TIME(3)", "24:00:00"),
        ("TIMESTAMP(3)", "2024-02-29 12:30"),
        ("TIMESTAMP(2)", "61"),
        ("TIMESTAMP(3)", "2024-13-01"),
    ],
)
def test_text_that_is_no_such_value_is_named(new, text) -> None:
    with pytest.raises(InvalidSchema, match="column 'c' was STRING"):
        cast("STRING", new, text)


def test_a_year_that_nanoseconds_cannot_hold_is_named() -> None:
    with pytest.raises(InvalidSchema, match="column 'c'"):
        cast("TIMESTAMP(3)", "TIMESTAMP(9)", dt.datetime(2500, 1, 1))
    with pytest.raises(InvalidSchema, match="column 'c'"):
        cast("BIGINT", "TIMESTAMP(3)", 2**62)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("FLOAT", "BOOLEAN"),
        ("DECIMAL(3, 1)", "BOOLEAN"),
        ("DATE", "INT"),
        ("INT", "DATE"),
        ("TINYINT", "TIMESTAMP(3)"),
        ("DATE", "VARCHAR(10)"),
        ("TIMESTAMP(3)", "CHAR(30)"),
        ("BOOLEAN", "TIMESTAMP(3)"),
        ("BYTES", "INT"),
        ("INT", "BYTES"),
        ("TIMESTAMP(3)", "DOUBLE"),
        ("VARIANT", "STRING"),
    ],
)
def test_a_change_that_paimon_has_no_cast_for_is_refused(old, new) -> None:
    was, now = parse_type(old), parse_type(new)
    assert not can_cast(was, now)
    with pytest.raises(UnsupportedFeature, match="column 'c'"):
        cast_values(pa.nulls(1), was, now, "c")


def test_every_type_can_be_cast_to_itself() -> None:
    for text in ("INT", "STRING", "TIMESTAMP(3)", {"type": "ARRAY", "element": "INT"}):
        assert can_cast(parse_type(text), parse_type(text))
