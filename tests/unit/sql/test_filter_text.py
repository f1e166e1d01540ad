from __future__ import annotations

from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from lakelog.errors import InvalidRequest, InvalidSchema, UnsupportedStatement
from lakelog.filestore.skipping.predicate import And, Compare, In, IsNull, Not, Or, Predicate, StartsWith
from lakelog.paimon.schema.schema import TableSchema, new_schema
from lakelog.sql.query.predicate_parser import parse_filter, predicate_of
from lakelog.sql.syntax.type_parser import parse_type_text

COLUMNS = {
    "id": "int", "small": "tinyint", "big": "bigint", "name": "string", "score": "double", "price": "decimal(5, 2)",
    "flag": "boolean", "day": "date", "at": "timestamp_ntz", "ts": "timestamp_ltz", "t": "time(3)", "raw": "bytes",
    "tags": "array<int>", "Order": "int", "code": "char(4)",
}  # fmt: skip


FLAG = Compare("flag", "=", True)


@pytest.fixture(scope="module")
def schema() -> TableSchema:
    return new_schema([(name, parse_type_text(kind), None) for name, kind in COLUMNS.items()])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("id = 1", Compare("id", "=", 1)),
        ("id == 1", Compare("id", "=", 1)),
        ("1 < id", Compare("id", ">", 1)),
        ("id <> -1", Compare("id", "!=", -1)),
        ("ID >= 1", Compare("id", ">=", 1)),
        ("`order` < 10L", Compare("Order", "<", 10)),
        ("id = 1 and name like 'a%'", And(Compare("id", "=", 1), StartsWith("name", "a"))),
        ("id = 1 and id = 2 and id = 3", And(*(Compare("id", "=", i) for i in (1, 2, 3)))),
        ("id = 1 or (id = 2 and flag)", Or(Compare("id", "=", 1), And(Compare("id", "=", 2), FLAG))),
        ("name like 'abc'", Compare("name", "=", "abc")),
        ("name not like 'a%'", Not(StartsWith("name", "a"))),
        ("not (name like 'a%')", Not(StartsWith("name", "a"))),
        ("id in (1, 2)", In("id", (1, 2))),
        ("id is null", IsNull("id")),
        ("id is not null", IsNull("id", expected=False)),
        ("id between 1 and 3", And(Compare("id", ">=", 1), Compare("id", "<=", 3))),
        ("id not between 1 and 3", Or(Compare("id", "<", 1), Compare("id", ">", 3))),
        ("not flag", Compare("flag", "!=", True)),
        ("flag = false", Compare("flag", "=", False)),
        ("flag is true", And(IsNull("flag", expected=False), Compare("flag", "=", True))),
        ("name = 'it\\'s'", Compare("name", "=", "it's")),
        ("score > 1.5", Compare("score", ">", 1.5)),
        ("score = 1e3", Compare("score", "=", 1000.0)),
        ("price = 1.5", Compare("price", "=", Decimal("1.50"))),
        ("price = -1.5BD", Compare("price", "=", Decimal("-1.50"))),
        ("day = '2024-01-31'", Compare("day", "=", date(2024, 1, 31))),
        ("day = date'2024-01-31'", Compare("day", "=", date(2024, 1, 31))),
        ("day = cast('2024-01-31' as date)", Compare("day", "=", date(2024, 1, 31))),
        ("at > '2024-01-31 12:30:00.5'", Compare("at", ">", datetime(2024, 1, 31, 12, 30, 0, 500000))),
        ("at > timestamp'2024-01-31'", Compare("at", ">", datetime(2024, 1, 31))),
        ("ts > '2024-01-31T12:00:00+02:00'", Compare("ts", ">", datetime(2024, 1, 31, 10, tzinfo=UTC))),
        ("ts > '2024-01-31 12:00:00'", Compare("ts", ">", datetime(2024, 1, 31, 12).astimezone(UTC))),
        ("t = '12:30:00'", Compare("t", "=", time(12, 30))),
        ("raw = x'00ff'", Compare("raw", "=", b"\x00\xff")),
        ("id = '7'", Compare("id", "=", 7)),
        ("id = 7.0", Compare("id", "=", 7)),
        ("score = cast(0.1 as float)", Compare("score", "=", 0.10000000149011612)),
        ("score = 0.1D", Compare("score", "=", 0.1)),
        ("price = 1.5BD", Compare("price", "=", Decimal("1.50"))),
        ("at = date'2024-01-31'", Compare("at", "=", datetime(2024, 1, 31))),
        ("code between 'a' and 'b '", And(Compare("code", ">=", "a", 4), Compare("code", "<=", "b ", 4))),
        ("code in ('a', 'b ')", In("code", ("a   ", "b   "), 4)),
    ],
)  # fmt: skip
def test_a_filter_is_read_with_values_of_the_columns_types(schema: TableSchema, text: str, expected: Predicate) -> None:
    assert parse_filter(text, schema) == expected


def test_values_are_of_the_columns_python_type(schema: TableSchema) -> None:
    found = parse_filter("ts > '2024-01-31T12:00:00+02:00'", schema)
    assert isinstance(found, Compare)
    assert found.value.tzinfo is UTC
    whole = parse_filter("score = 1", schema)
    assert isinstance(whole, Compare)
    assert type(whole.value) is float


def test_not_in_matches_no_null(schema: TableSchema) -> None:
    assert parse_filter("id not in (1, 2)", schema) == And(Compare("id", "!=", 1), Compare("id", "!=", 2))


def test_an_unknown_column_is_named_with_the_nearest_one(schema: TableSchema) -> None:
    with pytest.raises(InvalidSchema, match="unknown column 'nam' in filter, did you mean 'name'?"):
        parse_filter("nam = 'x'", schema)


@pytest.mark.parametrize(
    "text",
    [
        "id = 'x'", "id = 1.5", "small = 128", "id = true", "name = 1", "flag = 1", "day = '2024-13-01'", "day = 5",
        "at = '2024-01-01T00:00:00Z'", "price = 1.234", "price = 12345", "raw = 1", "tags = 1", "id = name",
        "id = null", "id in (1, null)", "id", "score = 1e999", "score = cast(1.6 as int)", "score = 300Y",
        "score = cast(1.5 as decimal(5, 0))", "at = cast('2024-01-31 12:30:00' as date)", "score = cast('x' as double)",
        "ts = timestamp_ntz'2024-01-31 12:30:00Z'",
    ],
)  # fmt: skip
def test_a_value_that_does_not_fit_its_column_is_refused(schema: TableSchema, text: str) -> None:
    with pytest.raises(InvalidRequest, match="column '|never true"):
        parse_filter(text, schema)


@pytest.mark.parametrize(
    "text",
    ["name like '%a'", "name like 'a_b%'", "upper(name) = 'X'", "id + 1 = 2", "name rlike 'x'", "id <=> 1", "db.id = 1",
     "select 1", "id in (select 1)", "1 = 1", "exists (select 1)", "score like '1%'"],
)  # fmt: skip
def test_what_a_filter_cannot_say_is_refused_with_what_works(schema: TableSchema, text: str) -> None:
    with pytest.raises(UnsupportedStatement, match="a filter compares columns with values"):
        parse_filter(text, schema)


@pytest.mark.parametrize(
    ("text", "place"), [("id = ", "column"), ("id = 1 and\n  and x", "line 2, column 3"), ("id = 'x", "column 6")]
)
def test_a_malformed_filter_is_pointed_at(schema: TableSchema, text: str, place: str) -> None:
    with pytest.raises(UnsupportedStatement, match=place):
        parse_filter(text, schema)


def _nested(levels: int) -> Predicate:
    made: Predicate = FLAG
    for _ in range(levels):
        made = Not(made)
    return made


def _in_lists(levels: int) -> list[Any]:
    made: list[Any] = [("id", "=", 1)]
    for _ in range(levels):
        made = [made]
    return made


@pytest.mark.parametrize(
    "given",
    [
        "(" * 500 + "id = 1" + ")" * 500, "not " * 5_000 + "flag", "id = " + "- " * 5_000 + "1", "not (" * 3_000,
        "id = " + "cast(" * 800 + "1" + " as int)" * 800, "abs(" * 2_000 + "id" + ")" * 2_000, "case when " * 900,
        "".join(f"(id = {n} {'and' if n % 2 else 'or'} " for n in range(300)) + "flag" + ")" * 300, _nested(5_000),
        _in_lists(5_000),
    ],
    ids=lambda given: str(given)[:12] if isinstance(given, str) else type(given).__name__,
)  # fmt: skip
def test_a_filter_that_is_nested_too_deeply_is_refused(schema: TableSchema, given: Any) -> None:
    with pytest.raises(UnsupportedStatement, match="nested too deeply|cannot be parsed"):
        predicate_of(given, schema)


@pytest.mark.parametrize("join", [" or ", " and "])
def test_a_filter_of_many_conditions_is_evaluated(schema: TableSchema, join: str) -> None:
    made = parse_filter(join.join(f"id = {n}" for n in range(3_000)), schema)
    rows = pa.table({"id": pa.array([1, 2], pa.int32())})
    assert rows.filter(made.to_arrow(rows.schema)).num_rows == (2 if join == " or " else 0)


@pytest.mark.parametrize("number", ["1e999999999", "-1e999999999", "1e-999999999", "9" * 1_000_000])
def test_a_number_of_any_size_is_read_in_little_memory(schema: TableSchema, number: str) -> None:
    for given in (f"price = {number}", [("price", "=", Decimal(number))], [("id", "=", Decimal(number))]):
        with pytest.raises(InvalidRequest, match="column '|precision"):
            predicate_of(given, schema)
