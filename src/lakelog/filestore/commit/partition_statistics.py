"""What a commit does to each partition, for the owner of a table who keeps count. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from lakelog.io import clock
from lakelog.io.storage.snapshot_owner import PartitionChange
from lakelog.paimon.metadata.manifest import ADD, ManifestEntry
from lakelog.paimon.rows.partition import decode_partition, partition_spec
from lakelog.paimon.schema.schema import TableSchema


def partition_changes(entries: Iterable[ManifestEntry], schema: TableSchema) -> list[PartitionChange]:
    """The change of each partition that has entries, in the order in which they come first."""
    by_partition: dict[bytes, list[ManifestEntry]] = {}
    for entry in entries:
        by_partition.setdefault(entry.partition, []).append(entry)
    return [
        PartitionChange(
            spec=partition_spec(decode_partition(partition, schema), schema),
            rows=sum(_sign(e) * e.file.row_count for e in held),
            size=sum(_sign(e) * e.file.file_size for e in held),
            files=sum(map(_sign, held)),
            newest_ms=max(clock.instant_of_local(e.file.creation_time_ms or 0) for e in held),
            buckets=held[-1].total_buckets,
        )
        for partition, held in by_partition.items()
    ]


def _sign(entry: ManifestEntry) -> int:
    return 1 if entry.kind == ADD else -1
