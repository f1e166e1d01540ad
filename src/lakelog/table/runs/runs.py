"""Staged rows of an attempt: inline runs (Arrow IPC inside the epoch record) and level-0 data files."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakelog.errors import Corrupt
from lakelog.filestore.metadata.schemas import rows_as
from lakelog.filestore.read.plan import BucketKey
from lakelog.filestore.store import FileStore
from lakelog.filestore.write.data_file_writer import FileNames
from lakelog.io.arrow_messages import STAGED_ROWS
from lakelog.paimon.metadata.snapshot import Snapshot
from lakelog.paimon.rows.partition import encode_partition
from lakelog.table.model.attempt import KIND_COLUMN, ORDER_COLUMN, StagedRun
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.model.epoch_record import EpochRecord

_OWN_BITS = 36
"""Number of lower bits of an order that differ within one epoch; if not, the seal moves them (``sequencing``)."""
_ROW = "_lakelog_row"
_ONCE = {"_order": ORDER_COLUMN, "_kind": KIND_COLUMN}
"""Former names of the columns of an inline run."""
_LZ4 = pa.ipc.IpcWriteOptions(compression="lz4")


def run_to_ipc(rows: pa.Table) -> bytes:
    """An Arrow IPC stream (lz4) of one run."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema, options=_LZ4) as writer:
        writer.write_table(rows.combine_chunks())
    return bytes(sink.getvalue())


def run_from_ipc(data: bytes) -> pa.Table:
    """The reverse of ``run_to_ipc``. Raises Corrupt."""
    try:
        STAGED_ROWS.check(data)
        with pa.ipc.open_stream(data) as reader:
            rows = reader.read_all()
    except pa.ArrowException as why:
        raise Corrupt(f"the rows of a decided epoch cannot be read: {why}") from why
    # The last two columns had other names before, which a table column may also have.
    return rows.rename_columns([*rows.column_names[:-2], *(_ONCE.get(n, n) for n in rows.column_names[-2:])])


def delete_runs(table: DynamicTable, runs: Iterable[StagedRun]) -> None:
    """Deletes the files of runs that no snapshot will reference. Raises Unavailable."""
    for run in runs:
        for file in (*run.files, *run.changelog):
            for path in table.store.paths.with_extra_files(run.partition, run.bucket, file):
                table.io.delete(path)


def by_partition(rows: pa.Table, table: DynamicTable) -> Iterator[tuple[bytes, pa.Table]]:
    """Splits rows by the table's partition columns: (serialised partition row, rows)."""
    schema = table.schema
    keys = list(schema.partition_keys)
    if not keys:
        yield encode_partition((), schema), rows
        return
    numbered = rows.select(keys).append_column(_ROW, pa.array(np.arange(rows.num_rows)))
    groups = numbered.group_by(keys, use_threads=False).aggregate([(_ROW, "list")])
    for index in range(groups.num_rows):
        values = tuple(_exact(groups.column(key)[index]) for key in keys)
        chosen = groups.column(f"{_ROW}_list")[index].values
        yield encode_partition(values, schema), rows.take(chosen)


def _exact(value: pa.Scalar) -> Any:
    # Python's own timestamps have no nanoseconds
    return value.value if pa.types.is_timestamp(value.type) else value.as_py()


@dataclass
class Numbering:
    """One task's deltas from the order of its rows to sequence numbers, one per (partition, bucket).

    The delta places them above all numbers in the bucket at the first read of the snapshot. A commit therefore
    renumbers (rewrites) only the rows that lost a race. An order is never negative. Without a log, each task counts
    from its own start, and all tasks of an epoch get the same delta.
    """

    table: DynamicTable
    _highest: dict[BucketKey, int] = field(default_factory=dict)
    _deltas: dict[BucketKey, int] = field(default_factory=dict)
    is_aligned: bool = True
    """False if the rows of a bucket come from several log partitions, so that a later run may have smaller orders."""

    def delta(self, bucket_key: BucketKey, lowest: int, buckets: Collection[int]) -> int:
        """The delta of a bucket, the same one for all runs; ``lowest`` is the smallest order of the first run.

        ``buckets`` are those of later calls, too: the manifests are read once for all of them.
        """
        if bucket_key not in self._deltas:
            if bucket_key not in self._highest:
                self._read_highest({bucket_key, *((bucket_key[0], bucket) for bucket in buckets)})
            highest = self._highest[bucket_key]
            # Log offsets are above the files already, unless another engine has written those.
            is_above = self.table.emits_log and self.is_aligned and lowest > highest
            # Log offsets may be large, so the common part of an epoch's offsets is not added repeatedly.
            common = lowest >> _OWN_BITS << _OWN_BITS if self.table.emits_log else 0
            self._deltas[bucket_key] = 0 if is_above else highest + 1 - common
        return self._deltas[bucket_key]

    def _read_highest(self, bucket_keys: set[BucketKey]) -> None:
        numbers = self.table.store.max_sequence_numbers(self._snapshot, bucket_keys)
        self._highest.update((bucket_key, numbers.get(bucket_key, -1)) for bucket_key in bucket_keys)

    @cached_property
    def _snapshot(self) -> Snapshot | None:
        return self.table.store.latest_snapshot()


def write_run_files(
    table: DynamicTable,
    partition: bytes,
    bucket: int,
    rows: pa.Table,
    delta: int,
    replaces: bool = False,
    names: FileNames | None = None,
) -> StagedRun:
    """Writes a large run as sorted level-0 data files at once; its sequence numbers are order + delta.

    With ``replaces`` the bucket will be empty at the commit, and no changelog is written. ``names`` generates the file
    names.
    """
    emits = table.emits_changelog and not replaces
    writer = table.store.bucket_writer(partition, bucket, emits_changelog=emits, names=names)
    sequences = pc.add(rows.column(ORDER_COLUMN), pa.scalar(delta, pa.int64()))
    writer.write(rows.drop_columns([ORDER_COLUMN, KIND_COLUMN]), rows.column(KIND_COLUMN), sequences)
    return StagedRun(
        partition,
        bucket,
        rows.num_rows,
        files=writer.finish(),
        delta=delta,
        emits_changelog=emits,
        changelog=writer.changelog_files,
    )


def adapt_to_schema(records: Sequence[EpochRecord], store: FileStore) -> list[EpochRecord]:
    """The records with all inline rows in the store's schema, by field id (format sheet 3.2).

    Called before runs of decided epochs are read or sealed. Records with that schema, nearly always all of them, are
    returned unchanged.
    """
    if all(run.schema_id == store.schema.id for run in _inline(records)):
        return list(records)
    return [
        replace(r, attempts=tuple(replace(a, runs=tuple(_run(run, store) for run in a.runs)) for a in r.attempts))
        for r in records
    ]


def with_latest_columns(table: DynamicTable, records: Sequence[EpochRecord]) -> DynamicTable:
    """The table with a schema that has every column of the records.

    Called before their rows are written to files. A table opened before an ALTER TABLE would omit new columns.
    """
    ids = [run.schema_id for run in _inline(records)]
    ids += [f.schema_id for r in records for a in r.attempts for run in a.runs for f in run.files]
    return table.with_newest_schema() if max(ids, default=0) > table.schema.id else table


def _inline(records: Sequence[EpochRecord]) -> list[StagedRun]:
    return [run for r in records for a in r.attempts for run in a.runs if run.inline]


def _run(run: StagedRun, store: FileStore) -> StagedRun:
    if not run.inline or run.schema_id == store.schema.id:
        return run
    rows = rows_as(run_from_ipc(run.inline), store.schemas.get(run.schema_id), store.schema)
    return replace(run, inline=run_to_ipc(rows), schema_id=store.schema.id)
