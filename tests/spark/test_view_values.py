"""What a materialized view computes without Spark has Spark's values and types: each expression, on awkward values."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from lakelog import Lake
from lakelog.errors import LakelogError
from lakelog.paimon.types.types import type_text
from lakelog.sql.query.planner import plan_query
from lakelog.sql.syntax.source_text import SourceText
from lakelog.sql.views.plan import plan_view
from lakelog.table.views.definition import ROW_KEY, ViewDefinition

pytestmark = pytest.mark.local_only("sets the time zone of the session")

COLUMNS: Final = (
    "id int, ti tinyint, si smallint, i int, b bigint, f float, d double, m decimal(10,2), k decimal(20,4), "
    "w decimal(38,0), x decimal(38,18), s string, c char(5), v varchar(10), o boolean, y date, t timestamp, "
    "n timestamp_ntz, z binary"
)
NAN, INF = float("nan"), float("inf")


def at(*parts: int) -> dt.datetime:
    return dt.datetime(*parts)  # type: ignore[arg-type] # noqa: DTZ001 - also the instants, in UTC


# fmt: off
ROWS: Final = (
    (1, 127, 32767, 2**31 - 1, 2**63 - 1, NAN, NAN, "99999999.99", "9999999999999999.9999", "9" * 38,
     "9" * 20 + "." + "9" * 18,
     "", "", "", True, dt.date(1, 1, 1), at(1, 1, 2), at(1, 1, 1), b""),
    (2, -128, -32768, -(2**31), -(2**63), -0.0, -0.0, "-99999999.99", "-0.0001", "-" + "9" * 38,
     "-0.000000000000000001",
     "é\U0001F600İß", "abc", "abc", False, dt.date(1582, 10, 10), at(1582, 10, 10, 3, 4, 5, 678901),
     at(1582, 10, 10, 23, 59, 59, 999999), b"\x00\xff"),
    (3, 0, 0, 0, 0, 0.0, 0.0, "0", "0", "0", "0", "a_%\n'\"", "abcde", "abcdefgh", None, dt.date(1899, 12, 31),
     at(1893, 3, 31, 23, 6, 32), at(1893, 4, 1, 0, 3), b"abc"),
    (4, *[None] * 18),
    (5, 1, 2, 3, 4, 0.1, 0.1, "0.05", "2.5", "7", "0.5", "Abc", "A", "Z", True, dt.date(2024, 2, 29),
     at(2024, 3, 31, 0, 59, 59), at(2024, 3, 31, 2, 30), b"z"),
    (6, -1, -2, -3, 2**53 + 1, INF, INF, "-0.05", "-2.5", "-7", "-0.5", "abc ", "A ", "2024-02-29", False,
     dt.date(2024, 12, 31), at(2024, 10, 27, 0, 30), at(2024, 10, 27, 2, 30), None),
    (7, 5, 7, 11, 13, -INF, -INF, "12345678.90", "1", "1", "1", "\u0001\U0010FFFF\uFFFF", "zz", "10", True,
     dt.date(2025, 6, 30), at(2024, 10, 27, 1, 30), at(2024, 11, 3, 1, 30), None),
    (8, 5, 7, 11, 13, 1e10, 1e300, "1.10", "1.1", "1", "1.1", "10", "zz", "10", False, dt.date(2000, 1, 1),
     at(2024, 11, 3, 5, 30), at(2024, 3, 10, 2, 30), None),
    (9, 5, 7, 11, 13, 1.5, -2.5, "1.1", "1.15", "1", "1.15", " e\u0301 ", "zz", "10", False, dt.date(1970, 1, 1),
     at(2024, 11, 3, 6, 30, 30), at(2024, 11, 3, 0, 30), None),
    (10, 3, 9, 17, 19, 16777217.0, 1e15, "1.15", "1.25", "3", "1.25", "x\ty", "y", "x", True, dt.date(2024, 11, 3),
     at(2024, 11, 3, 4, 30), at(1883, 11, 18, 12, 1), None),
)

ANY_ROW: Final = (
    "i = 3", "i = b", "ti < b", "i = 3.0", "b = 2.5", "d = 0", "d = 0.1", "f = 0.1", "d = f", "d = i", "f = b",
    "b <=> d", "m = 0.05", "m = k", "m = i", "m = d", "k > b", "x = 0.5", "w = 7", "d <> d", "d > 1", "f >= 0",
    "d <=> f", "s = 'abc'", "v = 'abc'", "s < 'b'", "s > '\uffff'", "z = z", "z < z", "o = true", "y = '2024-02-29'",
    "t = '2024-10-27 02:30:00'", "t > '2024-10-27'", "t <= '2024-11-03 01:30'", "n = '2024-10-27 02:30:00'",
    "n < '2024-10-27T02:30:00.5'", "y > date '2024-01-01'", "t > timestamp '2024-10-27 02:30:00'",
    "n > timestamp_ntz '2024-10-27 02:30:00'", "y < n", "y <> t", "t < n", "t = n", "i in (1, 3, 11)",
    "i in (3, 2.5)", "s in ('abc', '10')", "d in (0)", "y in ('2024-02-29', '2000-01-01')", "o in (true)",
    "i not in (3, null)", "b in (13, 4.5D)", "i between 0 and 11", "y between '2000-01-01' and '2024-06-30'",
    "m between 0 and 2", "i is null", "o and i > 3", "not o", "o or null", "o is true", "o is not false",
    "d is not distinct from f", "not (i > 3 or o)", "coalesce(i, 0)", "coalesce(si, 0)", "coalesce(ti, 0)",
    "coalesce(b, 0)", "coalesce(i, b)", "coalesce(f, 0)", "coalesce(f, d)", "coalesce(i, d)", "coalesce(b, f)",
    "coalesce(m, 0)", "coalesce(m, k)", "coalesce(m, 0.5)", "coalesce(m, d)", "coalesce(s, 'x')",
    "coalesce(o, false)", "coalesce(y, '2024-01-01')", "coalesce(d, 0.5)", "ifnull(i, 0)", "nvl(si, 3000000000)",
    "coalesce(null, i)", "coalesce(z, z)", "coalesce(t, n)", "coalesce(y, n)", "case when i > 3 then 1 else 0 end",
    "case when i > 3 then 1 else 2.5 end", "case when i > 3 then i else b end", "case when i > 3 then m else k end",
    "case i when 3 then 'x' end", "if(i > 3, 1, 2)", "case when i > 3 then d else i end",
    "case when i > 3 then 3000000000 end", "case when i > 3 then f else 1 end",
    "case s when 'abc' then 1 when '10' then 2 else 3 end", "if(o, i, null)", "case when o then si else 1 end",
    "nullif(i, 3)", "nullif(i, b)", "nullif(s, '')", "nullif(m, 0)", "nullif(d, 0)", "nullif(3, i)", "nullif(i, 3.0)",
    "nullif(y, '2024-02-29')", "greatest(i, b)", "least(d, f)", "greatest(s, v)", "least(m, 1, k)",
    "greatest(i, null)", "s || 'x'", "v || s", "concat(s, 'x')", "concat(s, i, y)", "concat(i)",
    "concat_ws('-', s, v)", "length(s)", "length(v)", "char_length(s)", "trim(s)", "substring(s, 2)",
    "substring(s, 1, 2)", "substring(s, 9, 2)", "startswith(s, 'a')", "endswith(s, '')", "contains(s, v)",
    "s like 'a%'", "s like '_'", "s like '%_%'", "s like '____'", "s not like 'a%'", "s like ''", "v like '%0'",
    "cast(i as bigint)", "cast(i as string)", "cast(b as string)", "cast(y as string)", "cast(s as string)",
    "cast(f as double)", "cast(b as double)", "cast(si as int)", "cast(i as decimal(12,2))", "cast(m as double)",
    "cast(o as string)", "cast(m as decimal(12,3))", "cast(m as decimal(10,1))", "cast(k as decimal(18,0))",
    "try_cast(b as int)", "try_cast(i as tinyint)", "try_cast(m as decimal(4,2))", "string(i)", "round(m, 1)",
    "round(m)", "round(k, 2)", "round(m, 5)", "round(x, 17)", "datediff(y, date '2000-01-01')", "year(y)", "month(y)",
    "day(y)", "quarter(y)", "dayofmonth(y)", "i / 2", "b / 2", "d / 2", "ti / 2", "b / 1", "i / -2", "i / 2.5D",
    "f / 2", "i / nullif(si, 0)", "d / nullif(d, 0)", "i % 2", "b % 3", "mod(ti, 4)", "si % 70000", "-d", "-f",
    "abs(d)", "abs(m)", "-m", "m + 1", "m + 1.5", "m + k", "m - k", "k + i", "m + b", "d + 1", "d * 2", "d + i",
    "d * d", "d + 0.1", "m + d", "m * 2", "m * i", "m * m", "m * k", "m * 0.19", "-(m * 3) + 7", "k * 1", "f + 1",
    "f + d", "f * f", "i + 1.5", "i * 1.5", "b + 1.5", "m * 1.5D", "true", "1", "3000000000", "2.5", "0.5", "1e3",
    "'x'", "date '2024-01-01'", "1.5D", "2L", "1.50BD", "-5", "-2147483648", "-0.0D",
    "timestamp_ntz '2024-01-01 10:00:00'",
)
"""Expressions that no row makes fail."""
SMALL: Final = (
    "i + 1", "i - b", "b * i", "ti + ti", "ti * si", "si - 1", "-i", "-ti", "abs(i)", "abs(b)", "i * 2",
    "cast(b as int)", "cast(i as tinyint)", "cast(k as decimal(9,4))", "i / 3", "y + 1", "y + si",
)
"""Expressions that fail for the largest numbers."""
IN_ZONE: Final = (
    *(
        f"date_trunc('{unit}', {of})"
        for unit in ("year", "quarter", "month", "week", "day", "hour", "minute", "second")
        for of in ("t", "n")
    ),
    "date_trunc('day', y)", "date_trunc('hour', y)", "cast(t as date)", "cast(n as date)", "to_date(t)", "date(n)",
    "cast(t as timestamp_ntz)", "cast(n as timestamp)", "cast(y as timestamp)", "cast(y as timestamp_ntz)",
    "year(t)", "month(n)", "day(t)", "hour(t)", "minute(t)", "second(t)", "hour(n)", "minute(n)", "quarter(t)",
    "timestamp '2024-11-03 01:30:00'", "t < n", "y = t", "coalesce(t, n)", "coalesce(y, t)", "greatest(t, n)",
    "t = '2024-10-27 02:30:00'", "t > '2024-03-31 02:30:00'", "t = '2024-11-03 00:30:00'",
)
AGGREGATES: Final = (
    "count(*)", "count(i)", "count(distinct v)", "count(distinct d)", "count(distinct c)", "sum(ti)", "sum(si)",
    "sum(i)", "sum(m)", "sum(k)", "sum(distinct si)", "avg(ti)", "avg(si)", "avg(i)", "avg(m)", "avg(k)",
    "avg(m) filter (where i > 0)", "avg(distinct si)", "min(i)", "max(s)", "min(s)", "max(d)", "max(f)", "min(y)",
    "max(t)", "min(n)", "max(m)", "min(o)", "max(z)", "any_value(1)", "bool_or(o)", "bool_and(o)", "count_if(i > 3)",
    "count(*) filter (where o)", "sum(si) / count(*)", "sum(i) filter (where si > 2)",
    "sum(case when o then m else 0 end)", "sum(m * 2)", "coalesce(sum(i), 0)", "max(i) - min(i)", "count(i) * 2",
    "sum(i + 1)", "sum(d) / 2", "round(avg(m), 2)", "sum(m * si)",
)
WINDOWS: Final = (
    "row_number() over (order by id)", "rank() over (order by i)", "rank() over (order by i desc)",
    "dense_rank() over (order by d)", "rank() over (order by s)", "rank() over (order by d desc nulls last)",
    "sum(si) over (partition by v order by id)", "count(*) over (partition by v)", "max(f) over (order by id)",
    "avg(si) over (partition by o)", "avg(m) over (partition by o)",
    "sum(m) over (order by id rows between 1 preceding and current row)", "sum(si) over (order by si)",
    "min(s) over (partition by o)", "sum(si) over ()", "rank() over (partition by d order by id)",
)
# fmt: on
KEYS: Final = (
    "select d, count(*) as c from db.x group by d",
    "select f, c, count(*) as n from db.x group by f, c",
    "select distinct d, m from db.x",
    "select a.id, b.id as b_id from db.x a join db.x b on a.d = b.f",
    "select a.id, b.id as b_id from db.x a left join db.x b on a.i = b.m and a.s = b.v",
    "select ti as a from db.x union select b from db.x",
    "select si as a, v from db.x intersect select 7, '10' from db.x",
    "select m as a from db.x except select k from db.x",
    "select count(*) as c, sum(si) as s, avg(m) as a, max(y) as y from db.x where id > 100",
    "with q as (select v, sum(m) as s from db.x where i > 0 group by v) select v, s * 2 as s, s + 1 as t from q",
    "select id, (select avg(m) from db.x) as a from db.x where si > (select avg(si) from db.x)",
    "select id from db.x a where exists (select 1 from db.x b where b.i = a.si and b.id <> a.id)",
    "select id from db.x where si not in (select ti from db.x where ti is not null)",
)
"""Queries whose rows depend on which values are equal."""


@pytest.fixture
def awkward(lake: Lake) -> Lake:
    lake.sql(f"create table db.x ({COLUMNS}, primary key (id)) tblproperties ('bucket' = '1')")
    fill(lake)
    return lake


def fill(lake: Lake) -> None:
    schema = lake.table("db.x").schema
    columns = []
    for field, values in zip(schema, zip(*ROWS, strict=True), strict=True):
        is_decimal = pa.types.is_decimal(field.type)
        given = [Decimal(value) if is_decimal and value is not None else value for value in values]
        columns.append(
            pa.array(given, pa.float64()).cast(field.type) if field.name == "f" else pa.array(given, field.type)
        )
    lake.write(pa.table(columns, schema=schema), "db.x")


@pytest.fixture(params=["Europe/Berlin", "America/New_York", "America/Havana"])
def zone(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[str]:
    yield from in_zone(spark, request.param)


def in_zone(spark: SparkSession, name: str) -> Iterator[str]:
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", name)
    yield name
    spark.conf.set("spark.sql.session.timeZone", before or "UTC")


def columns_of(expressions: Sequence[str]) -> str:
    return ", ".join(f"{text} as r{at}" for at, text in enumerate(expressions))


def differences(lake: Lake, query: str, named: Sequence[str] = ()) -> list[str]:
    """How a view that is computed here differs from the query in Spark, in types and values."""
    session = lake._session
    definition = ViewDefinition("", query, session.current_catalog, "db", "UTC", (), ())
    for text in named:
        alone = ViewDefinition("", query_of(text, query), session.current_catalog, "db", "UTC", (), ())
        assert not (why := plan_view(session, alone).needs_spark), f"{text}: {why}"
    assert not plan_view(session, definition).needs_spark, query
    lake.views.drop("db.view", if_exists=True)
    lake.views.create("db.view", query)
    table = lake.table("db.view")
    mine = {f.name: type_text(f.type.with_nullable(True)) for f in table.logical.schema.fields if f.name != ROW_KEY}
    asked = session.engine.columns_of(plan_query(session, SourceText(query, 0, len(query))))
    found = [
        f"{shown(name, named)}: type {mine[name]} and not {type_text(kind)}"
        for name, kind in asked
        if mine[name] != type_text(kind) and not mine[name].startswith(("CHAR", "VARCHAR"))  # columns of a source
    ]
    ours, theirs = (values(rows.select(list(mine))) for rows in (table.scan().to_arrow(), lake.sql(query).toArrow()))
    if len(ours) != len(theirs):
        return [*found, f"{len(ours)} rows and not {len(theirs)}: {ours} {theirs}"]
    for one, other in zip(ours, theirs, strict=True):
        found += [
            f"{shown(name, named)}: {a} and not {b} in {one[:2]}"
            for name, a, b in zip(mine, one, other, strict=True)
            if a != b
        ]
    return found


def query_of(text: str, query: str) -> str:
    """The query with one expression of its own."""
    first = "id" if query.startswith("select id") else "o as g"
    return f"select {first}, {text} as r0{query[query.rindex(' from ') :]}"


def shown(name: str, named: Sequence[str]) -> str:
    return named[int(name[1:])] if named and name[1:].isdigit() else name


def values(rows: pa.Table) -> list[tuple[str, ...]]:
    """The rows as texts, in their order; instants as numbers, and -0.0 is 0.0, which it equals."""
    columns = []
    for column in rows.columns:
        kind = column.type
        if pa.types.is_timestamp(kind):
            column = column.cast(pa.timestamp("us", kind.tz)).cast(pa.int64())
        elif pa.types.is_date(kind):
            column = column.cast(pa.int32())
        columns.append([plain(value) for value in column.to_pylist()])
    return sorted(zip(*columns, strict=True))


def plain(value: Any) -> str:
    return repr(value + 0.0) if isinstance(value, float) else repr(value)


def test_expressions_have_the_values_and_types_of_spark(awkward: Lake) -> None:
    half = len(ANY_ROW) // 2
    for some in (ANY_ROW[:half], ANY_ROW[half:]):
        assert differences(awkward, f"select id, {columns_of(some)} from db.x", some) == []
    assert differences(awkward, f"select id, {columns_of(SMALL)} from db.x where id > 2 and id <> 6", SMALL) == []


def test_dates_and_times_are_those_of_spark_in_the_zone_of_the_session(awkward: Lake, zone: str) -> None:
    query = f"select id, {columns_of(IN_ZONE)} from db.x where id > 1"
    assert differences(awkward, query, IN_ZONE) == []


def test_aggregates_and_window_functions_are_those_of_spark(awkward: Lake) -> None:
    parts = columns_of(AGGREGATES)
    assert differences(awkward, f"select o as g, {parts} from db.x where id > 2 group by o", AGGREGATES) == []
    assert differences(awkward, f"select {parts} from db.x where id > 2") == []
    assert differences(awkward, f"select {parts} from db.x where id > 200") == []
    assert differences(awkward, f"select id, {columns_of(WINDOWS)} from db.x where id > 2", WINDOWS) == []


@pytest.mark.parametrize("query", KEYS)
def test_equal_values_are_those_of_spark(awkward: Lake, query: str) -> None:
    assert differences(awkward, query) == []


@pytest.mark.parametrize(
    "text",
    [
        "i + 1",
        "-i",
        "abs(b)",
        "ti * ti",
        "cast(b as int)",
        "1 / i",
        "cast(m as decimal(4,2))",
        "sum(case when id <> 2 then b end) over ()",
    ],
)
def test_what_fails_in_spark_fails(awkward: Lake, text: str) -> None:
    """It is neither NULL nor another value."""
    query = f"select id, {text} as r from db.x where id <> 4"
    with pytest.raises(Exception, match=r"OVERFLOW|OUT_OF_RANGE|DIVIDE_BY_ZERO|overflow"):
        awkward.sql(query).toArrow()
    with pytest.raises(LakelogError, match="the rows of the view cannot be computed"):
        awkward.views.create("db.failing", query)
    assert awkward.views.list() == []
