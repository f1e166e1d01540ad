from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from lakelog.filestore.filter import Compare, In
from lakelog.filestore.manifests import ManifestWriter
from lakelog.filestore.pruning import Pruning
from lakelog.filestore.schemas import Schemas
from lakelog.spec.binary_row import encode_row
from lakelog.spec.bucket import bucket_of_rows
from lakelog.spec.data_file import EMPTY_STATS, DataFileMeta, SimpleStats
from lakelog.spec.manifest import ADD, DELETE, ManifestEntry, ManifestFileMeta
from lakelog.spec.partition import encode_partition
from lakelog.spec.snapshot import APPEND, Snapshot
from lakelog.spec.types import parse_type

INT = parse_type("INT")
COLUMNS = (("day", "STRING"), ("id", "INT"), ("part", "INT"))


@pytest.fixture
def store(make_table):
    return make_table(("day", "id", "part"), ("day",), COLUMNS, bucket="4", **{"bucket-key": "id"}).store


def listed(store, day: str | None, low: int | None, high: int | None) -> ManifestFileMeta:
    row = encode_partition([day], store.schema)
    return ManifestFileMeta("m", 1, 1, 0, SimpleStats(row, row, (int(day is None),)), 0, low, high, 0, 0)


def bucket_of(store, key: int) -> int:
    return int(bucket_of_rows(pa.table({"id": pa.array([key], pa.int32())}), store.schema)[0])


def test_manifests_outside_of_the_bucket_of_a_key_are_skipped(store) -> None:
    bucket = bucket_of(store, 7)
    pruning = Pruning(store.schemas, Compare("id", "=", 7))
    wanted = [b for b in range(4) if pruning.wants_manifest(listed(store, "a", b, b))]
    assert wanted == [bucket]
    assert pruning.wants_manifest(listed(store, "a", 0, 3))
    assert pruning.wants_manifest(listed(store, "a", None, None))
    assert not Pruning(store.schemas, In("id", ())).wants_manifest(listed(store, "a", 0, 1))


def test_partitions_with_other_numbers_of_buckets_are_not_forgotten(store) -> None:
    wider = replace(store.schema, id=1, options={**store.schema.options, "bucket": "7"})
    store.io.write(store.paths.schema_file(1), wider.to_json())
    buckets = {bucket_of(store, 7), bucket_of(replace(store, schema=wider), 7)}
    # a handle that was opened before the table was rescaled plans the newest snapshot too
    for schemas in (store.schemas, Schemas(store.io, replace(store.paths, schema=wider))):
        pruning = Pruning(schemas, Compare("id", "=", 7))
        assert {b for b in range(7) if pruning.wants_manifest(listed(store, "a", b, b))} == buckets


def test_a_table_that_once_had_no_fixed_buckets_skips_no_manifest(store) -> None:
    dynamic = replace(store.schema, id=1, options={**store.schema.options, "bucket": "-1"})
    store.io.write(store.paths.schema_file(1), dynamic.to_json())
    pruning = Pruning(store.schemas, Compare("id", "=", 7))
    assert all(pruning.wants_manifest(listed(store, "a", b, b)) for b in range(4))


@pytest.mark.parametrize("asked", ["a", None])
def test_manifests_outside_of_the_partitions_asked_for_are_skipped(store, asked: str | None) -> None:
    pruning = Pruning(store.schemas, partitions=frozenset([encode_partition([asked], store.schema)]))
    assert [day for day in ("a", "b", None) if pruning.wants_manifest(listed(store, day, 0, 3))] == [asked]
    assert not Pruning(store.schemas, partitions=frozenset()).wants_manifest(listed(store, "a", 0, 3))


def test_a_partition_without_statistics_may_be_any(store) -> None:
    meta = replace(listed(store, "a", 0, 3), partition_stats=EMPTY_STATS)
    pruning = Pruning(store.schemas, partitions=frozenset([encode_partition(["b"], store.schema)]))
    assert pruning.wants_manifest(meta)


@pytest.mark.parametrize("added_has_stats", [False, True])
def test_a_delete_with_other_statistics_than_its_add_still_deletes(store, added_has_stats: bool) -> None:
    key = encode_row([1, 1], [INT, INT])
    stats = SimpleStats(key, key, (0, 0))
    bare = DataFileMeta("data-1.parquet", 1, 1, key, key, creation_time_ms=1)
    full = replace(bare, key_stats=stats)
    added, deleted = (full, bare) if added_has_stats else (bare, full)
    partition = encode_partition(["a"], store.schema)
    entries = [ManifestEntry(k, partition, 0, 4, f) for k, f in ((ADD, added), (DELETE, deleted))]
    writer = ManifestWriter(store.io, store.paths)
    lists = [writer.write_list([writer.write([entry])])[0] for entry in entries]
    snapshot = Snapshot(1, 0, lists[0], lists[1], "user", 1, APPEND, 0, 0, 0)
    pruning = Pruning(store.schemas, Compare("part", "=", 2))
    assert store.manifests.live(snapshot, pruning.wants_manifest, pruning.wants_entry) == []
