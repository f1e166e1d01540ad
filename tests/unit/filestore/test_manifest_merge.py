from __future__ import annotations

from dataclasses import replace

import pytest

from lakelog.fileformat import avro_file
from lakelog.filestore.metadata import manifest_compaction as manifest_merge
from lakelog.filestore.metadata.manifest_compaction import merge_manifests
from lakelog.filestore.metadata.manifests import ManifestWriter
from lakelog.paimon.metadata.data_file import DataFileMeta
from lakelog.paimon.metadata.manifest import ADD, DELETE, MANIFEST_SCHEMA, ManifestEntry, entry_to_record
from lakelog.paimon.rows.partition import decode_partition, encode_partition

COLUMNS = (("day", "STRING"), ("id", "INT"))


def entry(store, day: str, bucket: int, name: str) -> ManifestEntry:
    file = DataFileMeta(name, 1, 1, creation_time_ms=1)
    return ManifestEntry(ADD, encode_partition([day], store.schema), bucket, 4, file)


@pytest.fixture
def store(make_table):
    return make_table(("day", "id"), ("day",), COLUMNS, bucket="4", manifest_merge_min_count="2").store


def test_only_blocks_with_deleted_files_are_built_again(store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(avro_file, "_BLOCK_BYTES", 1)
    monkeypatch.setattr(manifest_merge, "_COPIED_FROM", 10)
    entries = [entry(store, "a", 0, f"data-{at}") for at in range(20)]
    writer = ManifestWriter(store.io, store.paths)
    metas = [writer.write(entries), writer.write([replace(entries[7], kind=DELETE), entry(store, "b", 1, "new")])]
    writer.flush()
    built = []
    module = "lakelog.filestore.metadata.manifests"
    monkeypatch.setattr(f"{module}.entry_to_record", lambda e: built.append(e) or entry_to_record(e))
    (merged,) = merge_manifests(metas, store.manifests, writer)
    assert [e.file.file_name for e in built] == ["new"]
    names = [e.file.file_name for e in store.manifests.read(merged.file_name)]
    assert names == [f"data-{at}" for at in range(20) if at != 7] + ["new"]
    assert (merged.num_added_files, merged.num_deleted_files, merged.max_bucket) == (20, 0, 1)


def test_a_manifest_of_another_writer_is_built_again(store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest_merge, "_COPIED_FROM", 1)
    writer = ManifestWriter(store.io, store.paths)
    metas = [writer.write([entry(store, "a", 0, name)]) for name in ("data-1", "data-2")]
    writer.flush()
    other = {**MANIFEST_SCHEMA, "name": "ManifestEntry"}
    records = [entry_to_record(entry(store, "a", 0, "data-1"))]
    store.io.write(store.paths.manifest(metas[0].file_name), avro_file.write_records(other, records))
    assert store.manifests.blocks(metas[0].file_name) is None
    (merged,) = merge_manifests(metas, store.manifests, writer)
    writer.flush()
    assert [count for count, _ in store.manifests.blocks(merged.file_name) or ()] == [1, 1]
    assert [e.file.file_name for e in store.manifests.read(merged.file_name)] == ["data-2", "data-1"]


def test_manifests_that_cancel_out_leave_none(store) -> None:
    writer = ManifestWriter(store.io, store.paths)
    added = entry(store, "a", 0, "data-1")
    metas = [writer.write([added]), writer.write([replace(added, kind=DELETE)])]
    assert merge_manifests(metas, store.manifests, writer) == []


def test_a_full_rewrite_puts_partitions_together(make_table) -> None:
    options = {"manifest_full_compaction_threshold_size": "1 b", "manifest.target-file-size": "4 kb"}
    store = make_table(("day", "id"), ("day",), COLUMNS, bucket="4", **options).store
    writer = ManifestWriter(store.io, store.paths)
    metas = []
    for at in range(40):
        days = [f"{day:02d}" for day in range(10)]
        metas.append(writer.write([entry(store, day, at % 4, f"data-{day}-{at}") for day in reversed(days)]))
    gone = entry(store, "00", 0, "data-00-0")
    merged = merge_manifests([*metas, writer.write([replace(gone, kind=DELETE)])], store.manifests, writer)
    places = []
    for meta in merged:
        entries = store.manifests.read(meta.file_name)
        places += [(decode_partition(e.partition, store.schema)[0], e.bucket) for e in entries]
    assert len(places) == 399
    assert places == sorted(places)
    assert 1 < len(merged) < len(metas)


def test_manifests_that_wait_in_memory_are_bounded(store, monkeypatch: pytest.MonkeyPatch) -> None:
    size = ManifestWriter(store.io, store.paths).write([entry(store, "a", 0, "data-0")]).file_size
    monkeypatch.setattr("lakelog.filestore.metadata.manifests._WAITING_BYTES", 3 * size)
    writer = ManifestWriter(store.io, store.paths)
    for at in range(10):
        writer.write([entry(store, "a", 0, f"data-{at}")])
    there = [name for name in writer.written if store.io.exists(store.paths.manifest(name))]
    assert 0 < len(there) < 10
    assert there == writer.written[: len(there)]
    writer.flush()
    assert all(store.io.exists(store.paths.manifest(name)) for name in writer.written)
