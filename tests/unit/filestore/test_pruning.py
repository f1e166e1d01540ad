from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from lakelog.filestore.metadata.manifests import ManifestWriter
from lakelog.filestore.skipping.predicate import Compare
from lakelog.filestore.skipping.pruning import Pruning
from lakelog.paimon.metadata.data_file import EMPTY_STATS, DataFileMeta, SimpleStats
from lakelog.paimon.metadata.manifest import ADD, DELETE, ManifestEntry, ManifestFileMeta
from lakelog.paimon.metadata.snapshot import APPEND, Snapshot
from lakelog.paimon.rows.binary_row import encode_row
from lakelog.paimon.rows.bucket import bucket_of_rows
from lakelog.paimon.rows.partition import encode_partition
from lakelog.paimon.types.types import parse_type

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


@pytest.mark.parametrize("total", [4, 7, 5])
def test_the_bucket_of_a_key_follows_the_number_of_buckets_of_each_partition(store, total: int) -> None:
    """Other engines rescale partitions to numbers that no schema of the table names."""
    wider = replace(store.schema, options={**store.schema.options, "bucket": str(total)})
    partition = encode_partition(["a"], store.schema)
    pruning = Pruning(store.schemas, Compare("id", "=", 7))
    wanted = [b for b in range(total) if pruning.wants_bucket(partition, b, total)]
    assert wanted == [bucket_of(replace(store, schema=wider), 7)]
    assert all(pruning.wants_manifest(listed(store, "a", b, b)) for b in range(total))


def test_manifests_outside_of_the_buckets_asked_for_are_skipped(store) -> None:
    pruning = Pruning(store.schemas, buckets=frozenset([2]))
    assert [b for b in range(4) if pruning.wants_manifest(listed(store, "a", b, b))] == [2]
    assert pruning.wants_manifest(listed(store, "a", None, None))


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
    writer.flush()
    snapshot = Snapshot(1, 0, lists[0], lists[1], "user", 1, APPEND, 0, 0, 0)
    pruning = Pruning(store.schemas, Compare("part", "=", 2))
    assert store.manifests.live(snapshot, pruning.wants_manifest, pruning.wants_entry) == []
