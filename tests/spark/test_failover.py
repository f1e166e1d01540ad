"""Queries that fail and start again on Spark: what the log has of the lost tries is taken back, nothing comes twice."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors.exceptions.base import PySparkException

from lakelog.logstore.clients import reader_for
from lakelog.spark.compat.arrow import map_in_arrow

SCHEMA = "id int, name string"
_LONG = "x" * 40_000
"""Makes rows so long that Spark hands them over in small parts."""


@pytest.fixture
def table(lake, spark, tmp_path):
    """Without a key: what is doubled stays doubled. Rows reach the sink two at a time."""
    lake.sql(
        "create table db.t (id int, name string) using lakelog tblproperties ('log-store.enabled' = 'true', "
        "'log-store.data-format' = 'debezium-json', "
        "'bucket' = '2', 'bucket-key' = 'id', 'commit.interval' = '200 ms', 'write-only' = 'true')"
    )
    before = spark.conf.get("spark.sql.execution.arrow.maxRecordsPerBatch")
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "2")
    yield lake.table("db.t")
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", before)


def add(directory: Path, name: str, ids: range) -> None:
    """A file of rows that a stream reads as one micro-batch."""
    directory.mkdir(exist_ok=True)
    part = directory / f"{name}.part"
    part.write_text("\n".join(json.dumps({"id": i, "name": f"n{i}" + _LONG}) for i in ids), encoding="utf-8")
    os.rename(part, directory / f"{name}.json")


def start(lake, directory: Path, checkpoint: Path, tasks: int, poison: Path | None = None):
    """A query that writes what is in the directory; while ``poison`` exists its tasks die after some rows."""

    table = lake.table("db.t").logical

    def dying(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        ends = reader_for(table.log).end_offsets()
        for number, batch in enumerate(batches):
            if number == 3 and poison is not None and poison.exists():
                reader_for(table.log).wait(ends, 30)
                raise RuntimeError("died after some rows")
            yield batch

    frame = lake.spark.readStream.schema(SCHEMA).option("pathGlobFilter", "*.json").json(str(directory))
    return lake.write_stream(map_in_arrow(frame.repartition(tasks), dying, frame.schema), "db.t", str(checkpoint))


def run(lake, directory: Path, checkpoint: Path, tasks: int = 2) -> None:
    query = start(lake, directory, checkpoint, tasks)
    query.processAllAvailable()
    query.stop()


def ids_of(batches) -> list[int]:
    return sorted(n for batch in batches for n in batch["id"].to_pylist())


def check(table, expected: list[int]) -> None:
    """Files, the net rows of the log, and what a transactional reader sees are these rows."""
    table.seal()
    assert ids_of([table.scan().to_arrow()]) == expected
    net: Counter[int] = Counter()
    for row in (r for b in table.tail("earliest", stop="latest") for r in b.to_pylist()):
        net[row["id"]] += 1 if row["_row_kind"] == "+I" else -1
    assert sorted(net.elements()) == expected and min(net.values()) >= 0
    committed = {"log.consistency": "transactional"}
    assert ids_of(table.tail("earliest", stop="latest", options=committed)) == expected


def fail(lake, directory: Path, checkpoint: Path, poison: Path, tasks: int) -> None:
    """A query whose next micro-batch dies."""
    poison.touch()
    query = start(lake, directory, checkpoint, tasks, poison)
    with pytest.raises(PySparkException, match="died after some rows"):
        query.processAllAvailable()
    poison.unlink()


def test_a_new_checkpoint_goes_on_at_once(lake, table, tmp_path) -> None:
    add(tmp_path / "in", "1", range(10))
    query = start(lake, tmp_path / "in", tmp_path / "cp", 2)
    query.processAllAvailable()
    query.stop()
    add(tmp_path / "in", "2", range(10, 30))
    fail(lake, tmp_path / "in", tmp_path / "cp", tmp_path / "poison", 2)
    assert lake.sql(f"call sys.end_writer(table => 'db.t', writer => '{query.id}')").num_rows == 1
    add(tmp_path / "anew", "1", range(10, 30))
    run(lake, tmp_path / "anew", tmp_path / "anew-cp")
    check(table, list(range(30)))
    add(tmp_path / "in", "3", range(90, 95))
    ended = start(lake, tmp_path / "in", tmp_path / "cp", 2)
    with pytest.raises(PySparkException, match="was ended"):
        ended.processAllAvailable()


KEYED = """create table db.k (id int, name string, primary key (id)) using lakelog tblproperties (
'log-store.enabled' = 'true', 'commit.interval' = '100 ms', 'write-only' = 'true'{more})"""


def into(lake, directory: Path, checkpoint: Path):
    frame = lake.spark.readStream.schema(SCHEMA).option("pathGlobFilter", "*.json").json(str(directory))
    return lake.write_stream(frame, "db.k", str(checkpoint))


def test_a_second_query_on_a_table_with_a_key_is_refused_and_names_the_first(lake, tmp_path) -> None:
    lake.sql(KEYED.format(more=""))
    add(tmp_path / "a", "0", range(5))
    add(tmp_path / "b", "0", range(100, 105))
    first, second = into(lake, tmp_path / "a", tmp_path / "a-cp"), None
    first.processAllAvailable()
    second = into(lake, tmp_path / "b", tmp_path / "b-cp")
    second.processAllAvailable()
    with pytest.raises(PySparkException, match=rf"{first.id} .* committed epoch \d+.*concurrent-writers"):
        for number in range(1, 50):
            add(tmp_path / "a", str(number), range(5))
            first.processAllAvailable()
            lake.table("db.k").seal()
            add(tmp_path / "b", str(number), range(100, 105))
            second.processAllAvailable()
    assert first.isActive
    add(tmp_path / "a", "last", range(5, 9))
    first.processAllAvailable()
    first.stop()
    third = into(lake, tmp_path / "b", tmp_path / "b-cp")  # the first one has ended: nobody is in the way
    third.processAllAvailable()
    third.stop()
    assert ids_of([lake.table("db.k").scan().to_arrow()]) == [*range(9), *range(100, 105)]


def test_two_queries_may_write_where_it_is_allowed(lake, tmp_path) -> None:
    lake.sql(KEYED.format(more=", 'write.concurrent-writers' = 'true'"))
    queries = [
        into(lake, tmp_path / name, tmp_path / f"{name}-cp") for name in "ab" if not add(tmp_path / name, "0", range(1))
    ]
    for number in range(1, 4):
        for name, query in zip("ab", queries, strict=True):
            add(tmp_path / name, str(number), range(5) if name == "a" else range(100, 105))
            query.processAllAvailable()
            lake.table("db.k").seal()
    assert ids_of([lake.table("db.k").scan().to_arrow()]) == [*range(5), *range(100, 105)]
