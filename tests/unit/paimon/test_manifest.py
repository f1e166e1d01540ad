from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import fastavro
import pytest

from lakelog.errors import Corrupt, UnsupportedFeature
from lakelog.fileformat.avro_file import read_records, read_schema, write_records
from lakelog.paimon.metadata.data_file import EMPTY_ROW, DataFileMeta
from lakelog.paimon.metadata.manifest import (
    ADD,
    DELETE,
    INDEX_MANIFEST_SCHEMA,
    MANIFEST_LIST_SCHEMA,
    MANIFEST_SCHEMA,
    DeletionVectorRange,
    IndexManifestEntry,
    ManifestEntry,
    entry_from_record,
    entry_to_record,
    file_meta_from_record,
    file_meta_to_record,
    index_entry_from_record,
    index_entry_to_record,
    live_files,
)
from lakelog.paimon.metadata.snapshot import Snapshot

GOLDEN = Path(__file__).parents[2] / "golden" / "data"
TABLES = sorted(path for path in GOLDEN.glob("*/g.db/*"))
# those of Paimon 0.9 (sp_*) have fewer fields, so only their values come back, not their bytes
NEW_TABLES = [path for path in TABLES if not path.name.startswith("sp_")]
FILE = DataFileMeta("data-1.parquet", 10, 1, creation_time_ms=5)
ENTRY = ManifestEntry(ADD, EMPTY_ROW, 0, 1, FILE)


def with_full_names(schema: Any) -> Any:
    """The Avro schema with namespaces inside the names."""
    return fastavro.parse_schema(schema, _write_hint=False)


@pytest.mark.parametrize("table", NEW_TABLES, ids=lambda p: p.name)
def test_manifests_of_paimon_come_back_from_our_values_and_bytes(table: Path) -> None:
    manifests = sorted(table.glob("manifest/manifest-[0-9a-f]*"))
    assert manifests
    for path in manifests:
        data = path.read_bytes()
        schema, records = read_schema(data), read_records(data)
        assert with_full_names(schema) == with_full_names(MANIFEST_SCHEMA)
        entries = [entry_from_record(r) for r in records]
        assert [entry_to_record(e) for e in entries] == records
        assert read_records(write_records(MANIFEST_SCHEMA, map(entry_to_record, entries))) == records


@pytest.mark.parametrize("table", NEW_TABLES, ids=lambda p: p.name)
def test_manifest_lists_of_paimon_come_back_from_our_values_and_bytes(table: Path) -> None:
    for path in table.glob("manifest/manifest-list-*"):
        data = path.read_bytes()
        schema, records = read_schema(data), read_records(data)
        assert with_full_names(schema) == with_full_names(MANIFEST_LIST_SCHEMA)
        metas = [file_meta_from_record(r) for r in records]
        assert [file_meta_to_record(m) for m in metas] == records
        assert read_records(write_records(MANIFEST_LIST_SCHEMA, map(file_meta_to_record, metas))) == records


@pytest.mark.parametrize("table", TABLES, ids=lambda p: p.name)
def test_entries_of_every_writer_keep_their_values(table: Path) -> None:
    for path in table.glob("manifest/manifest-*"):
        is_list = path.name.startswith("manifest-list")
        read, written = (
            (file_meta_from_record, file_meta_to_record) if is_list else (entry_from_record, entry_to_record)
        )
        schema = MANIFEST_LIST_SCHEMA if is_list else MANIFEST_SCHEMA
        values = [read(r) for r in read_records(path.read_bytes())]
        again = read_records(write_records(schema, [written(v) for v in values]))
        assert [read(r) for r in again] == values


@pytest.mark.parametrize("table", TABLES, ids=lambda p: p.name)
def test_the_live_files_hold_as_many_records_as_the_snapshot_says(table: Path) -> None:
    for path in table.glob("snapshot/snapshot-*"):
        snapshot = Snapshot.from_json(path.read_bytes())
        entries = []
        for name in (snapshot.base_manifest_list, snapshot.delta_manifest_list):
            for record in read_records((table / "manifest" / name).read_bytes()):
                manifest = table / "manifest" / file_meta_from_record(record).file_name
                entries += [entry_from_record(r) for r in read_records(manifest.read_bytes())]
        live = list(live_files(entries).values())
        assert sum(e.file.row_count for e in live) == snapshot.total_record_count
        assert all(e.kind == ADD for e in live)


def test_a_file_moved_to_another_level_is_alive_there_only() -> None:
    moved = replace(ENTRY, file=FILE.at_level(5))
    assert list(live_files([ENTRY, replace(ENTRY, kind=DELETE), moved]).values()) == [moved]


def test_a_delete_of_a_file_that_was_never_seen_is_dropped() -> None:
    assert list(live_files([replace(ENTRY, kind=DELETE), ENTRY]).values()) == [ENTRY]


@pytest.mark.parametrize(
    "other",
    [
        replace(ENTRY, bucket=1),
        replace(ENTRY, partition=bytes(20)),
        replace(ENTRY, file=replace(FILE, extra_files=("data-1.parquet.index",))),
        replace(ENTRY, file=replace(FILE, embedded_file_index=b"1")),
        replace(ENTRY, file=replace(FILE, external_path="/elsewhere")),
    ],
)
def test_entries_of_different_files_have_different_identifiers(other: ManifestEntry) -> None:
    assert other.identifier != ENTRY.identifier
    assert replace(ENTRY, total_buckets=7).identifier == ENTRY.identifier


def test_an_index_manifest_comes_back() -> None:
    ranges = (DeletionVectorRange("data-1.parquet", 1, 22, 3), DeletionVectorRange("data-2.parquet", 31, 22))
    for entry in (
        IndexManifestEntry(ADD, EMPTY_ROW, 0, "DELETION_VECTORS", "index-1", 62, 2, ranges),
        IndexManifestEntry(ADD, EMPTY_ROW, 3, "HASH", "index-2", 20, 5, None, "/elsewhere/index-2"),
    ):
        (record,) = read_records(write_records(INDEX_MANIFEST_SCHEMA, [index_entry_to_record(entry)]))
        assert index_entry_from_record(record) == entry


def test_a_global_index_is_read_over_and_never_written() -> None:
    entry = IndexManifestEntry(ADD, EMPTY_ROW, 0, "BTREE", "index-1", 62, 2)
    record = index_entry_to_record(entry) | {"_GLOBAL_INDEX": {"_ROW_RANGE_START": 0}}
    found = index_entry_from_record(record)
    assert found == replace(entry, is_global=True)
    with pytest.raises(UnsupportedFeature, match="index-1"):
        index_entry_to_record(found)


def test_fields_of_newer_writers_are_read_over_and_those_of_older_ones_may_be_missing() -> None:
    record = entry_to_record(ENTRY)
    assert entry_from_record(record | {"_NEW": 1}) == ENTRY
    file = {k: v for k, v in record["_FILE"].items() if k not in ("_WRITE_COLS", "_FIRST_ROW_ID", "_EXTERNAL_PATH")}
    assert entry_from_record(record | {"_FILE": file | {"_WRITE_COLS_SEQUENCES": [1]}}) == ENTRY


def test_another_version_and_a_missing_field_are_distinct_errors() -> None:
    record = entry_to_record(ENTRY)
    with pytest.raises(UnsupportedFeature, match="version 1"):
        entry_from_record(record | {"_VERSION": 1})
    with pytest.raises(Corrupt, match="_BUCKET"):
        entry_from_record({k: v for k, v in record.items() if k != "_BUCKET"})
