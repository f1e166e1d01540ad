"""Arrays, maps and structs: in tables without rows, and changed by statements."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from lakelog import Lake
from seen_batches import SeenBatches

COLUMNS = "id int, many array<int>, named map<string, int>, inside struct<a: int, b: array<struct<x: string>>>"
KEYED = ", primary key (id)"
KINDS = {
    "logged": (KEYED, "'bucket' = '2', 'log-store.enabled' = 'true'"),
    "vectors": (KEYED, "'bucket' = '1', 'deletion-vectors.enabled' = 'true'"),
    "rows": ("", "'bucket' = '-1'"),
}


@pytest.fixture(params=list(KINDS))
def table(request: pytest.FixtureRequest, lake: Lake) -> str:
    key, options = KINDS[request.param]
    lake.sql(f"create table db.t ({COLUMNS}{key}) using lakelog tblproperties ({options})")
    return "db.t"


def rows(lake: Lake, table: str) -> list[tuple[object, ...]]:
    query = f"select id, many, named['x'], inside.a, inside.b[0].x from {table} order by id"
    return [tuple(row) for row in lake.sql(query).collect()]


def test_a_table_without_rows_is_read_and_merged(lake: Lake, table: str) -> None:
    assert rows(lake, table) == []
    assert lake.sql(f"select * from {table}").columns == ["id", "many", "named", "inside"]
    nothing = lake.table(table).schema.empty_table()
    lake.table(table).merge(nothing, "t.id = s.id").whenNotMatchedInsertAll().execute()
    assert rows(lake, table) == []


def test_rows_are_changed_by_and_with_nested_values(lake: Lake, table: str) -> None:
    one = "array({0}, null), map('x', {0}), named_struct('a', {0}, 'b', array(named_struct('x', 't{0}')))"
    lake.sql(f"insert into {table} values " + ", ".join(f"({i}, {one.format(i)})" for i in range(6)))
    lake.sql(f"update {table} set inside.a = 99, many = array_append(many, 7) where named['x'] = 4")
    lake.sql(f"delete from {table} where many = array(1, null) or inside.b[0].x = 't2'")
    newer = pa.Table.from_pylist(
        [{"id": i, "many": [], "named": None, "inside": {"a": -i, "b": [{"x": None}]}} for i in (5, 8)],
        lake.table(table).schema,
    )
    merge = lake.table(table).merge(newer, "t.id = s.id")
    merge.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
    assert rows(lake, table) == [
        (0, [0, None], 0, 0, "t0"),
        (3, [3, None], 3, 3, "t3"),
        (4, [4, None, 7], 4, 99, "t4"),
        (5, [], None, -5, None),
        (8, [], None, -8, None),
    ]


@pytest.mark.parametrize("normalize", ["false", "true"])
def test_a_log_is_followed_with_null_in_arrays_and_maps(
    lake: Lake, spark: SparkSession, tmp_path: Path, normalize: str
) -> None:
    """Spark takes such rows from tasks only; between them come batches without, which the planner reads."""
    lake.sql(f"create table db.t ({COLUMNS}{KEYED}) using lakelog tblproperties ('log-store.enabled' = 'true')")
    seen = SeenBatches(tmp_path / "seen")
    options = {"read.mode": "log", "scan.startup.mode": "earliest", "log.consumer.normalize": normalize}
    changes = spark.readStream.format("lakelog").options(**options).load("db.t")
    following = changes.writeStream.foreachBatch(seen.take).start()
    for number, (many, value) in enumerate([("array(1, 2)", "1"), ("array(1, null)", "2"), ("array()", "null")] * 2):
        inside = f"named_struct('a', {number}, 'b', array(cast(null as struct<x: string>)))"
        lake.sql(f"insert into db.t values ({number}, {many}, map('x', {value}), {inside if number > 3 else 'null'})")
        following.processAllAvailable()
    following.stop()
    found = {row["id"]: (row["many"], row["named"], row["inside"]) for row in seen.rows()}
    assert found == {
        row["id"]: (row["many"], row["named"], row["inside"])
        for row in lake.table("db.t").scan().to_arrow().to_pylist()
    }
    assert [found[number][0] for number in range(6)] == [[1, 2], [1, None], []] * 2
