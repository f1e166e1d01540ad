"""Changelog files: their names, their options, several rows of a key."""

from __future__ import annotations

from lakelog.filestore.store import FileStore
from lakelog.filestore.write.changelog_writer import changelog_writer
from lakelog.filestore.write.data_file_writer import DataFileWriter
from lakelog.merge.base import SEQUENCE_COLUMN
from lakelog.paimon.metadata.data_file import APPEND_SOURCE, COMPACT_SOURCE, EMPTY_ROW, DataFileMeta
from unit.filestore.conftest import MakeTable


def written(store: FileStore, made: MakeTable) -> tuple[DataFileMeta, DataFileMeta, DataFileMeta]:
    """A data file, a changelog file and a second data file of a compaction to level 5."""
    rows = made(primary_keys=("id",)).rows((0, 1, "a", 0.5), (1, 2, "b", 1.0), (2, 2, "c", 1.5))
    table, kinds = rows
    full = table.append_column(SEQUENCE_COLUMN, [[7, 8, 9]]).append_column("_VALUE_KIND", kinds)
    data = DataFileWriter(store.io, store.paths, EMPTY_ROW, 0, 5, COMPACT_SOURCE)
    changes = changelog_writer(data)
    (first,), (change,), (second,) = (w.write(full.to_batches()) for w in (data, changes, data))
    return first, change, second


def test_a_changelog_file_shares_the_counter_of_the_data_files(make_table: MakeTable) -> None:
    first, change, second = written(make_table().store, make_table)
    uuid = first.file_name.removeprefix("data-").removesuffix("-0.parquet")
    assert [first.file_name, change.file_name, second.file_name] == [
        f"data-{uuid}-0.parquet",
        f"changelog-{uuid}-1.parquet",
        f"data-{uuid}-2.parquet",
    ]
    assert (change.level, change.file_source, change.delete_row_count, change.row_count) == (5, APPEND_SOURCE, 1, 3)
    assert (change.min_sequence_number, change.max_sequence_number) == (7, 9)


def test_changelog_files_have_options_of_their_own(make_table: MakeTable) -> None:
    options = {
        "file.format": "orc",
        "file.suffix.include.compression": "true",
        "changelog-file.prefix": "told-",
        "changelog-file.format": "avro",
        "changelog-file.compression": "none",
        "changelog-file.stats-mode": "none",
    }
    table = make_table(**options)
    data, change, _ = written(table.store, make_table)
    assert data.file_name.endswith("-0.zstd.orc")
    assert change.file_name.startswith("told-")
    assert change.file_name.endswith("-1.none.avro")
    assert (data.value_stats_cols, change.value_stats_cols) == (None, ())
    batches = table.store.files.read(EMPTY_ROW, 0, change, ["id", "name"], system_columns=True)
    assert [row["name"] for batch in batches for row in batch.to_pylist()] == ["a", "b", "c"]


def test_changelog_files_are_like_data_files_where_nothing_is_said(make_table: MakeTable) -> None:
    options = {"file.format.per.level": "5:avro", "metadata.stats-mode": "none"}
    data, change, _ = written(make_table(**options).store, make_table)
    assert change.file_name.endswith("-1.avro")
    assert change.value_stats_cols == data.value_stats_cols == ()
