"""Reads the log store as a changelog: records between two offsets become Arrow rows with ``_row_kind``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakelog.errors import InvalidOption, InvalidRequest, InvalidSchema
from lakelog.logstore.base import LogLocation, LogReader
from lakelog.logstore.clients import reader_for
from lakelog.logstore.format import LogFormat
from lakelog.logstore.formats import log_format
from lakelog.logstore.header import CORRECTION, DATA, parse_kinds
from lakelog.options.log import (
    CHANGELOG_MODES,
    CONSISTENCY_GUARANTEE,
    DATA_FORMAT,
    STARTUP_MODE,
    STARTUP_OFFSETS,
    STARTUP_TIMESTAMP,
    parse_specific_offsets,
)
from lakelog.spec.arrow import arrow_schema
from lakelog.spec.row_kind import ROW_KIND_COLUMN
from lakelog.table.dynamic_table import DynamicTable

_READ_ROWS = 100_000
"""Rows that are decoded at a time."""

_TAIL_WAIT_S = 0.5
"""How long a tail sleeps at most between two looks; a record wakes it at once."""


@dataclass(frozen=True)
class LogScan:
    """A read of a table's log, of some columns; picklable, so that executors read with it too.

    With the consistency guarantee (the default) corrections are emitted as the rows that take redundant rows back;
    without it they are left out. ``log.consumer.changelog.modes = append-only`` leaves out all but inserts.
    """

    table: DynamicTable
    columns: tuple[str, ...] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"table": self.table, "columns": self.columns}

    @cached_property
    def location(self) -> LogLocation:
        """The log; raises InvalidRequest when the table has none."""
        log = self.table.log
        if log is None:
            raise InvalidRequest(
                f"table {self.table.name} has no log store: create it with 'log-store.enabled'='true', "
                f"or read its files ('read.mode'='file')"
            )
        return log

    @property
    def reader(self) -> LogReader:
        """This process's reader of the log."""
        return reader_for(self.location)

    @cached_property
    def data_schema(self) -> pa.Schema:
        """The table columns that are read."""
        whole = arrow_schema(self.table.schema.fields)
        return whole if self.columns is None else pa.schema([whole.field(c) for c in self.columns])

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns and ``_row_kind``."""
        return self.data_schema.append(pa.field(ROW_KIND_COLUMN, pa.string(), nullable=False))

    @cached_property
    def form(self) -> LogFormat:
        """The format of the log's values."""
        return log_format(self.table.options.need(DATA_FORMAT))

    def records_of(self, rows: int) -> int:
        """So many log records hold at most so many rows, or are one."""
        return max(1, rows // self.form.changes_per_record)

    def start_offsets(self, start: str | Mapping[int, int] | None = None) -> dict[int, int]:
        """Where a new reader begins: ``latest``, ``earliest``, a map bucket → offset, or as the options say (None)."""
        reader, options = self.reader, self.table.options
        if isinstance(start, Mapping):
            return {**reader.end_offsets(), **start}
        mode = start or options.need(STARTUP_MODE)
        if mode == "latest":
            return reader.end_offsets()
        if mode == "earliest":
            return reader.first_offsets()
        if mode == "timestamp":
            return reader.offsets_at(options.need(STARTUP_TIMESTAMP))
        if mode == "specific-offsets":
            return {**reader.end_offsets(), **parse_specific_offsets(options.need(STARTUP_OFFSETS))}
        raise InvalidOption(f"start '{mode}' is not known; use latest, earliest or a map of bucket → offset")

    def read(self, bucket: int, start: int, end: int) -> Iterator[pa.RecordBatch]:
        """The changes of the records with start ≤ offset < end, which must exist. Raises OffsetExpired, Unavailable."""
        position = start
        while position < end:
            records = self.reader.read(bucket, position, end, self.records_of(_READ_ROWS))
            if records.num_rows == 0:
                return
            position = records.column("offset")[records.num_rows - 1].as_py() + 1
            yield from self.decode(records).to_batches()

    def records(self, start: str | Mapping[int, int] | None = None) -> Iterator[pa.Table]:
        """The raw records (RECORDS_SCHEMA) up to the end of the log now, bucket by bucket."""
        ends = self.reader.end_offsets()
        for bucket, position in self.start_offsets(start).items():
            while position < ends[bucket]:
                found = self.reader.read(bucket, position, ends[bucket], self.records_of(_READ_ROWS))
                if found.num_rows == 0:
                    break
                position = found.column("offset")[found.num_rows - 1].as_py() + 1
                yield found

    def decode(self, records: pa.Table) -> pa.Table:
        """Rows (``schema``) of log records (RECORDS_SCHEMA); control records give none."""
        kinds = parse_kinds(records.column("header"))
        wanted = pc.equal(kinds, DATA)
        if self.table.options.need(CONSISTENCY_GUARANTEE):
            wanted = pc.or_(wanted, pc.equal(kinds, CORRECTION))
        chosen = records if pc.all(wanted).as_py() else records.filter(wanted)
        if chosen.num_rows == 0:
            return self.schema.empty_table()
        values = chosen.column("value").combine_chunks()
        rows = self.form.decode(values, self.data_schema).select(self.schema.names)
        if self.table.options.need(CHANGELOG_MODES) == "append-only":
            rows = rows.filter(pc.equal(rows.column(ROW_KIND_COLUMN), "+I"))
        return self._checked(rows)

    def _checked(self, rows: pa.Table) -> pa.Table:
        """The rows with the schema of the read; a NOT NULL column without a value was dropped by ALTER TABLE."""
        for field in self.schema:
            if not field.nullable and rows.column(field.name).null_count:
                raise InvalidSchema(
                    f"column '{field.name}' of table {self.table.name} is NOT NULL, but newer messages of its log do "
                    f"not have it: it was dropped meanwhile; open the table again, or start the query again"
                )
        return rows.cast(self.schema)

    def tail(
        self, start: str | Mapping[int, int] | None = "latest", stop: str | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Follows the log: yields each batch of changes as soon as it is there, for ever or (``stop='latest'``) up to
        its end now.

        Raises OffsetExpired when a start offset is gone, Unavailable when the log is away.
        """
        if stop not in (None, "latest"):
            raise InvalidRequest(f"stop={stop!r} is not known; use None (follow for ever) or 'latest'")
        positions = self.start_offsets(start)
        ends = self.reader.end_offsets() if stop else None
        while ends is None or any(positions[b] < ends[b] for b in positions):
            moved = False
            for bucket, position in positions.items():
                if ends is not None and position >= ends[bucket]:
                    continue
                end = None if ends is None else ends[bucket]
                records = self.reader.read(bucket, position, end, self.records_of(_READ_ROWS))
                if records.num_rows == 0:
                    continue
                moved = True
                positions[bucket] = records.column("offset")[records.num_rows - 1].as_py() + 1
                yield from (b for b in self.decode(records).to_batches() if b.num_rows)
            if not moved:
                self.reader.wait(positions, _TAIL_WAIT_S)
