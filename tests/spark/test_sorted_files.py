"""OPTIMIZE … ZORDER BY and CALL sys.compact with an order: rows are laid out by columns, and stay the same."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lakelog import Lake
from lakelog.errors import InvalidRequest, InvalidSchema, UnsupportedFeature, UnsupportedStatement
from lakelog.filestore.skipping.predicate import In
from lakelog.table.read.file_scan import Scan

ROWS = 60_000
SMALL_FILES = "'target-file-size' = '6 kb'"


def fill(lake: Lake, clauses: str = "", options: str = SMALL_FILES) -> None:
    """``db.t``: x and name are of all values in every file; ``part`` is 0 or 1; a few NULLs."""
    lake.sql(f"create table db.t (id bigint, x int, name string, part int) {clauses} tblproperties ({options})")
    rng = np.random.default_rng(5)
    x, names = rng.integers(0, 10_000, ROWS), rng.integers(0, 10_000, ROWS)
    for part in range(2):
        here = slice(part * ROWS // 2, (part + 1) * ROWS // 2)
        rows = pa.table(
            {
                "id": pa.array(range(here.start, here.stop), pa.int64()),
                "x": pa.array([None if v < 10 else v for v in x[here].tolist()], pa.int32()),
                "name": [f"n{v:05}" for v in names[here].tolist()],
                "part": pa.array([part] * (ROWS // 2), pa.int32()),
            }
        )
        lake.write(rows, "db.t")


def content(lake: Lake) -> pa.Table:
    return lake.table("db.t").scan().to_arrow().sort_by("id")


def opened(lake: Lake, column: str, value: object) -> float:
    """The part of the files that a filter on a column leaves to be read."""
    table = lake.table("db.t").logical
    count = [sum(len(s.files) for s in Scan(table, filter=f).plan()) for f in (In(column, (value,)), None)]
    return count[0] / count[1]


@pytest.mark.parametrize("clauses", ["", "partitioned by (part)"])
def test_a_z_order_leaves_few_files_to_filters_on_each_of_its_columns(lake: Lake, clauses: str) -> None:
    fill(lake, clauses)
    before = content(lake)
    assert (opened(lake, "x", 3_333), opened(lake, "name", "n03333")) == (1, 1)
    (done,) = lake.sql("optimize db.t zorder by (x, name)").to_pylist()
    assert done["files_after"] >= 16 and done["snapshot_id"] == 3
    assert content(lake).equals(before)
    assert opened(lake, "x", 3_333) < 0.4
    assert opened(lake, "name", "n03333") < 0.4
    assert lake.table("db.t").history(1).to_pylist()[0]["operation"] == "COMPACT"


def test_an_order_leaves_the_fewest_to_its_first_column(lake: Lake) -> None:
    fill(lake)
    before = content(lake)
    lake.sql("call sys.compact(table => 'db.t', order_strategy => 'order', order_by => '`X`, name')")
    assert content(lake).equals(before)
    assert opened(lake, "x", 3_333) < 0.15
    assert opened(lake, "name", "n03333") > 0.8


def test_only_chosen_partitions_are_written_again(lake: Lake) -> None:
    fill(lake, "partitioned by (part)")
    before = content(lake)
    table = lake.table("db.t").logical

    def names() -> set[str]:
        return {f.file_name for split in Scan(table).plan() for f in split.files}

    kept = names()
    lake.sql("optimize db.t where part = 1 zorder by x")
    now = names()
    zero = {f.file_name for s in Scan(table, filter=In("part", (0,))).plan() for f in s.files}
    one = {f.file_name for s in Scan(table, filter=In("part", (1,))).plan() for f in s.files}
    assert now == zero | one and zero <= kept and not one & kept
    assert content(lake).equals(before)


def test_rows_of_fixed_buckets_stay_in_them(lake: Lake) -> None:
    fill(lake, options="'bucket' = '3', 'bucket-key' = 'id', 'target-file-size' = '20 kb'")
    before = content(lake)
    lake.sql("optimize db.t zorder by (x, name)")
    assert content(lake).equals(before)
    found = lake.sql("select count(*) from db.t where id = 77").collect()[0][0]
    assert found == 1
    splits = Scan(lake.table("db.t").logical).plan()
    for split in splits:
        rows = pa.Table.from_batches(list(Scan(lake.table("db.t").logical).read(split)))
        assert rows.num_rows > 0
    assert {split.bucket for split in splits} == {0, 1, 2}


def test_clustering_appends_nothing_to_the_log(lake: Lake) -> None:
    fill(lake, options=f"{SMALL_FILES}, 'log-store.enabled' = 'true'")
    before, ends = content(lake), lake.sql("select * from db.t$log").toArrow().to_pylist()
    lake.sql("optimize db.t zorder by (x, name)")
    assert content(lake).equals(before)
    assert lake.sql("select * from db.t$log").toArrow().to_pylist() == ends


def test_an_empty_table_stays_empty(lake: Lake) -> None:
    lake.sql("create table db.t (a int, b int)")
    (done,) = lake.sql("optimize db.t zorder by (a, b)").to_pylist()
    assert (done["snapshot_id"], done["files_after"]) == (None, 0)


def test_a_table_without_options_and_with_odd_columns(lake: Lake) -> None:
    lake.sql("create table db.t (a int, `_place` int, `b c` int); insert into db.t values (2, 3, 4), (1, 2, 3)")
    lake.sql("optimize db.t zorder by (a, `b c`)")
    assert sorted(map(tuple, lake.sql("select * from db.t").collect())) == [(1, 2, 3), (2, 3, 4)]


def test_streams_of_the_files_see_no_row_again(lake: Lake) -> None:
    lake.sql("create table db.t (a int, b int) tblproperties ('streaming-read-overwrite' = 'true')")
    lake.sql("insert into db.t values (2, 3), (1, 2)")
    lake.sql("optimize db.t zorder by (a, b)")
    lake.sql("insert into db.t values (5, 5)")
    query = lake.read_stream("db.t", options={"scan.mode": "earliest"}).writeStream.format("memory")
    seen = query.queryName("sorted_seen").trigger(availableNow=True).start()
    seen.awaitTermination(120)
    found = sorted((row["a"], row["b"]) for row in lake._engine.started.spark.table("sorted_seen").collect())
    assert found == [(1, 2), (2, 3), (5, 5)]


def test_a_concurrently_removed_file_restarts_the_clustering(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(lake)
    before = content(lake)
    engine = lake._engine.started
    save = engine._save

    def late(*given: object, **more: object) -> None:
        monkeypatch.undo()
        lake.sql("delete from db.t where id = 0")
        save(*given, **more)

    monkeypatch.setattr(engine, "_save", late)
    lake.sql("optimize db.t zorder by (x, name)")
    assert opened(lake, "x", 3_333) < 0.4
    assert content(lake).equals(before.filter(pc.field("id") != 0))


def test_what_cannot_be_laid_out_is_refused(lake: Lake) -> None:
    lake.sql("create table db.k (id int, a int, primary key (id))")
    lake.sql("create table db.t (a int, tags array<int>, p int) partitioned by (p)")
    for statement, error, why in (
        ("optimize db.k zorder by (a)", InvalidRequest, "rows of table db.k are sorted by its primary key"),
        ("optimize db.t zorder by (a, b)", InvalidSchema, "has no column 'b'; it has: a, tags, p"),
        ("optimize db.t zorder by (a, A)", InvalidSchema, "column 'A' is named twice"),
        ("optimize db.t zorder by (p)", InvalidSchema, "'p' of table db.t is a partition column"),
        ("optimize db.t zorder by (tags)", InvalidSchema, "column 'tags' of table db.t: its type ARRAY has no order"),
        ("optimize db.t zorder by ()", UnsupportedStatement, "expected a column"),
        (
            "call sys.compact('db.t', order_strategy => 'hilbert', order_by => 'a')",
            InvalidRequest,
            "unknown order_strategy 'hilbert': use one of order, zorder",
        ),
        ("call sys.compact('db.t', order_strategy => 'order')", InvalidSchema, "name the columns"),
        (
            "call sys.compact('db.t', full => false, order_strategy => 'order', order_by => 'a')",
            InvalidRequest,
            "leave out full",
        ),
        ("optimize db.t$snapshots zorder by (a)", UnsupportedFeature, "is a system table"),
        ("call sys.compact('db.t', order_by => 'a')", InvalidRequest, "order_by needs an order_strategy"),
    ):
        with pytest.raises(error, match=why):
            lake.sql(statement)
