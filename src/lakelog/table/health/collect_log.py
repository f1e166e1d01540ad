"""Collects the metrics of a log: ends, decided offsets, offsets in the files, writers and readers."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from lakelog.errors import NotFound, OffsetExpired
from lakelog.logstore.base import LogReader
from lakelog.logstore.protocol.header import CORRECTION, DATA, parse_kinds
from lakelog.table.health.stats import BATCH, FOLLOW, STREAM, LogBucketFigures, LogFigures, ReaderFigures, WriterFigures
from lakelog.table.log.bad_records import noted_bad_records
from lakelog.table.log.register import NamedReader, NamedReaders
from lakelog.table.log.scan import LogScan
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.model.epoch_record import EpochRecord
from lakelog.table.model.log_state import FOLLOWER
from lakelog.table.model.published_links import PublishedLinks
from lakelog.table.read.log_view import MOST_LAG, LogView, WriterProgress, capture

_FIRST_RECORDS: Final = 64
"""Number of records after the files' offset, plus the control records there, that are searched for the first row."""
_ROWS: Final = pa.array([DATA, CORRECTION])


def collect_log_stats(table: DynamicTable) -> LogFigures:
    """The metrics of a table's log. Reads at most a few records of each bucket. Raises Unavailable, NotFound."""
    moment, reader = capture(table), LogScan(table).reader
    readers = NamedReaders(table.io, table.path).list()
    buckets = tuple(_bucket(reader, moment, readers, bucket) for bucket in sorted(moment.ends))
    lags = any(bucket.lag for bucket in buckets)
    return LogFigures(
        buckets,
        tuple(_writer(moment.epochs, name, writer, lags) for name, writer in sorted(moment.writers.items())),
        tuple(_reader(reader, moment, found) for found in readers),
        any(offset < moment.ends.get(bucket, 0) for bucket, offset in moment.unowned.items()),
        bad_records=_held(noted_bad_records(table), moment),
        unpublished_ms=_unpublished_ms(table, moment) if table.publishes else None,
    )


def _unpublished_ms(table: DynamicTable, moment: LogView) -> int | None:
    """The commit time of the oldest snapshot whose changes are not, or not only, in the log."""
    link, snapshot = PublishedLinks.of(table).last(), moment.snapshot
    is_clean = not link.attempt and all(end <= link.since.get(b, 0) for b, end in moment.ends.items())
    if snapshot is None or (is_clean and link.is_at(snapshot)):
        return None
    with contextlib.suppress(NotFound):
        snapshot = table.store.snapshot(min(link.snapshot + 1, snapshot.id))
    return snapshot.time_millis


def _held(records: Iterable[str], moment: LogView) -> tuple[str, ...]:
    """The records (as bucket-offset) that are still in the log."""
    places = ((name, *name.split("-")) for name in records)
    return tuple(name for name, bucket, offset in places if int(offset) >= moment.firsts.get(int(bucket), 0))


def _bucket(reader: LogReader, moment: LogView, readers: Sequence[NamedReader], bucket: int) -> LogBucketFigures:
    first, end = moment.firsts.get(bucket, 0), moment.ends[bucket]
    applied, markers = moment.state.offsets.get(bucket, 0), moment.state.markers.get(bucket, 0)
    lag = bucket_lag(reader, moment, bucket)
    files_ms = _last_ms(reader, bucket, applied) if first < applied <= end else None
    read_to = [found.offsets.get(bucket, 0) for found in readers]
    return LogBucketFigures(
        bucket,
        first,
        end,
        min(end, _decided(moment.epochs, bucket, applied)),
        applied,
        lag,
        _last_ms(reader, bucket, end) if lag else files_ms,
        files_ms,
        _first_row_ms(reader, bucket, max(first, applied), end, markers) if lag else None,
        min(applied, *read_to) if read_to else None,
        max(0, (reader.entries(bucket, applied, first) or 0) - markers) if 0 < applied < first else 0,
    )


def bucket_lag(reader: LogReader, moment: LogView, bucket: int) -> int:
    """Number of a bucket's records that may be rows and are not in the files; the only definition of a table's lag."""
    first, applied = moment.firsts.get(bucket, 0), moment.state.offsets.get(bucket, 0)
    records = reader.count(bucket, max(first, applied), moment.ends[bucket], MOST_LAG)
    return max(0, records - moment.state.markers.get(bucket, 0))


def reader_lag(reader: LogReader, moment: LogView, bucket: int, position: int) -> int:
    """Number of a bucket's records, of those in the log, after the position of a named reader."""
    return reader.count(bucket, max(position, moment.firsts.get(bucket, 0)), moment.ends.get(bucket, 0), MOST_LAG)


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
        kinds = parse_kinds(found.column("header"))
        rows = found.filter(pc.fill_null(pc.is_in(kinds, _ROWS), True))
        if rows.num_rows:
            return int(rows.column("timestamp_ms")[0].as_py())
    return None


def _writer(epochs: Iterable[EpochRecord], name: str, writer: WriterProgress, lags: bool) -> WriterFigures:
    kind = FOLLOW if name == FOLLOWER else BATCH if writer.is_batch else STREAM
    waiting = [r.time_ms for r in epochs if r.writer == name]
    is_open = kind == BATCH and not waiting
    return WriterFigures(
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


def _reader(reader: LogReader, moment: LogView, found: NamedReader) -> ReaderFigures:
    return ReaderFigures(found.name, _records(reader, found.offsets, moment), found.moved_ms)


def _records(reader: LogReader, offsets: Mapping[int, int], moment: LogView) -> int:
    """Number of records from some offsets on, of those in the log."""
    return sum(reader_lag(reader, moment, bucket, offset) for bucket, offset in offsets.items())
