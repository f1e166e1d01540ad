"""A column of every type that a table can have, as other readers of its log call it, with values at the edges.

Nanoseconds stand in a table of their own: a Parquet file cannot hold them beside other timestamps.
"""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from debezium_consumer import Kind
from lakelog import connect
from lakelog.lake.table import Table


class Column(NamedTuple):
    """A column: its type in CREATE TABLE, in Flink, and for ``debezium_consumer``; values beside null."""

    name: str
    ddl: str
    flink: str
    kind: Kind
    values: list[Any]


_DAY, _NOON = dt.date(2024, 2, 29), dt.datetime(2024, 2, 29, 12, 30, 1)
_FINE = _NOON.replace(microsecond=123_456)

COLUMNS = [
    Column("yes", "boolean", "BOOLEAN", "boolean", [True, False]),
    Column("tiny", "tinyint", "TINYINT", "tinyint", [-128, 127]),
    Column("small", "smallint", "SMALLINT", "smallint", [-32_768, 32_767]),
    Column("num", "int", "INT", "int", [-(2**31), 2**31 - 1]),
    Column("big", "bigint", "BIGINT", "bigint", [-(2**63), 2**63 - 1, 2**53 + 1]),
    Column("real", "float", "FLOAT", "float", [1.5, 0.1, -0.0, math.nan, math.inf, 3.4e38]),
    Column("wide", "double", "DOUBLE", "double", [0.1, 1e300, 5e-324, math.nan, -math.inf, -0.0]),
    Column("price", "decimal(10, 2)", "DECIMAL(10, 2)", "decimal", [Decimal("12.50"), Decimal("-99999999.99")]),
    Column(
        "large",
        "decimal(38, 18)",
        "DECIMAL(38, 18)",
        "decimal",
        [Decimal("12345678901234567890.123456789012345678"), Decimal("-0.000000000000000001")],
    ),
    Column(
        "text", "string", "STRING", "string", ["", 'quote " and \\', "line\nend\ttab", "žluťoučký 🐎", "null", "\x00"]
    ),
    Column("short", "char(3)", "CHAR(3)", "string", ["abc"]),
    Column("limited", "varchar(10)", "VARCHAR(10)", "string", ["ten chars!"]),
    Column("raw", "binary", "BYTES", "binary", [b"", b"\x00\xff\xfe", bytes(range(256))]),
    Column("fixed", "binary(2)", "BINARY(2)", "binary", [b"\x01\x02"]),
    Column("day", "date", "DATE", "date", [_DAY, dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.date(1969, 12, 31)]),
    Column("daytime", "time(0)", "TIME(0)", "time", [dt.time(0, 0), dt.time(23, 59, 59)]),
    Column("at3", "timestamp_ntz(3)", "TIMESTAMP(3)", "timestamp", [_NOON, _FINE.replace(microsecond=7_000)]),
    Column("at", "timestamp_ntz", "TIMESTAMP(6)", "timestamp", [_NOON, _FINE, dt.datetime(1900, 1, 1, 0, 0, 0, 1)]),
    Column(
        "instant",
        "timestamp",
        "TIMESTAMP_LTZ(6)",
        "timestamp_ltz",
        [_FINE.replace(tzinfo=dt.UTC), _NOON.replace(tzinfo=dt.timezone(dt.timedelta(hours=-7)))],
    ),
    Column("tags", "array<string>", "ARRAY<STRING>", ["array", "string"], [[], ["a", None, ""]]),
    Column(
        "moments",
        "array<timestamp_ntz>",
        "ARRAY<TIMESTAMP(6)>",
        ["array", "timestamp"],
        [[_FINE, None, _NOON]],
    ),
    Column("scores", "map<string, int>", "MAP<STRING, INT>", ["map", "string", "int"], [[], [("a", 1), ("", None)]]),
    Column(
        "home",
        "struct<street: string, no: int, since: date, paid: decimal(5, 1)>",
        "ROW<street STRING, no INT, since DATE, paid DECIMAL(5, 1)>",
        {"street": "string", "no": "int", "since": "date", "paid": "decimal"},
        [
            {"street": "Main", "no": 1, "since": _DAY, "paid": Decimal("1.5")},
            {"street": None, "no": None, "since": None, "paid": None},
        ],
    ),
    Column(
        "deep",
        "array<struct<k: string, m: map<string, array<double>>>>",
        "ARRAY<ROW<k STRING, m MAP<STRING, ARRAY<DOUBLE>>>>",
        ["array", {"k": "string", "m": ["map", "string", ["array", "double"]]}],
        [[{"k": "x", "m": [("pi", [3.14, None, math.nan])]}, None]],
    ),
]

DDL = ", ".join(f"{column.name} {column.ddl}" for column in COLUMNS)

NANOSECONDS = [1, -1, 1_700_000_000_123_456_789, 1_700_000_000_000_000_000, None]
"""Values of a ``timestamp_ntz(9)``, since 1970."""


def rows(first: int, count: int) -> list[dict[str, Any]]:
    """So many rows with an ``id`` from ``first`` on: every value of every column, and nulls between them."""
    out = []
    for number in range(first, first + count):
        row: dict[str, Any] = {"id": number}
        for place, column in enumerate(COLUMNS):
            at = (number + place) % (len(column.values) + 1)
            row[column.name] = None if at == len(column.values) else column.values[at]
        out.append(row)
    return out


def make(place: Path, columns: str, key: str, mode: str, buckets: int = 1, address: str | None = None) -> Table:
    """A table with a log: ``id``, these columns and a key (``", primary key (id)"``, or none); on Kafka if asked."""
    more = {"log-store.enabled": "true", "bucket": str(buckets), "log.changelog-mode": mode}
    more |= {} if key else {"bucket-key": "id"}
    more |= {} if address is None else {"log-store.address": address}
    properties = ", ".join(f"'{name}' = '{value}'" for name, value in more.items())
    lake = connect(warehouse=str(place / "warehouse"))
    lake.sql(f"create table db.t (id bigint, {columns}{key}) using lakelog tblproperties ({properties})")
    return lake.table("db.t")


def write(table: Table, given: list[dict[str, Any]], kinds: list[str] | None = None) -> None:
    """Writes rows, or changes when they have kinds, as one commit."""
    batch = pa.Table.from_pylist(given, schema=table.schema)
    table.write(batch if kinds is None else batch.append_column("_row_kind", pa.array(kinds)))
