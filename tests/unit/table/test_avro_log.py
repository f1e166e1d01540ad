"""A table whose log has Avro values: a connector's come in by every reader, its own go out and come back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from avro_of_connect import as_avro
from lakelog import connect
from lakelog.errors import Corrupt, InvalidOption
from lakelog.lake.table import Table
from log_tables import append_foreign
from record_batches import PlainRecord
from recorded_changes import SCHEMAS, TABLE, recorded
from servers.schema_registry import SchemaRegistry

LEFT = {1: "ANT", 20: "bee"}


@pytest.fixture
def registry() -> Iterator[SchemaRegistry]:
    server = SchemaRegistry()
    yield server
    server.close()


def make(path: Path, registry: SchemaRegistry, columns: str = TABLE, more: str = "") -> Table:
    lake = connect(path)
    lake.sql(
        f"create table t ({columns}, primary key (id)) with ('bucket' = '1', 'log-store.enabled' = 'true', "
        f"'log-store.data-format' = 'avro', 'log-store.schema-registry.url' = '{registry.url}'{more})"
    )
    return lake.table("t")


def rows_of(table: Table, *rows: dict[str, Any]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), table.schema)


def fill(table: Table, registry: SchemaRegistry, *more: bytes) -> None:
    log = table.logical.log
    assert log is not None
    values = [as_avro(registry, f"{log.topic}-value", value) for _, value in recorded(SCHEMAS)]
    append_foreign(log, 0, [PlainRecord(n, 0, b"k", value) for n, value in enumerate([*values, *more])])


def names(table: Table, **options: str) -> dict[int, str]:
    found = table.scan(options=options).to_arrow()
    return dict(zip(found["id"].to_pylist(), found["name"].to_pylist(), strict=True))


def test_a_connectors_records_are_rows_for_every_reader(tmp_path: Path, registry: SchemaRegistry) -> None:
    table = make(tmp_path, registry)
    assert list(table.follow("latest")) == []
    fill(table, registry)
    kinds = [row["_row_kind"] for batch in table.tail("earliest", stop="latest") for row in batch.to_pylist()]
    assert kinds == ["+I"] * 4 + ["+U", "-D", "+I", "-D", "-U", "+U", "-D"]
    assert names(table, **{"read.mode": "union"}) == LEFT
    list(table.follow("latest"))
    assert names(table) == LEFT


def test_a_record_of_an_unknown_schema_names_it_and_may_be_skipped(tmp_path: Path, registry: SchemaRegistry) -> None:
    table = make(tmp_path, registry)
    assert list(table.follow("latest")) == []
    fill(table, registry, b"\0\0\0\3\xe7\0")
    offset = len(recorded(SCHEMAS))
    with pytest.raises(Corrupt, match=f"offset {offset} of bucket 0 .*{registry.url} has no schema with id 999"):
        list(table.tail("earliest", stop="latest"))
    found = list(table.tail("earliest", stop="latest", options={"scan.on-bad-record": "skip"}))
    assert sum(batch.num_rows for batch in found) == 11


def test_rows_that_a_table_writes_are_messages_for_any_reader(tmp_path: Path, registry: SchemaRegistry) -> None:
    table = make(tmp_path, registry, "id bigint, name string, tags map<int, date>", ", 'log.changelog-mode' = 'all'")
    with table.writer() as writer:
        writer.write(rows_of(table, {"id": 1, "name": "a"}, {"id": 2, "tags": [(7, None)]}))
        writer.commit()
        writer.write(rows_of(table, {"id": 2, "name": "b", "tags": []}))
        writer.commit()
    assert names(table, **{"read.mode": "union"}) == {1: "a", 2: "b"} == names(table)
    rows = [row for batch in table.tail("earliest", stop="latest") for row in batch.to_pylist()]
    assert [(row["id"], row["name"], row["tags"]) for row in rows] == [
        (1, "a", None),
        (2, None, [(7, None)]),
        (2, "b", []),
    ]
    log = table.logical.log
    assert log is not None
    assert sorted(registry.subjects) == [f"{log.topic}-key", f"{log.topic}-value"]
    for entry in registry.schemas:
        fastavro.parse_schema(json.loads(entry["schema"]))


def test_a_log_outlives_new_and_dropped_columns(tmp_path: Path, registry: SchemaRegistry) -> None:
    make(tmp_path, registry, "id bigint, name string")
    lake = connect(tmp_path)
    for number, change in enumerate(("add column more int", "drop column name", "add column name date")):
        with lake.table("t").writer() as writer:
            writer.write(rows_of(lake.table("t"), {"id": number}))
            writer.commit()
        lake.sql(f"alter table t {change}")
    rows = [row for batch in lake.table("t").tail("earliest", stop="latest") for row in batch.to_pylist()]
    assert [(row["id"], row["more"], row["name"]) for row in rows] == [
        (0, None, None),
        (1, None, None),
        (2, None, None),
    ]


def test_a_table_needs_the_registry_when_it_is_made(tmp_path: Path) -> None:
    with pytest.raises(InvalidOption, match=r"log-store\.schema-registry\.url"):
        connect(tmp_path).sql("create table t (id bigint) with ('log-store.enabled' = 'true', 'log.format' = 'avro')")


def test_a_password_in_plain_text_is_refused(tmp_path: Path, registry: SchemaRegistry) -> None:
    with pytest.raises(InvalidOption, match="plain text") as raised:
        make(tmp_path, registry, more=", 'log-store.schema-registry.password' = 'hush'")
    assert "hush" not in str(raised.value)
