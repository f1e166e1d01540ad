"""System tables of the log, its consumers and maintenance."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import polars as pl
import pyarrow as pa

from lakelog.errors import Corrupt, NotFound
from lakelog.io.clock import now_ms
from lakelog.logstore.protocol.header import BEGIN, DATA
from lakelog.paimon.schema.schema import TableSchema
from lakelog.paimon.types.types import BYTES, AtomicType, DataField
from lakelog.table.health.log_rows import RowCounter
from lakelog.table.log.position import headers_of
from lakelog.table.log.register import NamedReaders
from lakelog.table.log.scan import LogScan
from lakelog.table.maintenance.run_history import Runs
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.read.base import TableScan, chosen
from lakelog.table.read.log_view import LogView, capture
from lakelog.table.rejected.entries import RejectedEntries, RejectedEntry, UnreadableEntries
from lakelog.table.rejected.rows import REJECTED_SCHEMA, UNREADABLE, rejected_rows
from lakelog.table.rejected.sources import text_of
from lakelog.table.system.metadata import INT, LONG, TEXT, TIME, Columns, MetadataTable, local_time, needed


class Consumers(MetadataTable):
    """The positions of the table's named readers."""

    COLUMNS: ClassVar[Columns] = (("consumer_id", needed(TEXT)), ("next_snapshot_id", needed(LONG)))

    def rows(self) -> Iterator[tuple[Any, ...]]:
        return ((c.name, c.next_snapshot) for c in self.table.store.consumers.list())


BUCKET, WRITER, READER = "bucket", "writer", "reader"


class Log(MetadataTable):
    """One row per bucket, per live writer, and per bucket of a reader with a ``consumer-id``.

    The ``position`` of a bucket is the end offset of its records in the newest snapshot; that of a reader is its next
    offset. ``lag`` of a bucket is the number of rows that wait for the files, that of a reader of the changes after its
    position. A writer has its newest decided and sealed epochs, and the age of its oldest unsealed epoch, NULL if all
    are sealed.
    """

    COLUMNS: ClassVar[Columns] = (
        ("kind", needed(TEXT)), ("name", TEXT), ("bucket", INT), ("first_offset", LONG), ("end_offset", LONG),
        ("position", LONG), ("lag", LONG), ("decided_epoch", LONG), ("sealed_epoch", LONG),
        ("open_age_ms", LONG), ("last_active", TIME),
    )  # fmt: skip

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """The rows, none for a table without a log. Raises Unavailable."""
        if self.plain.log is None:
            return
        log_view, now = capture(self.plain), now_ms()
        rows = RowCounter(self.plain, log_view)
        rest = (None,) * 4
        for bucket, end in sorted(log_view.ends.items()):
            first, position = log_view.firsts.get(bucket, 0), log_view.state.offsets.get(bucket, 0)
            yield BUCKET, None, bucket, first, end, position, rows.of(bucket).waiting, *rest
        opened = self._opened(log_view)
        for name, writer in sorted(log_view.writers.items()):
            age = now - opened[name] if name in opened else None
            nothing = (None,) * 5
            yield WRITER, name, *nothing, writer.decided, writer.sealed, age, local_time(writer.since_ms)
        for known in NamedReaders(self.table.io, self.table.path).list():
            for bucket, position in sorted(known.offsets.items()):
                end, first = log_view.ends.get(bucket, 0), log_view.firsts.get(bucket, 0)
                late = rows.after(bucket, position)
                yield READER, known.name, bucket, first, end, position, late, *rest[:3], local_time(known.moved_ms)

    @property
    def plain(self) -> DynamicTable:
        """The base table."""
        return replace(self.table, view=None)

    def _opened(self, log_view: LogView) -> Mapping[str, int]:
        """Writer → start of its oldest epoch that is in no snapshot: its first record, or else its decision."""
        out: dict[str, int] = {}
        for record in log_view.epochs:
            out[record.writer] = min(record.time_ms, out.get(record.writer, record.time_ms))
        sealed = {name: w.sealed for name, w in log_view.writers.items()}
        scan = LogScan(self.plain)
        starts = log_view.starts([w.sealed_up_to for w in log_view.writers.values()])
        for bucket, start in starts.items():
            for records in scan.reader.chunks(bucket, start, log_view.ends[bucket], scan.most_records):
                for writer, time_ms in _first_times(records, sealed):
                    out[writer] = min(time_ms, out.get(writer, time_ms))
        return out


def _first_times(records: pa.Table, sealed: Mapping[str, int]) -> Iterator[tuple[str, int]]:
    """Writer → time of its first record of an epoch that is not sealed."""
    times = pl.Series("time", records.column("timestamp_ms").to_numpy())
    newest = pl.col("writer").replace_strict(dict(sealed), default=None, return_dtype=pl.Int64)
    heads = headers_of(records).with_columns(times).filter(pl.col("kind").is_in([DATA, BEGIN]))
    return heads.filter(pl.col("epoch") > newest).group_by("writer").agg(pl.col("time").min()).iter_rows()


_REJECTED_COLUMNS: Columns = (
    ("time", needed(AtomicType("TIMESTAMP_LTZ", precision=3))), ("reason", needed(TEXT)),
    ("writer", needed(TEXT)), ("epoch", needed(LONG)), ("task", INT), ("row", LONG), ("topic", TEXT),
    ("bucket", INT), ("offset", LONG), ("format", needed(TEXT)), ("key", BYTES), ("value", needed(BYTES)),
    ("schema_id", LONG), ("text", TEXT),
)  # fmt: skip


class Rejected(TableScan):
    """One row per rejected row or log record, with its bytes, place, reason and time, oldest first."""

    @property
    def row_schema(self) -> TableSchema:
        """The fixed columns: those of ``REJECTED_SCHEMA``, and ``text``, the value for people."""
        fields = tuple(DataField(at, name, kind) for at, (name, kind) in enumerate(_REJECTED_COLUMNS))
        return TableSchema(0, fields, len(fields) - 1)

    def plan(self) -> Sequence[RejectedEntry | UnreadableEntries]:
        """One split per file of rejected rows, and per list of them that cannot be read."""
        entries = RejectedEntries(self.table).visible()
        return [*entries.unreadable, *entries.entries]

    def read(self, split: RejectedEntry | UnreadableEntries) -> Iterator[pa.RecordBatch]:
        """The rows of a split that match. If the split is unreadable, one row with the error, which names the path."""
        for batch in self._rows(split):
            rows = pa.Table.from_batches([batch])
            yield from chosen(rows.append_column("text", text_of(rows)), self.schema, self.filter)

    def _rows(self, split: RejectedEntry | UnreadableEntries) -> Iterator[pa.RecordBatch]:
        if isinstance(split, UnreadableEntries):
            yield _unreadable(split.why, 0, "", -1)
            return
        try:
            yield from rejected_rows(self.table, split)
        except (Corrupt, NotFound) as why:
            if isinstance(why, Corrupt) or split.time_ms > RejectedEntries(self.table).oldest_ms:  # else expired by now
                yield _unreadable(str(why), split.time_ms, split.writer, split.epoch)


def _unreadable(why: str, time_ms: int, writer: str, epoch: int) -> pa.RecordBatch:
    row = {"time": time_ms, "reason": why, "writer": writer, "epoch": epoch, "format": UNREADABLE, "value": b""}
    return pa.RecordBatch.from_pylist([row], REJECTED_SCHEMA)


class MaintenanceRuns(MetadataTable):
    """One row per maintenance run, newest first; see ``lakelog.table.maintenance.run_history.Run``."""

    COLUMNS: ClassVar[Columns] = (
        ("kind", needed(TEXT)), ("outcome", needed(TEXT)), ("started", needed(TIME)),
        ("seconds", needed(AtomicType("DOUBLE"))), ("reason", needed(TEXT)), ("detail", needed(TEXT)),
        ("snapshot_id", LONG), ("files_before", needed(LONG)), ("files_after", needed(LONG)),
        ("bytes_before", needed(LONG)), ("bytes_after", needed(LONG)), ("host", needed(TEXT)),
        ("process", needed(LONG)),
    )  # fmt: skip

    def rows(self) -> Iterator[tuple[Any, ...]]:
        for run in Runs(self.table.io, self.table.path).list():
            what = (run.kind, run.outcome, local_time(run.started_ms), run.seconds, run.reason, run.detail)
            counts = (run.files_before, run.files_after, run.bytes_before, run.bytes_after)
            yield *what, run.snapshot, *counts, run.host, run.process
