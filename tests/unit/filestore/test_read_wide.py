"""Files as other writers and older versions leave them: fewer columns, more columns, other names, other places."""

from __future__ import annotations

import json
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lakelog.errors import Corrupt, UnsupportedFeature
from lakelog.fileformat.parquet import ParquetFormat
from lakelog.filestore.read.changes import DELTA, Changes
from lakelog.filestore.skipping.predicate import Compare, IsNull
from lakelog.filestore.skipping.pruning import Pruning
from lakelog.filestore.store import FileStore
from lakelog.io.names import new_uuid
from lakelog.io.storage.delegating import ExternalFileIO
from lakelog.paimon.metadata.data_file import EMPTY_STATS, BucketFiles, DataFileMeta
from lakelog.paimon.rows.partition import encode_partition
from lakelog.paimon.schema.schema import POSTPONE_BUCKET, TableSchema
from lakelog.paimon.types.types import parse_type

NONE = b"\x00" * 12
I, D = 0, 3  # noqa: E741 - row kinds
FORMAT = ParquetFormat()


def test_files_in_thin_mode_have_no_key_columns_and_merge_all_the_same(make_table) -> None:
    table = make_table()
    for rows in (((I, 1, "a", 1.0), (I, 2, "b", 2.0)), ((I, 2, "c", 3.0), (D, 1, None, None), (I, 3, "d", 4.0))):
        (files,) = table.staged(*rows)
        table.commit_files(table.rewritten(files, lambda t: t.drop_columns(["_KEY_id"])))
    assert [(r["id"], r["name"]) for r in table.read()] == [(2, "c"), (3, "d")]
    assert table.read(["name"], Compare("id", "=", 3)) == [{"name": "d"}]


def test_columns_that_the_schema_does_not_name_are_left_aside(make_table) -> None:
    table = make_table(primary_keys=(), row_tracking_enabled="false")
    (files,) = table.staged((I, 1, "a", 1.0), (I, 2, "b", 2.0))

    def tracked(rows: pa.Table) -> pa.Table:
        numbers = pa.array(range(100, 102), pa.int64())
        return rows.append_column("_ROW_ID", numbers).append_column("_SEQUENCE_NUMBER", pc.add(numbers, 7))

    table.commit_files(table.rewritten(files, tracked, first_row_id=100))
    assert [r["id"] for r in table.read()] == [1, 2]
    (entry,) = table.store.live_entries(table.store.latest_snapshot())
    rows = table.store.file_rows(NONE, 0, entry.file)
    assert rows.column("_SEQUENCE_NUMBER").to_pylist() == [0, 1]


@pytest.mark.parametrize("name", ["data-1-0.zstd.parquet", "mine-1.snappy.parquet", "data.parquet"])
def test_only_the_last_extension_determines_the_format(make_table, name) -> None:
    table = make_table()
    (files,) = table.staged((I, 1, "a", 1.0))
    table.commit_files(table.rewritten(files, lambda t: t, name))
    assert table.ids() == [1]


@pytest.mark.parametrize("name", ["data-1.lance", "data-1.blob", "data-1.csv.gz"])
def test_a_format_that_is_not_known_is_named(make_table, name) -> None:
    table = make_table()
    (files,) = table.staged((I, 1, "a", 1.0))
    table.commit_files(table.rewritten(files, lambda t: t, name))
    with pytest.raises(UnsupportedFeature, match=name):
        table.ids()


def test_an_external_path_wins(make_table) -> None:
    table = make_table()
    (files,) = table.staged((I, 1, "a", 1.0))
    own = table.store.paths.data_file(NONE, 0, files.new_files[0])
    table.commit_files(
        BucketFiles(NONE, 0, 1, (replace(files.new_files[0], external_path="/far/away/data-x.parquet"),))
    )
    inner = table.store.io.inner
    inner.write("/far/away/data-x.parquet", inner.read(own))
    with pytest.raises(Corrupt, match="catalog.external-paths"):
        table.ids()
    allowed = FileStore(ExternalFileIO(inner, ("/far/elsewhere", "/far/away")), "/t", table.store.schema)
    assert allowed.read_table(allowed.plan()).num_rows == 1
    allowed.io.delete("/far/away/data-x.parquet")
    assert inner.exists("/far/away/data-x.parquet"), "what may belong to another table is not deleted"


@pytest.mark.parametrize("filter", [Compare("name", "=", "a"), IsNull("amount"), Compare("id", "<", 2)], ids=str)
@pytest.mark.parametrize(
    "meta",
    [
        {"value_stats": EMPTY_STATS, "key_stats": EMPTY_STATS},
        {"value_stats": EMPTY_STATS, "value_stats_cols": ()},
        {"delete_row_count": None, "creation_time_ms": None, "file_source": None},
        {"extra_files": ("data-1.parquet.index",), "embedded_file_index": b"\x00\x01"},
    ],
    ids=["no statistics", "of no columns", "old", "with indexes"],
)
def test_files_that_say_little_are_read_with_any_filter(make_table, filter, meta) -> None:
    table = make_table()
    (files,) = table.staged((I, 1, "a", None), (I, 2, "b", 2.0))
    table.commit_files(table.rewritten(files, lambda t: t, **meta))
    assert table.ids(filter) == [1]


def test_statistics_of_some_columns_prune_by_those_only(make_table) -> None:
    table = make_table(primary_keys=())
    (files,) = table.staged((I, 1, "a", None), (I, 2, "b", 2.0))
    (file,) = files.new_files
    dense = make_table(primary_keys=(), columns=(("name", "STRING"),))
    schema = dense.store.schema
    rows = pa.table({"name": ["a", "b"]})
    writer = dense.store.bucket_writer(NONE, 0)
    writer.write(rows)
    (described,) = writer.finish()
    assert len(schema.fields) == 1
    meta = replace(file, value_stats=described.value_stats, value_stats_cols=("name",))
    table.commit_files(replace(files, new_files=(meta,)))
    assert table.ids(Compare("id", ">", 1)) == [2]
    assert table.ids(Compare("name", "=", "b")) == [2]
    assert table.store.plan(filter=Compare("name", "=", "z")) == []
    assert len(table.store.plan(filter=Compare("id", "=", 99))) == 1


def test_partition_columns_come_from_the_partition_when_files_lack_them(make_table) -> None:
    columns = (("day", "DATE"), ("id", "INT"), ("area", "STRING"))
    table = make_table(primary_keys=(), partition_keys=("day", "area"), columns=columns)
    schema = table.store.schema
    for days, area in ((19782, "eu"), (-165, None)):
        place = encode_partition((days, area), schema)
        name = f"data-{new_uuid()}-0.parquet"
        rows = pa.table({"id": pa.array([days], pa.int32())})
        path = f"{table.store.paths.bucket_dir(place, 0)}/{name}"
        size = FORMAT.write(table.store.io, path, rows.to_batches(), rows.schema)
        table.commit_files(BucketFiles(place, 0, -1, new_files=(DataFileMeta(name, size, 1),)))
    found = sorted((str(r["day"]), r["id"], r["area"]) for r in table.store.read_table(table.store.plan()).to_pylist())
    assert found == [("1969-07-20", -165, None), ("2024-02-29", 19782, "eu")]
    only = table.store.read_table(table.store.plan(), ["area"], None)
    assert sorted(map(str, only.column("area").to_pylist())) == ["None", "eu"]
    filter = Compare("area", "=", "eu")
    assert table.store.read_table(table.store.plan(filter=filter), ["id"], filter).to_pylist() == [{"id": 19782}]


def test_postponed_files_are_not_visible(make_table) -> None:
    table = make_table()
    (files,) = table.staged((I, 1, "a", 1.0))
    late = replace(files, bucket=POSTPONE_BUCKET, total_buckets=POSTPONE_BUCKET)
    table.commit_files(late, *table.staged((I, 2, "b", 2.0)))
    assert len(table.store.live_entries(table.store.latest_snapshot())) == 2
    assert table.ids() == [2]
    changes = Changes(table.store.manifests, table.store.schema, Pruning(table.store.schemas, None))
    assert [split.bucket for split in changes.of_snapshots([table.store.latest_snapshot()], DELTA)] == [0]


@pytest.mark.parametrize("bucket", ["-1", "-2"])
def test_keyed_tables_without_fixed_buckets_read_each_bucket(make_table, bucket) -> None:
    table = make_table()
    (first,) = table.staged((I, 1, "a", 1.0), (I, 2, "b", 2.0))
    (second,) = table.staged((I, 7, "c", 1.0))
    table.commit_files(replace(first, total_buckets=-1))
    moved = replace(second, bucket=1, total_buckets=-1)
    old = table.store.paths.data_file(NONE, 0, second.new_files[0])
    table.store.io.write(table.store.paths.data_file(NONE, 1, second.new_files[0]), table.store.io.read(old))
    table.commit_files(moved)
    schema = table.store.schema
    table.store = FileStore(table.store.io, "/t", replace(schema, options={**schema.options, "bucket": bucket}))
    assert table.ids() == [1, 2, 7]
    assert table.ids(Compare("id", "=", 7)) == [7]


def test_a_schema_of_the_first_version_has_one_bucket_and_reads(make_table) -> None:
    table = make_table()
    table.insert((I, 1, "a", 1.0))
    found = json.loads(table.store.schema.to_json())
    for key in ("version", "timeMillis"):
        del found[key]
    del found["options"]["bucket"]
    schema = TableSchema.from_json(json.dumps(found).encode())
    assert (schema.version, schema.num_buckets) == (1, 1)
    store = FileStore(table.store.io, "/t", schema)
    filter = Compare("id", "=", 1)
    assert store.read_table(store.plan(filter=filter), ["id"], filter).to_pylist() == [{"id": 1}]


def test_files_with_some_of_the_columns_are_refused_in_the_plan(make_table) -> None:
    table = make_table(primary_keys=())
    (files,) = table.staged((I, 1, "a", 1.0))
    table.commit_files(table.rewritten(files, lambda t: t.select(["id"]), write_cols=("id",), first_row_id=0))
    with pytest.raises(UnsupportedFeature, match="data evolution"):
        table.store.plan()


def test_files_that_name_all_their_columns_are_whole(make_table) -> None:
    table = make_table(primary_keys=())
    (files,) = table.staged((I, 1, "a", 1.0))
    table.commit_files(table.rewritten(files, lambda t: t, write_cols=("id", "name", "amount", "_ROW_ID")))
    assert table.ids() == [1]


def test_other_columns_of_a_table_with_an_unknown_type_are_read(make_table) -> None:
    table = make_table(primary_keys=())
    table.insert((I, 1, "a", 1.0))
    schema = table.store.schema
    fields = (replace(schema.field("name"), type=parse_type("BLOB")), schema.field("id"))
    wide = FileStore(table.store.io, "/t", replace(schema, fields=fields))
    filter = Compare("id", ">", 0)
    assert wide.read_table(wide.plan(filter=filter), ["id"], filter).to_pylist() == [{"id": 1}]
    with pytest.raises(UnsupportedFeature, match="BLOB"):
        wide.read_table(wide.plan())
