"""The log as Flink's debezium-json format reads it, with its default options, and as lakelog reads it."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from flink_json import JARS, FlinkJson
from py4j.protocol import Py4JJavaError

from all_types import COLUMNS, DDL, NANOSECONDS, make, rows, write
from lakelog.lake.table import Table
from lakelog.service.servers.jars import resolve_jars
from printed import printed_rows

ROW = f"ROW<id BIGINT, {', '.join(f'`{column.name}` {column.flink}' for column in COLUMNS)}>"


@pytest.fixture(scope="module")
def flink() -> Iterator[FlinkJson]:
    with FlinkJson(resolve_jars(JARS)) as running:
        yield running


def log_values(table: Table) -> list[bytes | None]:
    return [value for records in table.log_records() for value in records.column("value").to_pylist()]


def read_here(table: Table) -> list[tuple[str, list[Any]]]:
    out = []
    for batch in table.tail("earliest", stop="latest"):
        for row in printed_rows(pa.Table.from_batches([batch])):
            out.append((row.pop("_row_kind"), list(row.values())))
    return out


def comparable(changes: list[tuple[str, list[Any]]]) -> list[str]:
    return [json.dumps([kind, _comparable(values)]) for kind, values in changes]


def _comparable(value: Any) -> Any:
    """Rows as lists of values; the pairs of a map, which has no order, sorted; -0.0 as 0.0 (see below)."""
    if isinstance(value, dict):
        return [_comparable(held) for held in value.values()]
    if isinstance(value, list):
        found = [_comparable(held) for held in value]
        is_map = bool(found) and all(isinstance(pair, list) and len(pair) == 2 for pair in found)
        return sorted(found, key=repr) if is_map else found
    return 0.0 if isinstance(value, float) and value == 0 else value


@pytest.mark.parametrize("mode", ["all", "upsert"])
def test_flink_reads_every_change_of_a_keyed_table_as_it_is_read_here(tmp_path, flink, mode) -> None:
    table = make(tmp_path, DDL, ", primary key (id)", mode)
    old, new = rows(0, 40), [row | {"id": row["id"] - 100} for row in rows(100, 20)]
    write(table, old)
    write(table, [row for pair in zip(old[:20], new, strict=True) for row in pair], ["-U", "+U"] * 20)
    write(table, old[30:35], ["-D"] * 5)
    found = flink.read(ROW, log_values(table))
    assert comparable(found) == comparable(read_here(table))
    assert len(found) == (85 if mode == "all" else 65)


def test_flink_reads_a_table_without_a_key(tmp_path, flink) -> None:
    table = make(tmp_path, DDL, "", "all")
    write(table, rows(0, 30))
    found = flink.read(ROW, log_values(table))
    assert comparable(found) == comparable(read_here(table))
    assert [kind for kind, _ in found] == ["+I"] * 30


def test_flink_reads_minus_zero_as_zero_next_to_a_decimal(tmp_path, flink) -> None:
    """With a DECIMAL column it takes all numbers as decimals first, which know no -0.0; it is in the log."""
    table = make(tmp_path, "wide double, price decimal(4, 2)", "", "all")
    write(table, [{"id": 1, "wide": -0.0, "price": None}])
    values = log_values(table)
    assert str(flink.read("ROW<id BIGINT, wide DOUBLE>", values)) == "[('+I', [1, -0.0])]"
    assert str(flink.read("ROW<id BIGINT, wide DOUBLE, price DECIMAL(4, 2)>", values)) == "[('+I', [1, 0.0, None])]"


def test_flink_cuts_a_time_of_day_to_whole_seconds(tmp_path, flink) -> None:
    """Its JSON formats read no fraction of a TIME, of whatever precision; it is in the log."""
    table = make(tmp_path, "clock time(3)", "", "all")
    write(table, [{"id": 1, "clock": dt.time(1, 2, 3, 456_000)}])
    assert b'"01:02:03.456"' in b"".join(v for v in log_values(table) if v)
    assert flink.read("ROW<id BIGINT, clock TIME(3)>", log_values(table)) == [("+I", [1, "01:02:03"])]


def test_flink_reads_no_map_without_text_keys(tmp_path, flink) -> None:
    """Its JSON formats refuse such a column; as an array of rows it can be had."""
    table = make(tmp_path, "m map<int, string>", "", "all")
    write(table, [{"id": 1, "m": [(1, "a"), (2, None)]}])
    with pytest.raises(Py4JJavaError, match="non-string as key"):
        flink.read("ROW<id BIGINT, m MAP<INT, STRING>>", log_values(table))
    as_rows = flink.read("ROW<id BIGINT, m ARRAY<ROW<key INT, `value` STRING>>>", log_values(table))
    assert as_rows == [("+I", [1, [[1, "a"], [2, None]]])]


def test_flink_reads_nanoseconds(tmp_path, flink) -> None:
    table = make(tmp_path, "at timestamp_ntz(9), seen timestamp_ltz(9)", "", "all")
    at, seen = (pa.array(NANOSECONDS, pa.timestamp("ns", zone)) for zone in (None, "UTC"))
    table.write(pa.table({"id": range(len(NANOSECONDS)), "at": at, "seen": seen}))
    found = flink.read("ROW<id BIGINT, `at` TIMESTAMP(9), seen TIMESTAMP_LTZ(9)>", log_values(table))
    assert comparable(found) == comparable(read_here(table))
    assert found[2][1][1:] == ["2023-11-14T22:13:20.123456789", "2023-11-14T22:13:20.123456789Z"]
