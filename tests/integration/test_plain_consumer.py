"""The topic of a table as a debezium-json consumer reads it that is not lakelog's, and a batch read of the table."""

from __future__ import annotations

import datetime as dt
import json
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest

import debezium_consumer
from all_types import COLUMNS, DDL, NANOSECONDS, make, rows, write
from lakelog.lake.table import Table
from log_tables import log_of

KINDS = {"id": "bigint"} | {column.name: column.kind for column in COLUMNS}


def messages(kafka, table: Table):
    location = log_of(table)
    return debezium_consumer.messages(kafka.bootstrap, location.topic)


def comparable(row: dict[str, Any]) -> str:
    """A row as text that is equal when the row is: NaN equals NaN, 0.0 is not -0.0, an instant has no zone of its
    own."""
    return repr(_comparable(row))


def _comparable(value: Any) -> Any:
    if isinstance(value, dict):
        return sorted((name, _comparable(held)) for name, held in value.items())
    if isinstance(value, list):
        found = [_comparable(held) for held in value]
        return sorted(found) if value and isinstance(value[0], tuple) else found  # a map
    if isinstance(value, tuple):
        return tuple(_comparable(held) for held in value)
    return value.astimezone(dt.UTC) if isinstance(value, dt.datetime) and value.tzinfo else value


def read_here(table: Table) -> list[dict[str, Any]]:
    """lakelog's batch read."""
    return list(table.scan().to_arrow().to_pylist())


@pytest.mark.parametrize("mode", ["all", "upsert"])
def test_a_keyed_table_folds_to_what_a_batch_read_gives(tmp_path, kafka, mode) -> None:
    table = make(tmp_path, DDL, ", primary key (id)", mode, 2, kafka.bootstrap)
    old, new = rows(0, 40), [row | {"id": row["id"] - 100} for row in rows(100, 20)]
    write(table, old)
    pairs = [row for pair in zip(old[:20], new, strict=True) for row in pair]
    write(table, pairs, ["-U", "+U"] * 20)
    write(table, old[30:35], ["-D"] * 5)
    folded = debezium_consumer.folded(messages(kafka, table), ["id"])
    got = sorted(comparable(debezium_consumer.typed(row, KINDS)) for row in folded.values())
    here = sorted(comparable(row) for row in read_here(table))
    assert got == here
    assert len(here) == 35
    ops = Counter(json.loads(value)["op"] for value in messages(kafka, table) if value is not None)
    assert ops == ({"c": 40, "u": 20, "d": 5} if mode == "all" else {"c": 60, "d": 5})


def test_replaced_rows_of_a_table_without_a_key_add_up_to_what_a_batch_read_gives(tmp_path, kafka) -> None:
    table = make(tmp_path, DDL, "", "all", 2, kafka.bootstrap)
    for _ in range(2):
        write(table, rows(0, 30))
    for first in (10, 20):
        table.write(table.scan(filter=f"id >= {first}").to_arrow(), overwrite=True)
        added = debezium_consumer.added_up(messages(kafka, table))
        got = {comparable(debezium_consumer.typed(json.loads(row), KINDS)): n for row, n in added.items() if n}
        assert got == Counter(comparable(row) for row in read_here(table))
        assert len(got) == 30 - first
    ops = Counter(json.loads(value)["op"] for value in messages(kafka, table) if value is not None)
    assert ops == {"c": 60, "d": 40}


def test_nanoseconds_come_whole(tmp_path, kafka) -> None:
    table = make(tmp_path, "at timestamp_ntz(9)", ", primary key (id)", "all", 2, kafka.bootstrap)
    batch = pa.table({"id": range(len(NANOSECONDS)), "at": pa.array(NANOSECONDS, pa.timestamp("ns"))})
    table.write(batch)
    folded = debezium_consumer.folded(messages(kafka, table), ["id"])
    kinds = {"id": "bigint", "at": "nanoseconds"}
    got = [debezium_consumer.typed(folded[(number,)], kinds)["at"] for number in range(len(NANOSECONDS))]
    assert got == table.scan().to_arrow().sort_by("id").column("at").cast(pa.int64()).to_pylist() == NANOSECONDS
