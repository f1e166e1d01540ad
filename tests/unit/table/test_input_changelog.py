"""Changelog producer ``input``: every row that is written is told, in order, beside the files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakelog.errors import InvalidOption
from lakelog.filestore.write.changelog_writer import changelog_style
from lakelog.lake.lake import Lake
from lakelog.lake.table import Table
from lakelog.options.option import Options
from lakelog.table.commit.committer import Committer
from lakelog.table.commit.seal import seal
from lakelog.table.staging.task_writer import TaskWriter

ROW = pa.schema([("p", pa.string()), ("id", pa.int32()), ("v", pa.string()), ("_row_kind", pa.string())])
Told = list[tuple[str, str, int, str]]


def make(lake: Lake, **options: object) -> Table:
    given = {"bucket": 1, "changelog-producer": "input", **options}
    listed = ", ".join(f"'{k}' = '{v}'" for k, v in given.items())
    lake.sql(
        "create table db.t (p string, id int, v string, primary key (p, id)) using lakelog partitioned by (p) "
        f"tblproperties ({listed})"
    )
    return lake.table("db.t")


def rows(*changes: str) -> pa.Table:
    """Rows like ``+I a 1 x``."""
    split = [change.split() for change in changes]
    return pa.Table.from_pylist(
        [{"p": p, "id": int(i), "v": v, "_row_kind": kind} for kind, p, i, v in split], schema=ROW
    )


def write(table: Table, *batches: pa.Table, options: Mapping[str, str] | None = None) -> None:
    with table.writer(options=options, missing="null") as writer:
        for batch in batches:
            writer.write(batch)


def told(table: Table, start: int = 1) -> list[str]:
    return [
        f"{row['_row_kind']} {row['p']} {row['id']} {row['v']}"
        for plan in table.stream_plan(from_snapshot=start)
        for row in plan.to_arrow().to_pylist()
    ]


def state(table: Table) -> dict[tuple[str, int], str]:
    return {(row["p"], row["id"]): row["v"] for row in table.scan().to_arrow().to_pylist()}


def folded(changes: Iterable[str]) -> dict[tuple[str, int], str]:
    out: dict[tuple[str, int], str] = {}
    for kind, p, key, value in (change.split() for change in changes):
        if kind in ("+I", "+U"):
            out[p, int(key)] = value
        else:
            out.pop((p, int(key)), None)
    return out


def changelog_files(table: Table) -> list[Any]:
    store = table.logical.store
    lists = [store.snapshot(n).changelog_manifest_list for n in store.snapshots.ids()]
    metas = [meta for name in lists if name is not None for meta in store.manifests.read_list(name)]
    return [entry.file for meta in metas for entry in store.manifests.read(meta.file_name)]


def test_rows_are_emitted_by_key_and_then_in_their_order(lake: Lake) -> None:
    table = make(lake)
    write(table, rows("+I a 2 one", "+I a 1 one", "-U a 1 one", "+U a 1 two"), rows("-D a 2 one"))
    assert told(table) == ["+I a 1 one", "-U a 1 one", "+U a 1 two", "+I a 2 one", "-D a 2 one"]
    assert state(table) == {("a", 1): "two"}
    snapshot = table.logical.store.snapshot(1)
    assert (snapshot.changelog_record_count, snapshot.delta_record_count) == (5, 2)


def test_a_changelog_file_has_the_directory_and_the_counter_of_the_data_file(lake: Lake) -> None:
    table = make(lake, **{"changelog-file.format": "avro"})
    write(table, rows("+I a 1 x"))
    (entry,) = table.logical.store.live_entries(table.latest_snapshot())
    (change,) = changelog_files(table)
    assert change.file_name == entry.file.file_name.replace("data-", "changelog-").replace("-0.parquet", "-1.avro")


def test_ignored_rows_are_not_emitted(lake: Lake) -> None:
    table = make(lake, **{"ignore-delete": "true"})
    write(table, rows("+I a 1 x", "-D a 1 x", "-U a 2 y", "+U a 2 z"))
    assert told(table) == ["+I a 1 x", "+U a 2 z"]


def test_a_sequence_field_orders_the_emitted_changes(lake: Lake) -> None:
    table = make(lake, **{"sequence.field": "v"})
    write(table, rows("+I a 1 9", "+I a 1 3", "+I a 1 5"))
    assert told(table) == ["+I a 1 3", "+I a 1 5", "+I a 1 9"]
    assert state(table) == {("a", 1): "9"}


def test_all_rows_of_an_aggregation_are_emitted_and_none_is_counted_twice(lake: Lake) -> None:
    table = make(lake, **{"merge-engine": "aggregation", "fields.v.aggregate-function": "listagg"})
    write(table, rows("+I a 1 x", "+I a 1 y"))
    write(table, rows("+I a 1 z"))
    assert told(table) == ["+I a 1 x", "+I a 1 y", "+I a 1 z"]
    assert state(table) == {("a", 1): "x,y,z"}


@pytest.mark.parametrize("buckets", [1, -1])
def test_large_runs_bring_their_changelog_and_keep_the_order_among_small_ones(lake: Lake, buckets: int) -> None:
    table = make(lake, bucket=buckets, **{"write-buffer-size": "10 kb"})
    batches = [rows(*(f"+U a {i % 7} {n}-{i}" for i in range(40 * n))) for n in (1, 30, 1, 30, 2)]
    write(table, *batches)
    write(table, *batches[:2])
    expected = [
        f"{row['_row_kind']} {row['p']} {row['id']} {row['v']}"
        for batch in (*batches, *batches[:2])
        for row in batch.to_pylist()
    ]
    found = told(table)
    for key in range(7):
        mine = [change for change in expected if change.split()[2] == str(key)]
        assert [change for change in found if change.split()[2] == str(key)] == mine
    assert folded(found) == state(table)
    # a run that was shifted leaves its first files, as it does without a changelog
    table.remove_orphan_files(timedelta(0))
    assert told(table) == found


def test_files_of_decided_epochs_are_no_orphans(lake: Lake) -> None:
    inner = make(lake, **{"write-buffer-size": "1 kb"}).logical
    table = lake.table("db.t")
    task = TaskWriter(inner, "w", 0, lane=0)
    for start in range(0, 400, 100):
        batch = rows(
            *(f"+I a {i} x" for i in range(start, start + 100)), *(f"+U a {i} y" for i in range(start, start + 100))
        )
        task.write(batch.to_batches()[0])
    committer = Committer(inner, "w")
    record = committer.commit(0, [task.finish()])
    assert record is not None
    assert sum(len(run.changelog) for a in record.attempts for run in a.runs) > 0
    assert table.remove_orphan_files(timedelta(0)).files == ()
    seal(committer)
    assert len(told(table)) == 800
    assert state(table) == {("a", i): "y" for i in range(400)}


def test_a_changelog_is_renumbered_with_its_data(lake: Lake) -> None:
    table = make(lake)
    store = table.logical.store
    first = TaskWriter(table.logical, "one", 0, lane=0)
    first.write(rows("+I a 1 x").to_batches()[0])
    write(table, rows("+I a 1 early", "+I a 1 other"))
    committer = Committer(table.logical, "one")
    committer.commit(0, [first.finish()])
    seal(committer)
    early, late = changelog_files(table)
    assert (early.min_sequence_number, early.max_sequence_number) == (0, 1)
    assert late.min_sequence_number == 2
    assert state(table) == {("a", 1): "x"}
    assert changelog_style(Options(store.schema.options), 0).prefix == "changelog-"


def test_overwrites_and_compactions_are_not_emitted(lake: Lake) -> None:
    table = make(lake)
    write(table, rows("+I a 1 x"))
    table.write(rows("+I a 1 y", "+I a 2 z"), overwrite=True)
    table.compact()
    write(table, rows("+I a 3 w"))
    assert told(table) == ["+I a 1 x", "+I a 3 w"]
    assert len(changelog_files(table)) == 2
    assert table.remove_orphan_files(timedelta(0)).files == ()


def test_a_write_without_change_tracking_emits_no_changes(lake: Lake) -> None:
    table = make(lake)
    write(table, rows("+I a 1 x"))
    write(table, rows("+I a 2 y"), options={"change-tracking": "false"})
    assert told(table) == ["+I a 1 x"]
    assert state(table) == {("a", 1): "x", ("a", 2): "y"}


def test_a_table_without_change_tracking_has_no_changelog(lake: Lake) -> None:
    table = make(lake, **{"change-tracking": "false"})
    write(table, rows("+I a 1 x", "+U a 1 y"))
    assert changelog_files(table) == []
    assert told(table) == ["+U a 1 y"]


@pytest.mark.parametrize(
    ("key", "options", "said"),
    [
        ("", {"bucket": "-1"}, "'input' needs a primary key"),
        ("id", {"merge-engine": "first-row"}, "does not go with 'merge-engine' = 'first-row': take none or lookup"),
        ("id", {"log-store.enabled": "true"}, "does not go with a log, which has every row as it was written"),
        (
            "id",
            {"changelog-producer": "none", "log-store.enabled": "true", "change-tracking": "false"},
            "'change-tracking' = 'false' .*'log-store.enabled' = 'true'",
        ),
        (
            "id",
            {
                "changelog-producer.row-deduplicate": "true",
                "changelog-producer.row-deduplicate-ignore-fields": "loaded_at",
            },
            "the table has no column 'loaded_at'",
        ),
    ],
)
def test_a_producer_that_does_not_fit_is_refused(lake: Lake, key: str, options: Mapping[str, str], said: str) -> None:
    given = {"changelog-producer": "input", **options}
    listed = ", ".join(f"'{k}' = '{v}'" for k, v in given.items())
    primary = f", primary key ({key})" if key else ""
    with pytest.raises(InvalidOption, match=said):
        lake.sql(f"create table db.t (id int, v string{primary}) using lakelog tblproperties ({listed})")


def test_changelog_files_have_no_indexes(lake: Lake) -> None:
    table = make(lake, **{"file-index.bloom-filter.columns": "v"})
    write(table, rows("+I a 1 x"))
    write(table, rows("+I a 1 x", "+U a 1 y"))
    entries = table.logical.store.live_entries(table.latest_snapshot())
    assert all(e.file.extra_files for e in entries)
    assert [(f.embedded_file_index, f.extra_files) for f in changelog_files(table)] == [(None, ()), (None, ())]


def test_rows_of_keys_that_come_once_are_copied_and_others_written(lake: Lake) -> None:
    table = make(lake, **{"file.suffix.include.compression": "true"})
    write(table, rows("+I a 2 x", "+I a 1 y", "-D a 3 z"))
    write(table, rows("+U a 2 x2", "+U a 2 x3"))
    (copied, written) = changelog_files(table)
    (data, *_) = (e.file for e in table.logical.store.live_entries(table.logical.store.snapshot(1)))
    bucket = Path(table.path) / "p=a" / "bucket-0"
    assert (bucket / copied.file_name).read_bytes() == (bucket / data.file_name).read_bytes()
    assert copied.file_name == data.file_name.replace("data-", "changelog-").replace("-0.zstd", "-1.zstd")
    assert (copied.row_count, copied.delete_row_count, written.row_count) == (3, 1, 2)
    assert told(table) == ["+I a 1 y", "+I a 2 x", "-D a 3 z", "+U a 2 x2", "+U a 2 x3"]
