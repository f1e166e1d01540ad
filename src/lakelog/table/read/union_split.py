"""One bucket of a union read whose part of the log is long: the task that reads it merges files and log by itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from lakelog.filestore.read.plan import Split
from lakelog.filestore.read.split_reader import engine_of
from lakelog.filestore.skipping.predicate import Predicate
from lakelog.filestore.write.memtable import Memtable
from lakelog.merge.base import KIND_COLUMN as KIND
from lakelog.merge.base import SEQUENCE_COLUMN
from lakelog.options.table import WRITE_BUFFER_SIZE
from lakelog.table.model.attempt import KIND_COLUMN
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.read.unsealed_rows import LogTail, counting_rows
from lakelog.table.runs.runs import by_partition, run_to_ipc

_ABOVE_ALL = 1 << 62
"""Rows of the log are newer than those of all files, whatever number these have."""
_MOST_BUFFER = 64 << 20
_LEAST_BUFFER = 1 << 20
"""Bytes that each partition may hold at least."""


@dataclass(frozen=True)
class TailSplit(Split):
    """All of one bucket, in every partition: ``parts`` of the files, and the records of the log; picklable."""

    parts: tuple[Split, ...] = ()
    tail: LogTail = field(default_factory=lambda: LogTail({}, {}))


def tail_splits(splits: Sequence[Split], tail: LogTail, schema_is_keyed: bool) -> list[Split]:
    """The splits of the files, those of the buckets whose log has records joined with them."""
    out = [split for split in splits if split.bucket not in tail.buckets]
    for bucket in tail.buckets:
        parts = tuple(split for split in splits if split.bucket == bucket)
        own = replace(tail, starts={bucket: tail.starts[bucket]}, ends={bucket: tail.ends[bucket]})
        out.append(TailSplit(b"", bucket, 0, (), schema_is_keyed, parts=parts, tail=own))
    return out


def read_tail_split(
    table: DynamicTable, split: TailSplit, columns: Sequence[str], filter: Predicate | None
) -> Iterator[pa.RecordBatch]:
    """The rows of the bucket in bounded memory; called on executors.

    Rows of the log are sorted in memtables, which spill. Tables without a key just go on with them behind the files.
    """
    if table.schema.is_keyed:
        yield from _merged(table, split, columns, filter)
        return
    for part in split.parts:
        yield from table.store.read_split(part, columns, filter)
    for rows in counting_rows(table, split.tail, split.bucket):
        empty = Split(b"", split.bucket, 0, (), False)
        yield from table.store.read_split(replace(empty, inline_runs=(_run(rows, 0),)), columns, filter)


def _merged(
    table: DynamicTable, split: TailSplit, columns: Sequence[str], filter: Predicate | None
) -> Iterator[pa.RecordBatch]:
    places: dict[bytes, list[Split]] = {}
    for part in split.parts:
        places.setdefault(part.partition, []).append(part)
    held: dict[bytes, Memtable] = {}
    try:
        _sort(table, split, held)
        for partition in sorted({*places, *held}):
            parts = places.get(partition, [])
            whole = Split(
                partition,
                split.bucket,
                table.schema.num_buckets,
                tuple(f for part in parts for f in part.files),
                needs_merge=True,
                inline_runs=tuple(run for part in parts for run in part.inline_runs),
                vectors=tuple(v for part in parts for v in part.vectors),
            )
            if partition in held:
                yield from table.store.read_split(whole, columns, filter, newest=held[partition].sorted_batches())
            else:
                for part in parts:
                    yield from table.store.read_split(part, columns, filter)
    finally:
        for memtable in held.values():
            memtable.close()


def _sort(table: DynamicTable, split: TailSplit, held: dict[bytes, Memtable]) -> None:
    """Puts the rows of the log into one memtable per partition, which share a write buffer."""
    schema, engine = table.schema, engine_of(table.schema)
    limit = min(int(table.options.need(WRITE_BUFFER_SIZE)), _MOST_BUFFER)
    number = _ABOVE_ALL
    for rows in counting_rows(table, split.tail, split.bucket):
        numbered = _system(rows, number)
        number += rows.num_rows
        for partition, part in by_partition(numbered, table):
            if partition not in held:
                held[partition] = Memtable(schema.trimmed_primary_keys, engine, limit)
                for memtable in held.values():
                    memtable.limit = max(limit // len(held), _LEAST_BUFFER)
            held[partition].add(part)


def _system(rows: pa.Table, first: int) -> pa.Table:
    """Rows of the log with the system columns of the files, numbered from a number on."""
    kinds = rows.column(KIND_COLUMN)
    numbers = pa.array(np.arange(first, first + rows.num_rows, dtype=np.int64))
    plain = rows.drop_columns([KIND_COLUMN])
    plain = plain.append_column(pa.field(SEQUENCE_COLUMN, pa.int64(), nullable=False), numbers)
    return plain.append_column(pa.field(KIND, pa.int8(), nullable=False), kinds)


def _run(rows: pa.Table, first: int) -> bytes:
    return run_to_ipc(_system(rows, first))
