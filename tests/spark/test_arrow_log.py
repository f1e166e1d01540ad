"""Streams with large micro-batches into a table whose log has format ``arrow``: both stores stay equal."""

from __future__ import annotations

import polars as pl
import pyarrow.parquet as pq
import pytest

from lakelog.spark.compat.natives import STREAM_LIMITS
from seen_batches import SeenBatches

ROWS = 200_000
CREATE = """create table db.t (id bigint, name string, amount double, primary key (id)) using lakelog
tblproperties ('log-store.enabled' = 'true', 'bucket' = '2', 'log-store.data-format' = 'arrow',
'log.changelog-mode' = '{mode}')"""


def put(directory, number: int, rows: pl.DataFrame, files: int) -> None:
    """The files of a micro-batch: of two for two tasks Spark reads the larger one first, so changes come in one."""
    directory.mkdir(exist_ok=True)
    for part, piece in enumerate(rows.iter_slices(-(-len(rows) // files))):
        pq.write_table(piece.to_arrow(), directory / f".{number}-{part}.tmp", row_group_size=65_536)
        (directory / f".{number}-{part}.tmp").rename(directory / f"{number}-{part}.parquet")


def upserts(first: int, name: str) -> pl.DataFrame:
    ids = pl.int_range(first, first + ROWS, eager=True)
    return pl.DataFrame({"id": ids, "name": [f"{name}"] * ROWS, "amount": ids.cast(pl.Float64) / 3})


def changes(first: int, old: str, new: str) -> pl.DataFrame:
    """Half as many updates, -U before +U, of rows that are there, and then deletes of a tenth of them."""
    count = ROWS // 2
    before, after = upserts(first, old)[:count], upserts(first, new)[:count]
    pairs = pl.concat(
        [
            before.with_columns(pl.lit("-U").alias("_row_kind"), pl.int_range(count).alias("at")),
            after.with_columns(pl.lit("+U").alias("_row_kind"), pl.int_range(count).alias("at")),
        ]
    ).sort("at", "_row_kind", descending=[False, True])
    gone = after[: count // 10].with_columns(pl.lit("-D").alias("_row_kind"))
    return pl.concat([pairs.drop("at"), gone])


def stream(lake, spark, directory, checkpoint, with_kinds: bool) -> None:
    schema = "id bigint, name string, amount double" + (", _row_kind string" if with_kinds else "")
    rows = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1 if with_kinds else 2).parquet(str(directory))
    query = lake.write_stream(rows, "db.t", str(checkpoint))
    query.processAllAvailable()
    query.stop()


def fold(batches) -> pl.DataFrame:
    """What a changelog amounts to: the last change of each key."""
    rows = pl.concat([pl.from_arrow(batch) for batch in batches if batch.num_rows])
    newest = rows.group_by("id", maintain_order=True).last()
    return newest.filter(pl.col("_row_kind").is_in(["+I", "+U"])).drop("_row_kind").sort("id")


def check_all_reads(lake, spark, tmp_path, expected: pl.DataFrame) -> None:
    table, expected = lake.table("db.t"), expected.sort("id")
    for what, found in {
        "files": pl.from_arrow(table.scan().to_arrow()).sort("id"),
        "both stores": pl.from_arrow(table.scan(options={"read.mode": "union"}).to_arrow()).sort("id"),
        "log": fold(table.tail("earliest", stop="latest")),
        "snapshot, then log": fold(table.tail("latest-full", stop="latest")),
    }.items():
        assert found.equals(expected.select(found.columns)), what
    for mode in ("earliest", "latest-full"):
        taken = SeenBatches(tmp_path / f"{mode}-seen")
        options = {"read.mode": "log", "scan.startup.mode": mode}
        options |= {"read.max-rows-per-trigger": "300000"} if STREAM_LIMITS else {}
        reading = spark.readStream.format("lakelog").options(**options).load("db.t").writeStream
        reading = reading.foreachBatch(taken.take)
        reading.option("checkpointLocation", str(tmp_path / mode)).trigger(availableNow=True).start().awaitTermination()
        found = pl.concat([pl.from_arrow(batch) for batch in taken.batches() if batch.num_rows])
        net = found.select(pl.when(pl.col("_row_kind").is_in(["+I", "+U"])).then(1).otherwise(-1).sum()).item()
        assert net >= len(expected), mode
        assert set(expected["id"]) <= set(found["id"]), mode
    batch = lake.sql("select count(*) as n, sum(amount) as s from db.t").collect()[0]
    assert (batch.n, round(batch.s)) == (len(expected), round(expected["amount"].sum()))


@pytest.mark.parametrize("mode", ["all", "upsert"])
def test_large_micro_batches_of_changes_fill_both_stores(lake, spark, tmp_path, mode) -> None:
    lake.sql(CREATE.format(mode=mode))
    put(tmp_path / "in", 0, upserts(0, "a").with_columns(pl.lit("+I").alias("_row_kind")), files=1)
    put(tmp_path / "in", 1, changes(0, "a", "b"), files=1)
    stream(lake, spark, tmp_path / "in", tmp_path / "cp", with_kinds=True)
    count = ROWS // 2
    expected = pl.concat([upserts(0, "b")[count // 10 : count], upserts(0, "a")[count:]])
    check_all_reads(lake, spark, tmp_path, expected)
    told = lake.table("db.t").tail("earliest", stop="latest")
    kinds = {kind for batch in told for kind in set(batch["_row_kind"].to_pylist())}
    assert kinds == ({"+I", "-U", "+U", "-D"} if mode == "all" else {"+I", "-D"})
