"""Writes partitions again whose number of buckets is not the table's any more (format sheet 11)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from lakelog.errors import CommitConflict, UnsupportedFeature
from lakelog.filestore.commit.request import CommitRequest
from lakelog.io.clock import now_ms
from lakelog.io.names import new_uuid
from lakelog.paimon.metadata.data_file import BucketFiles, DataFileMeta
from lakelog.paimon.metadata.manifest import ManifestEntry
from lakelog.paimon.metadata.snapshot import OVERWRITE, Snapshot
from lakelog.table.commit.seal import level0_files
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.model.epoch_record import EpochRecord
from lakelog.table.model.log_state import carried_state
from lakelog.table.model.partition_selection import OverwriteTarget, check_overwritable, partition_values
from lakelog.table.runs.sequencing import sequence_runs
from lakelog.table.staging.task_writer import TaskWriter
from lakelog.table.write.overwrite import seal_decided


def rescale(table: DynamicTable, values: Mapping[str, object] | None = None) -> Snapshot | None:
    """Writes partitions again whose files have another number of buckets; None when there are none.

    ``values`` are those of some partition columns. Every file that is replaced must still be there when the snapshot
    is made. Raises CommitConflict when others wrote to the partitions meanwhile: nothing has changed, try again.
    """
    if table.schema.num_buckets < 1:
        raise UnsupportedFeature(f"table {table.name} has no fixed number of buckets: there is nothing to rescale")
    check_overwritable(table)
    seal_decided(table)
    chosen = OverwriteTarget(partition_values(table.schema, values or {}, table.name))
    latest = table.store.latest_snapshot()
    live = table.store.live_entries(latest)
    wanted = table.schema.num_buckets
    old = {e.partition for e in live if e.total_buckets != wanted and chosen.matches(e.partition, table.schema)}
    if latest is None or not old:
        return None
    writer = f"rescale-{new_uuid()}"
    task = TaskWriter(table, writer, 0, lane=0, replaces=True)
    for split in table.store.plan(snapshot_id=latest.id, partitions=old):
        for batch in table.store.read_split(split):
            task.write(batch)
    made = level0_files(table, sequence_runs([EpochRecord(writer, 0, now_ms(), (task.finish(),))], {}), None)
    files = (*made.files, *_removed([e for e in live if e.partition in old]))
    # files that a reader of this snapshot has not seen stay live and have another number of buckets: a conflict
    request = CommitRequest(
        writer, 0, OVERWRITE, files, prepare=lambda s: _nothing_else(table, s, live, old), first_try=True
    )
    return table.store.commit(request)


def _nothing_else(
    table: DynamicTable, latest: Snapshot | None, seen: Sequence[ManifestEntry], partitions: Collection[bytes]
) -> Mapping[str, str]:
    known = {e.identifier for e in seen}
    if any(e.identifier not in known for e in table.store.live_entries(latest, partitions)):
        raise CommitConflict(f"table {table.name} was written to while it was rescaled: try again")
    return carried_state(table.store, latest)


def _removed(entries: Sequence[ManifestEntry]) -> Iterator[BucketFiles]:
    by_place: dict[tuple[bytes, int, int], list[DataFileMeta]] = {}
    for entry in entries:
        by_place.setdefault((entry.partition, entry.bucket, entry.total_buckets), []).append(entry.file)
    for (partition, bucket, total), files in by_place.items():
        yield BucketFiles(partition, bucket, total, deleted_files=tuple(files))
