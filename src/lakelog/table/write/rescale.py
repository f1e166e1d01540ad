"""Rewrites partitions for another number of buckets, with rows, row kinds and sequence numbers unchanged."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import groupby
from typing import Final

import pyarrow as pa

from lakelog.errors import CommitConflict, UnsupportedFeature
from lakelog.filestore.commit.request import CommitRequest, Overwrite
from lakelog.filestore.read.data_file_reader import SYSTEM_COLUMNS
from lakelog.filestore.read.plan import Split
from lakelog.filestore.write.bucket_writer import BucketWriter
from lakelog.io.names import new_uuid
from lakelog.options.log import EMIT_MODE
from lakelog.options.table import WRITE_BUFFER_SIZE
from lakelog.paimon.metadata.data_file import BucketFiles
from lakelog.paimon.metadata.snapshot import OVERWRITE, Snapshot
from lakelog.paimon.rows.bucket import bucket_of_rows, rows_by_bucket
from lakelog.table.commit.seal import seal_decided
from lakelog.table.maintenance.publish import publish_best_effort
from lakelog.table.maintenance.state_changes import file_key, files_of
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.model.log_generation import carried_properties
from lakelog.table.model.partition_selection import OverwriteTarget, partition_values

_LEAST_BUFFER: Final = 1 << 20
"""Least bytes in memory of each bucket."""


def rescale(table: DynamicTable, values: Mapping[str, object] | None = None) -> Snapshot | None:
    """Rewrites partitions whose files have another number of buckets; None if there are none.

    ``values`` are those of some partition columns. Every replaced file must still exist at the commit. Raises
    CommitConflict if others wrote to the partitions in the meantime: nothing has changed, retry.
    """
    if table.schema.num_buckets < 1:
        raise UnsupportedFeature(f"table {table.name} has no fixed number of buckets: there is nothing to rescale")
    if not table.publishes:
        table = table.with_hints({EMIT_MODE.key: "file"})  # no row changes, so the log stays as it is
    seal_decided(table)
    chosen = OverwriteTarget(partition_values(table.schema, values or {}, table.name))
    latest = table.store.latest_snapshot()
    live = table.store.live_entries(latest)
    total = table.schema.num_buckets
    old = frozenset(e.partition for e in live if e.total_buckets != total and chosen.matches(e.partition, table.schema))
    if latest is None or not old:
        return None
    read = table.all_rows
    files = tuple(
        table.store.merged_files(files_of_bucket)
        for _, splits in groupby(read.store.plan(snapshot_id=latest, partitions=old), lambda split: split.partition)
        for files_of_bucket in _rebucketed(read, splits)
    )
    seen = {file_key(split) for split in files_of(read, latest, old)}

    def properties(newest: Snapshot | None) -> Mapping[str, str]:
        if {file_key(split) for split in files_of(read, newest, old)} != seen:
            raise CommitConflict(f"table {table.name} was written to while it was rescaled. Try again")
        return carried_properties(table, newest)

    snapshot = table.store.commit(
        CommitRequest(
            f"rescale-{new_uuid()}", 0, OVERWRITE, files, prepare=properties, first_try=True, overwrite=Overwrite(old)
        )
    )
    publish_best_effort(table)
    return snapshot


def _rebucketed(table: DynamicTable, splits: Iterable[Split]) -> Iterator[BucketFiles]:
    """The rows of one partition, unchanged and not folded, as level-0 files of the buckets of the table's schema."""
    schema, total = table.schema, table.schema.num_buckets
    buffer = str(max(_LEAST_BUFFER, int(table.options.need(WRITE_BUFFER_SIZE)) // total))
    store = table.with_schema(replace(schema, options={**schema.options, WRITE_BUFFER_SIZE.key: buffer})).store
    writers: dict[int, BucketWriter] = {}
    partition = b""
    try:
        for split in splits:
            partition = split.partition
            for batch in store.read_unfolded(split):
                rows = pa.Table.from_batches([batch])
                for bucket, at in rows_by_bucket(bucket_of_rows(batch, schema)).items():
                    if bucket not in writers:
                        place = (store.io, store.paths, partition, bucket)
                        writers[bucket] = BucketWriter(*place, emits_changelog=False, refuses_overflow=False)
                    part = rows.take(pa.array(at))
                    system = [part[name] for name in SYSTEM_COLUMNS[::-1]] if schema.is_keyed else []
                    writers[bucket].write(part, *system)
        for bucket, writer in sorted(writers.items()):
            yield BucketFiles(partition, bucket, total, new_files=writer.finish())
    finally:
        for writer in writers.values():
            writer.close()
