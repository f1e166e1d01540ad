"""Streams of whole changes from an upsert log, with restarts, in small and in large micro-batches."""

from __future__ import annotations

import polars as pl
import pytest
from pyspark.sql.functions import expr

from changelogs import folded
from seen_batches import SeenBatches

CREATE = """create table db.t (id bigint, name string, primary key (id)) using lakelog
tblproperties ('log-store.enabled' = 'true', 'bucket' = '2', 'log-store.data-format' = '{form}')"""


def write(table, first: int, count: int, name: str) -> None:
    table.write(pl.DataFrame({"id": range(first, first + count), "name": [name] * count}))


def delete(table, *ids: int) -> None:
    table.write(pl.DataFrame({"id": ids, "name": ["gone"] * len(ids), "_row_kind": ["-D"] * len(ids)}))


@pytest.mark.parametrize(
    ("form", "start", "size"),
    [
        ("debezium-json", "latest-full", 30_000),
        ("debezium-json", "earliest", 300),
        ("arrow", "latest-full", 300),
        ("arrow", "earliest", 30_000),
    ],
)
def test_a_restarted_stream_gives_one_whole_changelog(lake, spark, tmp_path, form, start, size) -> None:
    """Of 30,000 rows the buckets are tasks, of 300 the source reads while it plans."""
    lake.sql(CREATE.format(form=form))
    table = lake.table("db.t")
    write(table, 0, size, "a")
    taken = SeenBatches(tmp_path / "seen")

    def read() -> list[dict]:
        hints = f"'read.mode'='log', 'log.consumer.normalize'='true', 'scan.startup.mode'='{start}'"
        changes = lake.sql(f"select id, name, _row_kind from db.t /*+ OPTIONS({hints}) */")
        writing = changes.writeStream.option("checkpointLocation", str(tmp_path / "cp")).foreachBatch(taken.take)
        writing.trigger(availableNow=True).start().awaitTermination()
        return taken.rows()

    read()
    write(table, 0, size // 2, "b")
    write(table, size // 2, size, "a")
    delete(table, 1, 2, -7)
    seen = read()
    commits = tmp_path / "cp" / "commits"
    newest = max((p for p in commits.iterdir() if p.name.isdigit()), key=lambda p: int(p.name))
    newest.unlink()
    again = read()[len(seen) :]
    assert sorted(map(str, again)) == sorted(map(str, seen[len(seen) - len(again) :])), "repeated as it was"
    delete(table, 3)
    write(table, 1, 1, "c")
    seen += read()[len(seen) + len(again) :]
    # rows of two buckets come side by side
    assert folded(sorted(seen, key=lambda row: row["id"])) == {
        row["id"]: row for row in table.scan().to_arrow().to_pylist()
    }
    kinds = [row["_row_kind"] for row in seen]
    assert kinds.count("+I") == size + size // 2 + 1, "rows that were written again as they are tell nothing"
    assert kinds.count("-U") == kinds.count("+U") == size // 2
    assert kinds.count("-D") == 3


def test_a_sum_over_an_upsert_log_comes_out_right(lake, spark, tmp_path) -> None:
    lake.sql(CREATE.format(form="debezium-json"))
    table = lake.table("db.t")
    changes = (
        spark.readStream.format("lakelog")
        .options(**{"read.mode": "log", "log.consumer.normalize": "true", "scan.startup.mode": "earliest"})
        .load("db.t")
    )
    sign = expr("sum(case when _row_kind in ('+I', '+U') then 1 else -1 end)")
    counts = changes.groupBy("name").agg(sign.alias("n"))
    query = counts.writeStream.format("memory").queryName("counts").outputMode("complete").start()
    for name in "abcab":
        write(table, 0, 50, name)
        query.processAllAvailable()
    query.stop()
    found = {row.name: row.n for row in spark.sql("select name, n from counts").collect()}
    assert found == {"a": 0, "b": 50, "c": 0}
