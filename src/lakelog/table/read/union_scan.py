"""Batch read of both stores (``read.mode`` = union): the newest snapshot, plus the rows that only the log has."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakelog.errors import InvalidRequest
from lakelog.filestore.read.plan import BucketKey, Split
from lakelog.filestore.read.split_reader import engine_of
from lakelog.filestore.skipping.predicate import Predicate
from lakelog.filestore.write.memtable import Memtable
from lakelog.io.clock import now_ms
from lakelog.merge.base import KIND_COLUMN as KIND
from lakelog.merge.base import SEQUENCE_COLUMN
from lakelog.options.notebook import ShownText
from lakelog.options.table import BUCKET, WRITE_BUFFER_SIZE
from lakelog.paimon.rows.bucket import bucket_of_rows
from lakelog.paimon.schema.schema import DYNAMIC_BUCKET, TableSchema
from lakelog.table.log.partitions import common_divisor, is_aligned
from lakelog.table.log.scan import LogScan
from lakelog.table.model.attempt import KIND_COLUMN, ORDER_COLUMN, AttemptResult, StagedRun
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.model.epoch_record import EpochRecord
from lakelog.table.read.file_scan import Scan
from lakelog.table.read.log_view import capture
from lakelog.table.read.unsealed_rows import LogTail, count_records, counting_rows, tail_of
from lakelog.table.runs.runs import by_partition, run_to_ipc

_FEW_ROWS: Final = 20_000
"""Maximum number of records that are read during planning and sent with the plan; tasks read larger tails."""
_MOST_COUNTED: Final = 1_000_000
"""Maximum number of records that EXPLAIN counts."""


@dataclass(frozen=True, repr=False)
class UnionScan(Scan):
    """The state of the table in the log: the files, plus the rows of epochs that are still open.

    The result equals a tail from the snapshot's offsets to the end of the log, folded, with no duplicate and no missing
    row. Rows of decided epochs are read from the source that the seal will use, those of open ones from the log.
    Refused or taken-back rows are skipped. Rows of an open epoch may be taken back later, as for every reader of the
    log.
    """

    def _plan(self) -> list[Split]:
        log_view = capture(self.table)
        tail = tail_of(self.table, log_view)
        few = LogScan(self.table).records_of(_FEW_ROWS)
        # the index of dynamic buckets, and the new keys of decided epochs, are known here only
        if not self.table.schema.has_dynamic_buckets and count_records(self.table, tail, few + 1) > few:
            splits = self._with_epochs(log_view.epochs, log_view.snapshot, newer_rows_follow=True)
            return tail_splits(splits, tail, self.table.schema)
        runs = tuple(_runs(self.table, tail))
        newest = EpochRecord("", 0, 0, (AttemptResult("", 0, "", runs=runs),)) if runs else None
        return self._with_epochs([*log_view.epochs, *([newest] if newest else [])], log_view.snapshot)

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        """The rows of one split; called on executors too."""
        if not isinstance(split, TailSplit):
            yield from super().read(split)
            return
        yield from read_tail_split(self.table, split, self.schema.names, self.filter)

    def explain(self) -> str:
        """The stores that answer now, and the age of their data; EXPLAIN of a query shows it above Spark's plan."""
        log_view, now = capture(self.table), now_ms()
        tail = tail_of(self.table, log_view)
        snapshot, epochs = log_view.snapshot, log_view.epochs
        files = "no snapshot yet" if snapshot is None else f"snapshot {snapshot.id}, {_age(now, snapshot.time_millis)}"
        if epochs:
            decided = max(r.time_ms for r in epochs)
            files += f"; {len(epochs)} decided epochs that wait for a snapshot, the newest {_age(now, decided)}"
        count, newest = _counted(self.table, tail)
        more = "+" if count >= _MOST_COUNTED else ""
        log = f"{count}{more} records in {len(tail.buckets)} of {len(tail.ends)} buckets"
        log += f", the newest {_age(now, newest)}" if newest is not None and not more else ""
        return ShownText(f"Table {self.table.name}, read.mode = union\n  files: {files}\n  log after them: {log}")


def _age(now: int, then: int) -> str:
    return f"{(now - then) / 1000:.1f} s old"


def _counted(table: DynamicTable, tail: LogTail) -> tuple[int, int | None]:
    """The number of records to check, and the append time of the newest; counting stops at the limit."""
    count, newest, scan = 0, None, LogScan(table)
    for bucket in tail.buckets:
        for records in scan.records_between(bucket, tail.starts[bucket], tail.ends[bucket]):
            count += records.num_rows
            last = pc.max(records.column("timestamp_ms")).as_py()
            newest = last if newest is None else max(newest, last)
            if count >= _MOST_COUNTED:
                return count, newest
    return count, newest


def union_scan(table: DynamicTable) -> UnionScan:
    """The union read of a table. Raises InvalidRequest for a table without a log."""
    if table.log is None:
        raise InvalidRequest(
            f"'read.mode'='union' of table {table.name} needs its log, and it has none: read its files "
            f"('read.mode'='file')"
        )
    return UnionScan(merged_on_read(table))


def merged_on_read(table: DynamicTable) -> DynamicTable:
    """The table with its newest files visible; some tables otherwise hide them until they are compacted.

    Called for reads that continue in the log after a snapshot. Rows that wait for a compaction would be in neither,
    unless the log gets the changes of what batch reads show.
    """
    return table if table.publishes else table.all_rows


def _runs(table: DynamicTable, tail: LogTail) -> Iterator[StagedRun]:
    """The valid rows of the log, as runs of their (partition, bucket)."""
    for bucket in tail.buckets:
        chunks = list(counting_rows(table, tail, bucket))
        if not chunks:
            continue
        rows = pa.concat_tables(chunks)
        order = pa.field(ORDER_COLUMN, pa.int64(), nullable=False)
        rows = rows.append_column(order, pa.array(np.arange(rows.num_rows)))
        for place, placed in _by_bucket(table, bucket, rows):
            for partition, part in by_partition(placed, table):
                yield StagedRun(partition, place, part.num_rows, run_to_ipc(part), schema_id=table.schema.id)


def _by_bucket(table: DynamicTable, log_partition: int, rows: pa.Table) -> Iterator[tuple[int, pa.Table]]:
    """Rows of a log partition by the bucket that a writer stages them in."""
    if table.schema.has_dynamic_buckets:
        yield DYNAMIC_BUCKET, rows
    elif is_aligned(table.schema):
        yield log_partition, rows
    else:
        yield from _split(rows, bucket_of_rows(rows, table.schema))


def _split(rows: pa.Table, buckets: npt.NDArray[np.int32]) -> Iterator[tuple[int, pa.Table]]:
    for bucket in np.unique(buckets).tolist():
        yield bucket, rows.take(pa.array(np.flatnonzero(buckets == bucket)))


_ABOVE_ALL = 1 << 62
"""First sequence number of log rows, which are newer than those of all files."""
_MOST_BUFFER = 64 << 20
_LEAST_BUFFER = 1 << 20
"""Minimum write buffer of each partition, in bytes."""


@dataclass(frozen=True, repr=False)
class TailSplit(Split):
    """Full buckets, in every partition: ``parts`` of the files, and the records of their log partitions; picklable.

    Their numbers and those of the log partitions are ``bucket`` modulo ``divisor``. In an aligned table they are equal
    to it.
    """

    parts: tuple[Split, ...] = ()
    divisor: int = 1
    tail: LogTail = field(default_factory=lambda: LogTail({}, {}))

    def __repr__(self) -> str:
        return f"TailSplit(bucket {self.bucket}: {list(self.parts)}, {self._records} records of the log)"

    @property
    def exact_rows(self) -> None:
        """No number: which records of the log count is seen by reading them."""

    def notebook_facts(self) -> Mapping[str, object]:
        """The facts of the parts together, and the number of records of the log."""
        parts = [split for part in self.parts for split in part.files]
        return {
            "bucket": self.bucket,
            "files": len(parts),
            "rows": sum(file.row_count for file in parts),
            "bytes": sum(file.file_size for file in parts),
            "log records": self._records,
            "merge": self.needs_merge,
        }

    @property
    def _records(self) -> int:
        return sum(end - self.tail.starts[bucket] for bucket, end in self.tail.ends.items())


def tail_splits(splits: Sequence[Split], tail: LogTail, schema: TableSchema) -> list[Split]:
    """The splits of the files; in buckets whose log partitions have records, they are joined with these."""
    divisor = common_divisor(schema, splits)
    touched: dict[int, list[int]] = {}
    for log_partition in tail.buckets:
        touched.setdefault(log_partition % divisor, []).append(log_partition)
    out = [split for split in splits if split.bucket % divisor not in touched]
    for place, own in touched.items():
        parts = tuple(split for split in splits if split.bucket % divisor == place)
        records = replace(tail, starts={p: tail.starts[p] for p in own}, ends={p: tail.ends[p] for p in own})
        out.append(TailSplit(b"", place, 0, (), schema.is_keyed, parts=parts, divisor=divisor, tail=records))
    return out


def read_tail_split(
    table: DynamicTable, split: TailSplit, columns: Sequence[str], filter: Predicate | None
) -> Iterator[pa.RecordBatch]:
    """The rows of the buckets in bounded memory; called on executors.

    Rows of the log are sorted in memtables, which spill. In a table without a key they simply follow the files.
    """
    if table.schema.is_keyed:
        yield from _merged(table, split, columns, filter)
        return
    for part in split.parts:
        yield from table.store.read_split(part, columns, filter)
    for log_partition in split.tail.buckets:
        for rows in counting_rows(table, split.tail, log_partition):
            empty = Split(b"", split.bucket, 0, (), False)
            yield from table.store.read_split(replace(empty, inline_runs=(_run(rows, 0),)), columns, filter)


def _merged(
    table: DynamicTable, split: TailSplit, columns: Sequence[str], filter: Predicate | None
) -> Iterator[pa.RecordBatch]:
    splits_of: dict[BucketKey, list[Split]] = {}
    for part in split.parts:
        splits_of.setdefault((part.partition, part.bucket), []).append(part)
    totals = {part.partition: part.total_buckets for part in split.parts}
    memtables: dict[BucketKey, Memtable] = {}
    try:
        _sort(table, split, totals, memtables)
        for bucket_key in sorted({*splits_of, *memtables}):
            parts = splits_of.get(bucket_key, [])
            whole = Split(
                *bucket_key,
                totals.get(bucket_key[0], table.schema.num_buckets),
                tuple(f for part in parts for f in part.files),
                needs_merge=True,
                inline_runs=tuple(run for part in parts for run in part.inline_runs),
                vectors=tuple(v for part in parts for v in part.vectors),
            )
            if bucket_key in memtables:
                yield from table.store.read_split(whole, columns, filter, newest=memtables[bucket_key].sorted_batches())
            else:
                for part in parts:
                    yield from table.store.read_split(part, columns, filter)
    finally:
        for memtable in memtables.values():
            memtable.close()


def _sort(
    table: DynamicTable, split: TailSplit, totals: Mapping[bytes, int], memtables: dict[BucketKey, Memtable]
) -> None:
    """Adds the rows of the log to one memtable per partition and bucket; all share a write buffer.

    ``totals`` are the numbers of buckets of partitions that have files.
    """
    schema, engine = table.schema, engine_of(table.schema)
    limit = min(int(table.options.need(WRITE_BUFFER_SIZE)), _MOST_BUFFER)
    number = _ABOVE_ALL
    for rows in itertools.chain.from_iterable(counting_rows(table, split.tail, b) for b in split.tail.buckets):
        numbered = _system(rows, number)
        number += rows.num_rows
        for partition, rows_of_partition in by_partition(numbered, table):
            total = totals.get(partition, schema.num_buckets)
            has_one = max(1, total) == split.divisor
            for bucket, part in (
                [(split.bucket, rows_of_partition)]
                if has_one
                else _split(rows_of_partition, _buckets(rows_of_partition, schema, total))
            ):
                bucket_key = partition, bucket
                if bucket_key not in memtables:
                    memtables[bucket_key] = Memtable(schema.trimmed_primary_keys, engine, limit)
                    for memtable in memtables.values():
                        memtable.limit = max(limit // len(memtables), _LEAST_BUFFER)
                memtables[bucket_key].add(part)


def _buckets(rows: pa.Table, schema: TableSchema, total: int) -> npt.NDArray[np.int32]:
    return bucket_of_rows(rows, replace(schema, options={**schema.options, BUCKET.key: str(total)}))


def _system(rows: pa.Table, first: int) -> pa.Table:
    """Rows of the log with the system columns of the files, numbered from ``first``."""
    kinds = rows.column(KIND_COLUMN)
    numbers = pa.array(np.arange(first, first + rows.num_rows, dtype=np.int64))
    plain = rows.drop_columns([KIND_COLUMN])
    plain = plain.append_column(pa.field(SEQUENCE_COLUMN, pa.int64(), nullable=False), numbers)
    return plain.append_column(pa.field(KIND, pa.int8(), nullable=False), kinds)


def _run(rows: pa.Table, first: int) -> bytes:
    return run_to_ipc(_system(rows, first))
