"""Data files: what their metas say, and how they read after the schema has changed."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakelog.errors import UnsupportedFeature
from lakelog.filestore.store import FileStore
from lakelog.paimon.metadata.column_stats import stats_bounds
from lakelog.paimon.rows.binary_row import decode_row
from lakelog.paimon.schema.schema import TableSchema
from lakelog.paimon.types.types import AtomicType, DataField

I, U, D = 0, 2, 3  # noqa: E741 - row kinds


def test_a_meta_says_counts_numbers_keys_and_bounds(make_table) -> None:
    table = make_table()
    rows = ((I, 5, None, 2.5), (D, 2, "x" * 40, -1.0), (I, 9, "b", float("nan")))
    (file,) = table.staged(*rows)[0].new_files
    assert (file.row_count, file.delete_row_count, file.level, file.schema_id, file.file_source) == (3, 1, 0, 0, 0)
    assert (file.min_sequence_number, file.max_sequence_number) == (0, 2)
    types = tuple(f.type for f in table.store.schema.fields)
    assert (decode_row(file.min_key, types[:1]), decode_row(file.max_key, types[:1])) == ((2,), (9,))
    assert stats_bounds(file.key_stats, types[:1], 0) == (2, 9, 0)
    assert stats_bounds(file.value_stats, types, 0) == (2, 9, 0)
    low, high, nulls = stats_bounds(file.value_stats, types, 1)
    assert (low, high, nulls) == ("b", "x" * 15 + "y", 1)
    low, high, nulls = stats_bounds(file.value_stats, types, 2)
    assert (low, str(high), nulls) == (-1.0, "nan", 0)
    assert file.value_stats_cols is None


def test_statistics_of_many_batches_are_those_of_all_rows(make_table) -> None:
    table = make_table(target_file_size="100 kb")
    rows = 5000
    writer = table.store.bucket_writer(b"\x00" * 12, 0)
    names = pa.array([None if i % 5 == 0 else f"{i:05d}" for i in range(rows)])
    writer.write(pa.table({"id": pa.array(range(rows), pa.int32()), "name": names, "amount": [1.0] * rows}))
    files = writer.finish()
    types = tuple(f.type for f in table.store.schema.fields)
    assert sum(f.row_count for f in files) == rows
    assert sum(stats_bounds(f.value_stats, types, 1)[2] for f in files) == rows // 5
    assert stats_bounds(files[0].value_stats, types, 1)[0] == "00001"
    assert stats_bounds(files[-1].value_stats, types, 1)[1] == "04999"


def test_a_keyed_file_has_key_sequence_kind_and_values_in_this_order(make_table) -> None:
    table = make_table()
    (files,) = table.staged((I, 1, "a", 1.0))
    path = table.store.paths.data_file(files.partition, files.bucket, files.new_files[0])
    names = pq.read_schema(table.store.io.open_input(path)).names
    assert names == ["_KEY_id", "_SEQUENCE_NUMBER", "_VALUE_KIND", "id", "name", "amount"]
    appended = make_table(primary_keys=())
    (files,) = appended.staged((I, 1, "a", 1.0))
    path = appended.store.paths.data_file(files.partition, files.bucket, files.new_files[0])
    assert pq.read_schema(appended.store.io.open_input(path)).names == ["id", "name", "amount"]


def evolved(store: FileStore, *fields: DataField) -> FileStore:
    schema = TableSchema(1, fields, 9, store.schema.partition_keys, store.schema.primary_keys, store.schema.options)
    store.io.write(f"{store.table_path}/schema/schema-1", schema.to_json())
    return FileStore(store.io, store.table_path, schema)


def test_a_change_of_type_that_is_not_followed_is_named(make_table) -> None:
    table = make_table()
    table.insert((I, 1, "a", 1.0))
    id_, name, amount = table.store.schema.fields
    store = evolved(table.store, id_, name, DataField(amount.id, "amount", AtomicType("BOOLEAN")))
    with pytest.raises(UnsupportedFeature, match="column 'amount' was DOUBLE and is BOOLEAN now"):
        store.read_table(store.plan())
