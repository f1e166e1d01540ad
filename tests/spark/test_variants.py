"""VARIANT columns in Spark: written by parse_json, read by variant_get, changed by statements and by streams."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import lakelog
from lakelog import Lake
from lakelog.paimon.types.variant import has_variant

KEYED = ", primary key (id)"
KINDS = {
    "keyed": (KEYED, "'bucket' = '2'"),
    "logged": (KEYED, "'bucket' = '2', 'log-store.enabled' = 'true', 'log-store.data-format' = 'debezium-json'"),
    "rows": ("", "'bucket' = '-1'"),
}
ROWS = """(1, parse_json('{"a": 1, "b": [1, 2.5]}')), (2, null), (3, parse_json('null'))"""


@pytest.fixture(params=list(KINDS))
def table(request: pytest.FixtureRequest, lake: Lake) -> str:
    key, options = KINDS[request.param]
    lake.sql(f"create table db.t (id int, v variant{key}) using lakelog tblproperties ({options})")
    return "db.t"


def texts(lake: Lake, table: str) -> dict[int, str | None]:
    return {row[0]: row[1] for row in lake.sql(f"select id, to_json(v) from {table}").collect()}


def test_statements_read_and_change_values(lake: Lake, table: str) -> None:
    lake.sql(f"insert into {table} values {ROWS}")
    assert texts(lake, table) == {1: '{"a":1,"b":[1,2.5]}', 2: None, 3: "null"}
    found = lake.sql(f"select id, variant_get(v, '$.a', 'int'), v:b[1]::double from {table} order by id").collect()
    assert [tuple(row) for row in found] == [(1, 1, 2.5), (2, None, None), (3, None, None)]
    for condition, ids in (
        ("v is null", [2]),
        ("v:a::int = 1", [1]),
        ("v is not null and id > 1", [3]),
        ("v:a is null", [2, 3]),
    ):
        assert [row.id for row in lake.sql(f"select id from {table} where {condition} order by id").collect()] == ids
    lake.sql(f"update {table} set v = parse_json('[7]') where id = 2")
    lake.sql(f"delete from {table} where v:a::int = 1")
    lake.sql(
        f"merge into {table} t using (select 3 id, parse_json('{{\"m\": 1}}') v union all select 9, parse_json('9')) s "
        "on t.id = s.id when matched then update set v = s.v when not matched then insert *"
    )
    assert texts(lake, table) == {2: "[7]", 3: '{"m":1}', 9: "9"}
    lake.table(table).compact()
    assert texts(lake, table) == {2: "[7]", 3: '{"m":1}', 9: "9"}


def test_values_in_lists_and_rows_and_of_a_query(lake: Lake) -> None:
    lake.sql(
        "create table c as select 1 id, parse_json('[1]') v, array(parse_json('1'), null) many, "
        "named_struct('x', parse_json('{\"q\": 1}'), 'y', cast(null as variant)) inside"
    )
    assert {name: kind for name, kind, _ in lake.table("c").describe()}["v"] == "variant"
    query = "select to_json(v), to_json(many[0]), to_json(many[1]), to_json(inside.x), to_json(inside.y) from c"
    assert tuple(lake.sql(query).collect()[0]) == ("[1]", "1", None, '{"q":1}', None)
    rows = lake.sql("select * from c").to_arrow()
    assert rows.to_pylist() == lake.table("c").scan().to_arrow().to_pylist()
    assert [name for name in rows.column_names if has_variant(rows.schema.field(name).type)] == rows.column_names[1:]


def test_arrow_and_spark_read_and_write_the_same_values(lake: Lake, spark: SparkSession, table: str) -> None:
    values = ['{"a": {"b": [1.50, 1e0, "é"]}}', None, "12345678901234567890"]
    rows = pa.table({"id": pa.array([1, 2, 3], pa.int32()), "v": lakelog.variant.from_json(values)})
    lake.write(rows, table)
    frame = lake.sql(f"select * from {table}")
    assert frame.schema["v"].dataType.simpleString() == "variant"
    assert frame.to_arrow().sort_by("id").equals(lake.table(table).scan().to_arrow().sort_by("id"))
    made = {row.id: None if row.v is None else (row.v.value, row.v.metadata) for row in frame.collect()}
    parts = [None if one is None else (one["value"], one["metadata"]) for one in rows.column("v").to_pylist()]
    assert made == dict(enumerate(parts, 1))
    again = spark.sql(f"select id + 10 id, parse_json(j) v from values {', '.join(map(str, VALUES))} s(id, j)")
    lake.write(again, table)
    written = lake.table(table).scan(filter="id > 10").to_arrow().sort_by("id")
    assert lakelog.variant.to_json(written.column("v")).to_pylist() == ['{"a":1}', "1.5"]


VALUES = [(1, '{"a": 1}'), (2, "1.5")]


def test_a_stream_reads_and_writes_values(lake: Lake, table: str, tmp_path: Path) -> None:
    lake.sql(f"insert into {table} values {ROWS}")
    lake.sql("create table db.copy (id int, v variant, primary key (id)) using lakelog tblproperties ('bucket' = '1')")
    stream = lake.read_stream(table, options={"scan.startup.mode": "latest-full"})
    query = lake.write_stream(stream, "db.copy", checkpoint=str(tmp_path / "checkpoint"))
    query.processAllAvailable()
    lake.sql(f"insert into {table} values (4, parse_json('[4]'))")
    query.processAllAvailable()
    query.stop()
    lake.table("db.copy").seal()
    assert texts(lake, "db.copy") == {1: '{"a":1,"b":[1,2.5]}', 2: None, 3: "null", 4: "[4]"}


def test_columns_are_added_and_other_types_are_refused(lake: Lake, table: str) -> None:
    lake.sql(f"insert into {table} values {ROWS}")
    lake.sql(f"alter table {table} add column w variant")
    lake.sql(f"insert into {table} (id, w) values (4, parse_json('true'))")
    rows = lake.sql(f"select id, to_json(w) from {table} order by id").collect()
    assert [tuple(row) for row in rows] == [(1, None), (2, None), (3, None), (4, "true")]
    assert lake.sql(f"select * from {table}").to_arrow().num_rows == 4
