"""Collects the metrics of a log: ends, decided offsets, offsets in the files, writers and readers."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from lakelog.errors import NotFound, OffsetExpired
from lakelog.logstore.base import LogReader
from lakelog.logstore.protocol.header import CORRECTION, DATA, of_kinds
from lakelog.table.health.stats import BATCH, FOLLOW, STREAM, LogBucketStats, LogStats, ReaderStats, WriterStats
from lakelog.table.log.bad_records import noted_bad_records
from lakelog.table.log.register import NamedReader, NamedReaders
from lakelog.table.log.scan import LogScan
from lakelog.table.maintenance.retention import log_expiry_interval_s, log_floors
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.model.epoch_record import EpochRecord
from lakelog.table.model.log_state import FOLLOWER
from lakelog.table.model.published_links import PublishedLinks
from lakelog.table.read.log_view import MOST_LAG, LogView, WriterProgress, capture

_FIRST_RECORDS: Final = 64
"""Number of records after the files' offset, plus the control records there, that are searched for the first row."""
_ROWS: Final = (DATA, CORRECTION)


def collect_log_stats(table: DynamicTable) -> LogStats:
    """The metrics of a table's log. Reads at most a few records of each bucket. Raises Unavailable, NotFound."""
    log_view, reader = capture(table), LogScan(table).reader
    readers = NamedReaders(table.io, table.path).list()
    buckets = tuple(_bucket(reader, log_view, readers, bucket) for bucket in sorted(log_view.ends))
    lags = any(bucket.lag for bucket in buckets)
    return LogStats(
        buckets,
        tuple(_writer(log_view.epochs, name, writer, lags) for name, writer in sorted(log_view.writers.items())),
        tuple(_reader(reader, log_view, found) for found in readers),
        any(offset < log_view.ends.get(bucket, 0) for bucket, offset in log_view.unowned.items()),
        bad_records=_still_stored(noted_bad_records(table), log_view),
        expirable=_is_expirable(table, reader, log_view),
        unpublished_ms=_unpublished_ms(table, log_view) if table.publishes else None,
    )


def _is_expirable(table: DynamicTable, reader: LogReader, log_view: LogView) -> bool:
    late_ms = int(1000 * log_expiry_interval_s(table))
    return reader.is_expirable(log_floors(log_view, table), late_ms)


def _unpublished_ms(table: DynamicTable, log_view: LogView) -> int | None:
    """The commit time of the oldest snapshot whose changes are not, or not only, in the log."""
    link, snapshot = PublishedLinks.of(table).last(), log_view.snapshot
    is_clean = not link.attempt and all(end <= link.since.get(b, 0) for b, end in log_view.ends.items())
    if snapshot is None or (is_clean and link.is_at(snapshot)):
        return None
    with contextlib.suppress(NotFound):
        snapshot = table.store.snapshot(min(link.snapshot + 1, snapshot.id))
    return snapshot.time_millis


def _still_stored(records: Iterable[str], log_view: LogView) -> tuple[str, ...]:
    """The records (as bucket-offset) that are still in the log."""
    parts = ((name, *name.split("-")) for name in records)
    return tuple(name for name, bucket, offset in parts if int(offset) >= log_view.firsts.get(int(bucket), 0))


def _bucket(reader: LogReader, log_view: LogView, readers: Sequence[NamedReader], bucket: int) -> LogBucketStats:
    first, end = log_view.firsts.get(bucket, 0), log_view.ends[bucket]
    applied, markers = log_view.state.offsets.get(bucket, 0), log_view.state.markers.get(bucket, 0)
    lag = bucket_lag(reader, log_view, bucket)
    files_ms = _last_ms(reader, bucket, applied) if first < applied <= end else None
    read_to = [found.offsets.get(bucket, 0) for found in readers]
    return LogBucketStats(
        bucket,
        first,
        end,
        min(end, _decided(log_view.epochs, bucket, applied)),
        applied,
        lag,
        _last_ms(reader, bucket, end) if lag else files_ms,
        files_ms,
        _first_row_ms(reader, bucket, max(first, applied), end, markers) if lag else None,
        min(applied, *read_to) if read_to else None,
        max(0, (reader.entries(bucket, applied, first) or 0) - markers) if 0 < applied < first else 0,
    )


def bucket_lag(reader: LogReader, log_view: LogView, bucket: int) -> int:
    """Number of a bucket's records that may be rows and are not in the files; the only definition of a table's lag."""
    first, applied = log_view.firsts.get(bucket, 0), log_view.state.offsets.get(bucket, 0)
    records = reader.count(bucket, max(first, applied), log_view.ends[bucket], MOST_LAG)
    return max(0, records - log_view.state.markers.get(bucket, 0))


def reader_lag(reader: LogReader, log_view: LogView, bucket: int, position: int) -> int:
    """Number of a bucket's records, of those in the log, after the position of a named reader."""
    return reader.count(bucket, max(position, log_view.firsts.get(bucket, 0)), log_view.ends.get(bucket, 0), MOST_LAG)


def _decided(epochs: Iterable[EpochRecord], bucket: int, applied: int) -> int:
    """The offset after the last entry of the epochs without a snapshot, as a lower bound."""
    parts = (part for record in epochs for attempt in record.attempts for part in attempt.appends)
    return max([applied, *(p.first_offset + p.entry_count for p in parts if p.bucket == bucket)])


def _last_ms(reader: LogReader, bucket: int, end: int) -> int | None:
    """The append time of the last record before ``end``; None if there is none, or it has expired."""
    start = reader.last_start(bucket, end)
    if start is not None:
        with contextlib.suppress(OffsetExpired):
            found = reader.read(bucket, start, end, 1)
            if found.num_rows:
                return int(found.column("timestamp_ms")[0].as_py())
    return None


def _first_row_ms(reader: LogReader, bucket: int, start: int, end: int, markers: int) -> int | None:
    """The append time of the first record after the files' offset that may be a row, among the first ones."""
    with contextlib.suppress(OffsetExpired):
        found = reader.read(bucket, start, end, markers + _FIRST_RECORDS)
        rows = of_kinds(found, _ROWS)
        if rows.num_rows:
            return int(rows.column("timestamp_ms")[0].as_py())
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


def _reader(reader: LogReader, log_view: LogView, found: NamedReader) -> ReaderStats:
    return ReaderStats(found.name, _records(reader, found.offsets, log_view), found.moved_ms)


def _records(reader: LogReader, offsets: Mapping[int, int], log_view: LogView) -> int:
    """Number of records from some offsets on, of those in the log."""
    return sum(reader_lag(reader, log_view, bucket, offset) for bucket, offset in offsets.items())
