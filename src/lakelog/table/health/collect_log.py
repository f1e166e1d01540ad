"""Collects the metrics of a log: ends, decided offsets, offsets in the files, writers and readers."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence

from lakelog.errors import NotFound, OffsetExpired
from lakelog.io.quantities import format_duration
from lakelog.logstore import log_factory
from lakelog.logstore.base import LogReader
from lakelog.table.health.log_rows import BucketRows, RowCounter
from lakelog.table.health.stats import BATCH, FOLLOW, STREAM, LogBucketStats, LogStats, ReaderStats, WriterStats
from lakelog.table.log.bad_records import noted_bad_records
from lakelog.table.log.register import NamedReader, NamedReaders
from lakelog.table.log.scan import LogScan
from lakelog.table.maintenance.retention import log_expiry_interval_s, log_floors
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.model.epoch_record import EpochRecord
from lakelog.table.model.log_state import FOLLOWER
from lakelog.table.model.published_links import PublishedLinks
from lakelog.table.read.log_view import LogView, WriterProgress, capture


def collect_log_stats(table: DynamicTable) -> LogStats:
    """The metrics of a table's log. Raises Unavailable, NotFound.

    Reads a few records of each bucket, and up to 100,000 of those that wait for the files or that only the log has.
    """
    log_view, reader = capture(table), LogScan(table).reader
    readers = NamedReaders(table.io, table.path).list()
    rows = RowCounter(table, log_view)
    buckets = tuple(_bucket(reader, log_view, readers, rows.of(bucket), bucket) for bucket in sorted(log_view.ends))
    lags = any(bucket.lag for bucket in buckets)
    return LogStats(
        buckets,
        tuple(_writer(log_view.epochs, name, writer, lags) for name, writer in sorted(log_view.writers.items())),
        tuple(_reader(rows, named) for named in readers),
        log_only_kept=_kept(table),
        is_ahead=any(log_view.firsts.get(b, 0) < offset for b, offset in log_view.state.ahead.items()),
        bad_records=_still_stored(noted_bad_records(table), log_view),
        expirable=_is_expirable(table, reader, log_view),
        unpublished_ms=_unpublished_ms(table, log_view),
    )


def _is_expirable(table: DynamicTable, reader: LogReader, log_view: LogView) -> bool:
    late_ms = int(1000 * log_expiry_interval_s(table))
    return reader.is_expirable(log_floors(log_view, table), late_ms)


def _unpublished_ms(table: DynamicTable, log_view: LogView) -> int | None:
    """The commit time of the oldest snapshot whose changes are not, or not only, in the log."""
    snapshot = log_view.snapshot
    missing = log_view.state.missing.values()
    first = _unpublished_link(table, log_view) if table.publishes else min(missing, default=None)
    if snapshot is None or first is None:
        return None
    with contextlib.suppress(NotFound):
        snapshot = table.store.snapshot(min(first, snapshot.id))
    return snapshot.time_millis


def _unpublished_link(table: DynamicTable, log_view: LogView) -> int | None:
    """The first snapshot that a log of changes has not got, or not only."""
    link = PublishedLinks.of(table).last()
    is_clean = not link.attempt and all(end <= link.since.get(b, 0) for b, end in log_view.ends.items())
    return None if is_clean and link.is_at(log_view.snapshot) else link.snapshot + 1


def _still_stored(records: Iterable[str], log_view: LogView) -> tuple[str, ...]:
    """The records (as bucket-offset) that are still in the log."""
    parts = ((name, *name.split("-")) for name in records)
    return tuple(name for name, bucket, offset in parts if int(offset) >= log_view.firsts.get(int(bucket), 0))


def _kept(table: DynamicTable) -> str:
    """The end of the rows that only the log has, as a clause."""
    assert table.log is not None
    if table.log.retention_ms is not None:
        return f"they expire {format_duration(table.log.retention_ms)} after their write"
    return "the log keeps them" if log_factory(table.log.system).is_local else "they expire with the topic"


def _bucket(
    reader: LogReader, log_view: LogView, readers: Sequence[NamedReader], rows: BucketRows, bucket: int
) -> LogBucketStats:
    first, end = log_view.firsts.get(bucket, 0), log_view.ends[bucket]
    applied, markers = log_view.state.offsets.get(bucket, 0), log_view.state.markers.get(bucket, 0)
    files_ms = _last_ms(reader, bucket, applied) if first < applied <= end else None
    read_to = [named.offsets.get(bucket, 0) for named in readers]
    return LogBucketStats(
        bucket,
        first,
        end,
        min(end, _decided(log_view.epochs, bucket, applied)),
        applied,
        rows.waiting,
        _last_ms(reader, bucket, end) if rows.waiting or rows.log_only else files_ms,
        files_ms,
        rows.waiting_ms,
        min(applied, *read_to) if read_to else None,
        max(0, (reader.entries(bucket, applied, first) or 0) - markers) if 0 < applied < first else 0,
        rows.log_only,
        rows.unowned,
    )


def _decided(epochs: Iterable[EpochRecord], bucket: int, applied: int) -> int:
    """The offset after the last entry of the epochs without a snapshot, as a lower bound."""
    parts = (part for record in epochs for attempt in record.attempts for part in attempt.appends)
    return max([applied, *(p.first_offset + p.entry_count for p in parts if p.bucket == bucket)])


def _last_ms(reader: LogReader, bucket: int, end: int) -> int | None:
    """The append time of the last record before ``end``; None if there is none, or it has expired."""
    start = reader.last_start(bucket, end)
    if start is not None:
        with contextlib.suppress(OffsetExpired):
            records = reader.read(bucket, start, end, 1)
            if records.num_rows:
                return int(records.column("timestamp_ms")[0].as_py())
    return None


def _writer(epochs: Iterable[EpochRecord], name: str, writer: WriterProgress, lags: bool) -> WriterStats:
    kind = FOLLOW if name == FOLLOWER else BATCH if writer.is_batch else STREAM
    waiting = [r.time_ms for r in epochs if r.writer == name]
    is_open = kind == BATCH and not waiting
    return WriterStats(
        name,
        kind,
        writer.decided,
        writer.sealed,
        len(waiting),
        writer.since_ms,
        min(waiting, default=None),
        writer.since_ms if is_open else None,
        writer.is_dead and (lags or kind == BATCH),
        writer.is_alive,
    )


def _reader(rows: RowCounter, found: NamedReader) -> ReaderStats:
    lag = sum(rows.after(bucket, offset) for bucket, offset in found.offsets.items())
    return ReaderStats(found.name, lag, found.moved_ms)
