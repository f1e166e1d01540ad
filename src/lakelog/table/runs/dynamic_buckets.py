"""Assigns buckets to the rows of tables with dynamic buckets, only in the seal (format sheet 11).

Tasks do not know the buckets and stage rows under ``UNASSIGNED``. One process seals at a time. It finds the key hashes
in the index files of the newest snapshot and assigns a bucket to new ones. It commits data and index files as one
snapshot, only if the index has not changed since. So no key is ever in two buckets, with any number of writers; the
loser of a race assigns again. A batch read of decided epochs does the same without writing. A key that is in no
snapshot yet may be in any bucket.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from lakelog.errors import UnsupportedFeature
from lakelog.filestore.commit.lost_race import LostRace
from lakelog.filestore.commit.request import IndexChange
from lakelog.filestore.write.bucket_assigner import BucketAssigner, HashIndex
from lakelog.options.table import WRITE_BUFFER_SIZE
from lakelog.paimon.metadata.data_file import BucketFiles
from lakelog.paimon.metadata.manifest import IndexManifestEntry
from lakelog.paimon.metadata.snapshot import Snapshot
from lakelog.paimon.rows.bucket import Hashes, row_hashes
from lakelog.paimon.schema.schema import DYNAMIC_BUCKET, POSTPONE_BUCKET, TableSchema
from lakelog.table.model.attempt import KIND_COLUMN, ORDER_COLUMN
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.runs.level0_files import write_level0_files
from lakelog.table.runs.runs import delete_runs
from lakelog.table.runs.sequencing import BucketKey, InlineRows, SequencedRuns


def check_bucket_mode(table: DynamicTable) -> None:
    """Raises UnsupportedFeature for buckets that are not written here; called before the first row of a write."""
    schema = table.schema
    if schema.num_buckets == POSTPONE_BUCKET:
        raise UnsupportedFeature(
            f"table {table.name} has 'bucket' = '{POSTPONE_BUCKET}' (postponed), which is read-only in lakelog: "
            "write it with another engine, or create a table with a number of buckets"
        )
    if not schema.has_dynamic_buckets:
        return
    if not set(schema.partition_keys) <= set(schema.primary_keys):
        raise UnsupportedFeature(
            f"table {table.name} has dynamic buckets and a primary key without the partition columns: keys can move "
            "between partitions, which is not supported for writing. Add the partition columns to the primary key"
        )


@dataclass
class AssignedFiles:
    """Level-0 files and index files that no snapshot references yet, and the index that they were made with."""

    files: tuple[BucketFiles, ...]
    index: IndexChange = IndexChange()
    seen: Mapping[bytes, frozenset[str]] = field(default_factory=dict)

    def check_index(self, table: DynamicTable, latest: Snapshot | None) -> None:
        """Raises LostRace if the index of the touched partitions has changed."""
        if not self.seen:
            return
        now = HashIndex(table.store.manifests).entries(latest, self.seen.keys())
        if any(_names(now[partition]) != names for partition, names in self.seen.items()):
            raise LostRace("other writers assign buckets to new keys")

    def delete(self, table: DynamicTable, kept: Collection[str] = ()) -> None:
        """Deletes the files, except those with the names ``kept``."""
        HashIndex(table.store.manifests).delete(self.index.added)
        for bucket in self.files:
            for file in (f for f in (*bucket.new_files, *bucket.changelog_files) if f.file_name not in kept):
                for path in table.store.paths.with_extra_files(bucket.partition, bucket.bucket, file):
                    table.io.delete(path)


def assign_files(
    table: DynamicTable, runs: Mapping[BucketKey, SequencedRuns], latest: Snapshot | None
) -> AssignedFiles:
    """Writes sequenced rows as level-0 files of their buckets, and the new index files.

    ``latest`` is the snapshot with the valid index; None for an empty one (an overwrite).
    """
    index = HashIndex(table.store.manifests)
    entries = index.entries(latest, {partition for partition, _ in runs})
    files: list[BucketFiles] = []
    made: list[IndexManifestEntry] = []
    for (partition, _), sequenced in sorted(runs.items(), key=lambda item: item[0]):
        known = index.read(entries[partition])
        assigner = BucketAssigner.of(known, table.options)
        files += _write(table, partition, _split(table, assigner, _all_rows(table, partition, sequenced)))
        made += index.write(partition, known, assigner.added)
    seen = {partition: _names(entries_of) for partition, entries_of in entries.items()}
    return AssignedFiles(tuple(files), IndexChange(tuple(made)), seen)


def assign_runs(
    table: DynamicTable, runs: Mapping[BucketKey, SequencedRuns], latest: Snapshot | None
) -> dict[BucketKey, SequencedRuns]:
    """The same rows under their assigned buckets, for a read; writes nothing."""
    index = HashIndex(table.store.manifests)
    entries = index.entries(latest, {partition for partition, _ in runs})
    out: dict[BucketKey, SequencedRuns] = {}
    for (partition, _), sequenced in runs.items():
        assigner = BucketAssigner.of(index.read(entries[partition]), table.options)
        for bucket, rows in _split(table, assigner, _all_rows(table, partition, sequenced)):
            out.setdefault((partition, bucket), SequencedRuns()).inline.append(rows)
    return out


def forget_unassigned(table: DynamicTable, runs: Mapping[BucketKey, SequencedRuns]) -> None:
    """Deletes the files of large runs once their rows are in the files of their buckets."""
    delete_runs(
        table, [s.run for (_, bucket), sequenced in runs.items() if bucket == DYNAMIC_BUCKET for s in sequenced.staged]
    )


def _all_rows(table: DynamicTable, partition: bytes, sequenced: SequencedRuns) -> Iterator[InlineRows]:
    for part in sequenced.in_order():
        if isinstance(part, InlineRows):
            yield part
            continue
        for file in part.run.whole_files:
            rows = table.store.file_rows(partition, DYNAMIC_BUCKET, file, ORDER_COLUMN, KIND_COLUMN, part.shift)
            yield InlineRows(rows, part.run.emits_changelog)


def _split(
    table: DynamicTable, assigner: BucketAssigner, parts: Iterable[InlineRows]
) -> Iterator[tuple[int, InlineRows]]:
    for part in parts:
        buckets = assigner.assign(_key_hashes(part.rows, table.schema))
        for bucket in np.unique(buckets).tolist():
            rows = part.rows.take(pa.array(np.flatnonzero(buckets == bucket)))
            yield bucket, InlineRows(rows, part.emits_changelog)


def _key_hashes(rows: pa.Table, schema: TableSchema) -> Hashes:
    keys = schema.select(schema.trimmed_primary_keys)
    return row_hashes([rows.column(k.name) for k in keys], [k.type for k in keys])


def _write(table: DynamicTable, partition: bytes, parts: Iterable[tuple[int, InlineRows]]) -> list[BucketFiles]:
    """Level-0 files; all writers together buffer about ``write-buffer-size``."""
    limit = int(table.options.need(WRITE_BUFFER_SIZE))
    waiting: dict[int, SequencedRuns] = {}
    files: dict[int, list[BucketFiles]] = {}
    size = 0
    for bucket, rows in parts:
        waiting.setdefault(bucket, SequencedRuns()).inline.append(rows)
        size += rows.rows.nbytes
        if size > limit:
            _flush(table, partition, waiting, files)
            size = 0
    _flush(table, partition, waiting, files)
    return [
        replace(
            flushed[0],
            new_files=tuple(f for b in flushed for f in b.new_files),
            changelog_files=tuple(f for b in flushed for f in b.changelog_files),
        )
        for _, flushed in sorted(files.items())
    ]


def _flush(
    table: DynamicTable, partition: bytes, waiting: dict[int, SequencedRuns], files: dict[int, list[BucketFiles]]
) -> None:
    for bucket, rows in waiting.items():
        files.setdefault(bucket, []).append(
            write_level0_files(table, partition, bucket, table.schema.num_buckets, rows)
        )
    waiting.clear()


def _names(entries: Iterable[IndexManifestEntry]) -> frozenset[str]:
    return frozenset(e.file_name for e in entries)
