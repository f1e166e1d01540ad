"""Backfill beside the log, and the watermark that a snapshot keeps."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import patch

import pyarrow as pa
import pytest

from lakelog import connect
from lakelog.errors import InvalidOption, NotFound, Unavailable
from lakelog.io.clock import now_ms
from lakelog.lake.table import Table
from lakelog.table.commit import committer
from lakelog.table.commit.committer import Committer
from lakelog.table.commit.seal import seal
from lakelog.table.log.register import register_writer
from lakelog.table.staging.backfill import catch_up_of, is_backfilling
from lakelog.table.staging.task_writer import TaskWriter
from limits import forget_tables

GAP = "'emit.auto-write-to-logstore.watermark-gap' = '10 min', 'watermark.column' = 'at'"
HOUR = 3_600_000


def make(path: Path, more: str = GAP, kind: str = "timestamp", key: str = ", primary key (id)") -> Table:
    lake = connect(warehouse=str(path / "warehouse"))
    bucket = "" if key else "'bucket-key' = 'id', "
    lake.sql(
        f"create table db.t (id int, at {kind}{key}) using lakelog tblproperties ('log-store.enabled' = 'true', "
        f"'bucket' = '2', {bucket}{more})"
    )
    return lake.table("db.t")


def rows(*changes: tuple[int, int | None], kind: pa.DataType | None = None) -> pa.Table:
    """(id, age in ms)."""
    times = [None if age is None else now_ms() - age for _, age in changes]
    at = pa.array(times, pa.timestamp("ms", "UTC"))
    ids = pa.array([i for i, _ in changes], pa.int32())
    return pa.table({"id": ids, "at": at if kind is None else at.cast(kind, safe=False)})


def write(table: Table, *changes: tuple[int, int | None]) -> None:
    table.write(rows(*changes))


def logged(table: Table, start: str = "earliest") -> list[int]:
    return sorted(i for b in table.tail(start, stop="latest") for i in b["id"].to_pylist())


def stored(table: Table, **options: str) -> list[int]:
    return sorted(table.scan(options=options).to_arrow()["id"].to_pylist())


@pytest.mark.parametrize("key", [", primary key (id)", ""])
def test_old_rows_go_to_the_files_alone_and_live_ones_to_both(tmp_path, key) -> None:
    table = make(tmp_path, key=key)
    write(table, (1, 48 * HOUR), (2, 47 * HOUR))
    write(table, (3, 2 * HOUR))
    assert ("log written since", "not yet", "rows are written to the files only") in table.describe(extended=True)
    assert logged(table) == [] and stored(table) == [1, 2, 3]
    before = now_ms()
    write(table, (4, 60_000))
    assert logged(table) == [], "the rows that show that it has caught up still go to the files"
    found = catch_up_of(table.logical)
    assert found is not None and before <= found.time_ms <= now_ms()
    assert before - 61_000 < found.watermark_ms <= now_ms() - 60_000
    write(table, (5, 50_000))
    write(make_again(tmp_path), (6, 48 * HOUR))
    assert logged(table) == [5, 6], "it does not fall back, not even for old rows of another process"
    assert stored(table) == [1, 2, 3, 4, 5, 6]
    since = next(row for row in table.describe(extended=True) if row[0] == "log written since")
    assert found.writer in since[2] and since[1].endswith("+00:00")


def make_again(path: Path) -> Table:
    forget_tables()
    return connect(warehouse=str(path / "warehouse")).table("db.t")


def test_rows_of_the_files_alone_are_seen_by_reads_of_both_stores(tmp_path) -> None:
    table = make(tmp_path)
    write(table, (1, 48 * HOUR), (2, 48 * HOUR))
    assert stored(table, **{"read.mode": "union"}) == [1, 2]
    assert logged(table, "latest-full") == [1, 2]
    whole = table.tail("latest-full", stop="latest", options={"log.consumer.normalize": "true"})
    assert sorted(i for batch in whole for i in batch["id"].to_pylist()) == [1, 2]
    write(table, (3, 0))
    write(table, (2, 0), (4, 0))
    assert stored(table, **{"read.mode": "union"}) == stored(table) == [1, 2, 3, 4]
    assert logged(table, "latest-full") == [1, 2, 3, 4]
    with table.writer() as writer:
        writer.write(rows((1, 0), (5, 0)))
        writer.flush()
        assert stored(table, **{"read.mode": "union"}) == [1, 2, 3, 4, 5]
        assert stored(table) == [1, 2, 3, 4]


def test_a_stream_that_dies_between_the_decision_and_the_note_catches_up_all_the_same(tmp_path) -> None:
    table = make(tmp_path).logical
    register_writer(table, "w")

    def attempt(epoch: int, *changes: tuple[int, int]):
        task = TaskWriter(table, "w", epoch, lane=0)
        task.write(rows(*changes).to_batches()[0])
        return task.finish()

    first, second = attempt(0, (1, 0)), attempt(0, (1, 0))
    with patch.object(committer, "note_catch_up", side_effect=Unavailable("died")), pytest.raises(Unavailable):
        Committer(table, "w").commit(0, [first])
    assert is_backfilling(table)
    driver = Committer(table, "w")
    driver.commit(0, [second])
    found = catch_up_of(table)
    assert found is not None and (found.writer, found.epoch) == ("w", 0)
    late = attempt(1, (2, 0))
    assert late.appends and not first.appends
    driver.commit(1, [late])
    seal(driver)
    assert stored(make_again(tmp_path)) == [1, 2]


def test_a_write_that_names_its_stores_is_not_held_back(tmp_path) -> None:
    table = make(tmp_path)
    table.write(rows((1, 48 * HOUR)), options={"emit.mode": "file,log"})
    assert logged(table) == [1]
    table.write(rows((2, 0)), options={"emit.mode": "file"})
    assert logged(table) == [1] and stored(table) == [1, 2]


def test_the_spellings_of_amoro(tmp_path) -> None:
    table = make(tmp_path, "'watermark.column' = 'at'")
    gap = {"arctic.emit.auto-write-to-logstore.watermark-gap": "1 h"}
    table.write(rows((1, 2 * HOUR)), options=gap)
    write(table, (2, 2 * HOUR))
    assert logged(table) == [2], "the gap was an option of the first write"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (GAP.replace("'at'", "'on'"), "no such column. Columns: id, at"),
        (GAP.replace("'at'", "'id'"), "the column is int32"),
    ],
)
def test_options_that_say_no_watermark_are_refused(tmp_path, options, said) -> None:
    with pytest.raises(InvalidOption, match=said):
        make(tmp_path, options)


def test_a_gap_without_a_watermark_column_is_refused_before_the_first_row(tmp_path) -> None:
    table = make(tmp_path, GAP.split(",")[0])
    with pytest.raises(InvalidOption, match=r"watermark\.column"):
        write(table, (1, 0))
    assert stored(table) == logged(table) == []


# the watermark in the snapshot


@pytest.mark.parametrize("kind", ["timestamp", "timestamp_ntz", "bigint", "date"])
def test_a_snapshot_has_the_watermark_of_its_rows_and_is_found_by_it(tmp_path, kind) -> None:
    table = make(tmp_path, "'watermark.column' = 'at', 'watermark.delay' = '1 s'", kind)
    day = 24 * HOUR
    marks = []
    for number in (10, 30, 20):
        with table.writer() as writer:
            at = pa.array([number * day, (number - 1) * day, None], pa.timestamp("ms", "UTC"))
            typed = {"timestamp": at, "timestamp_ntz": at.cast(pa.timestamp("ms")), "bigint": at.cast(pa.int64())}
            typed["date"] = at.cast(pa.timestamp("ms")).cast(pa.date32())
            writer.write(pa.table({"id": pa.array([number, number + 1, number + 2], pa.int32()), "at": typed[kind]}))
        marks.append(table.logical.store.latest_snapshot().watermark)
    assert marks == [10 * day - 1000, 30 * day - 1000, 30 * day - 1000], "it never goes back"
    assert stored(table, **{"scan.watermark": str(10 * day - 1000)}) == [10, 11, 12]
    assert len(stored(table, **{"scan.watermark": str(10 * day)})) == 6
    assert len(stored(table, **{"scan.version": f"watermark-{11 * day}"})) == 6
    with pytest.raises(NotFound, match="watermark"):
        stored(table, **{"scan.watermark": str(30 * day)})


def test_a_table_without_a_log_keeps_its_watermark_too(tmp_path) -> None:
    lake = connect(warehouse=str(tmp_path / "warehouse"))
    lake.sql("create table db.t (id int, at bigint) using lakelog tblproperties ('watermark.column' = 'at')")
    table = lake.table("db.t")
    table.write(pa.table({"id": pa.array([1, 2], pa.int32()), "at": [7, 5]}))
    table.write(pa.table({"id": pa.array([3], pa.int32()), "at": pa.nulls(1, pa.int64())}))
    assert [s["watermark"] for s in lake.table("db.t$snapshots").scan().to_arrow().to_pylist()] == [7, 7]


def test_a_renamed_event_time_is_still_found(tmp_path) -> None:
    lake = connect(warehouse=str(tmp_path / "warehouse"))
    lake.sql("create table db.t (id int, at bigint) using lakelog tblproperties ('watermark.column' = 'at')")
    lake.sql("alter table db.t rename column at to happened")
    table = lake.table("db.t")
    table.write(pa.table({"id": pa.array([1], pa.int32()), "happened": [9]}))
    assert table.logical.store.latest_snapshot().watermark == 9
