"""Reads the log store as a changelog: decodes records between two offsets to Arrow rows with ``_row_kind``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import groupby
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from lakelog.errors import Corrupt, InvalidOption, InvalidRequest, InvalidSchema, OffsetExpired
from lakelog.logstore import log_factory
from lakelog.logstore.base import LogLocation, LogReader
from lakelog.logstore.encoding.record_format import LogFormat
from lakelog.logstore.protocol.header import CORRECTION, DATA, as_foreign, foreign_records, of_kinds
from lakelog.merge.table_rules import engine_class
from lakelog.options.log import (
    CHANGELOG_MODES,
    CONSISTENCY_GUARANTEE,
    EXPIRED_OFFSETS,
    LOG_CONSISTENCY,
    RETRACTIONS,
    STARTUP_MODE,
    STARTUP_OFFSETS,
    STARTUP_TIMESTAMP,
    parse_specific_offsets,
)
from lakelog.paimon.rows.row_kind import INSERT, KIND_FIELD, NAMES, ROW_KIND_COLUMN
from lakelog.paimon.types.arrow import arrow_schema
from lakelog.paimon.types.null_rows import with_empty
from lakelog.table.log.bad_records import RecordDecoder
from lakelog.table.log.clients import reader_of
from lakelog.table.log.committed_reader import CommittedReader, VisibleBatch, only_control_records_expired
from lakelog.table.log.position import LogPosition, SnapshotCutover
from lakelog.table.log.record_schemas import RecordSchemas, converted, source_columns
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.model.log_state import newest_state

_READ_ROWS = 100_000
"""Number of rows decoded at a time."""
_READ_PACKS = 64
"""Minimum number of records with several changes that are decoded at a time: those of small appends hold few."""

_CONSISTENCY = "consistency"
_MARKS = "marks"


@dataclass(frozen=True)
class LogScan:
    """A read of a table's log, of some columns; picklable, so that executors can use it too.

    With the consistency guarantee (the default), corrections are emitted as rows that take redundant rows back. Without
    it they are skipped. With ``log.consistency = transactional`` no correction is emitted, and a row only after its
    epoch is committed. ``log.consumer.changelog.modes = append-only`` emits only inserts, and skips or refuses the
    others (``log.consumer.retractions``). ``switch`` skips records that a snapshot contains.
    """

    table: DynamicTable
    columns: tuple[str, ...] | None = None
    switch: SnapshotCutover | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"table": self.table, "columns": self.columns, "switch": self.switch}

    @cached_property
    def location(self) -> LogLocation:
        """The log; raises InvalidRequest if the table has none."""
        log = self.table.log
        if log is None:
            raise InvalidRequest(
                f"table {self.table.name} has no log store: create it with 'log-store.enabled'='true', "
                f"or read its files ('read.mode'='file')"
            )
        return log

    @property
    def reader(self) -> LogReader:
        """This thread's reader of the log."""
        return reader_of(self.table, self.location)

    @cached_property
    def data_schema(self) -> pa.Schema:
        """The table columns that are read."""
        whole = arrow_schema(self.table.schema.fields)
        return whole if self.columns is None else pa.schema([whole.field(c) for c in self.columns])

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns and ``_row_kind``."""
        return self.data_schema.append(KIND_FIELD)

    @cached_property
    def form(self) -> LogFormat:
        """The format of the log's values."""
        return self.table.record_format

    @property
    def is_transactional(self) -> bool:
        """True if rows are emitted only after they are committed (``log.consistency``)."""
        return bool(self.table.options.need(LOG_CONSISTENCY) == "transactional")

    def records_of(self, rows: int) -> int:
        """The number of log records that hold at most this many rows, at least one."""
        return self.form.records_of(rows)

    def start_mode(self, start: str | Mapping[int, int] | None = None) -> str:
        """The name of a start: the argument, or the option (None)."""
        if isinstance(start, Mapping):
            return "specific-offsets"
        return self.table.options.need(STARTUP_MODE) if start is None else start

    def start_offsets(self, start: str | Mapping[int, int] | None = None) -> dict[int, int]:
        """The start of a new reader: ``latest``, ``earliest``, a map bucket → offset, or from the options (None)."""
        reader, options = self.reader, self.table.options
        if isinstance(start, Mapping):
            ends = reader.end_offsets()
            if odd := [bucket for bucket in start if bucket not in ends or type(start[bucket]) is not int]:
                raise InvalidRequest(
                    f"start {dict(start)!r} has no offset of a bucket of table {self.table.name} at {odd[0]!r}: its "
                    f"buckets are {', '.join(map(str, ends))}"
                )
            return {**ends, **start}
        mode = self.start_mode(start)
        if mode == "latest":
            return reader.end_offsets()
        if mode == "earliest":
            return reader.first_offsets()
        if mode == "timestamp":
            return reader.offsets_at(options.need(STARTUP_TIMESTAMP))
        if mode == "specific-offsets":
            return {**reader.end_offsets(), **parse_specific_offsets(options.need(STARTUP_OFFSETS))}
        raise InvalidOption(
            f"unknown start '{mode}': use latest-full, latest, earliest, the position of a tail, or a map of bucket "
            "→ offset"
        )

    def read(self, bucket: int, start: int, end: int) -> Iterator[pa.RecordBatch]:
        """The changes that the existing records with start ≤ offset < end make visible.

        Raises OffsetExpired, Unavailable.
        """
        for records in self.records_between(bucket, start, end):
            for part in self.parts(bucket, records):
                yield from self.decode(part.records, bucket).to_batches()

    def records_between(self, bucket: int, start: int, end: int) -> Iterator[pa.Table]:
        """The raw records (RECORDS_SCHEMA) with start ≤ offset < end, chunk by chunk."""
        for records in self.reader.chunks(bucket, start, end, self.most_records):
            yield self.known(bucket, records)

    def known(self, bucket: int, records: pa.Table) -> pa.Table:
        """The records of a bucket; those with a header that lakelog did not write are bad records, and no rows.

        Raises Corrupt with topic, bucket and offset, also for a header of an unknown version.
        """
        decoder = RecordDecoder(self.table, partial(self.decoded, number=None), bucket)
        try:
            places = foreign_records(records)
        except Corrupt as why:
            raise Corrupt(f"table {self.table.name}, topic '{self.location.topic}', bucket {bucket}: {why}") from None
        for place in places.tolist():
            offset, header = (records.column(name)[place].as_py() for name in ("offset", "header"))
            decoder.bad(offset, Corrupt(f"lakelog did not write its header {header[:100]!r}"))
        return self._completed(as_foreign(records, places))

    def _completed(self, records: pa.Table) -> pa.Table:
        """The records, with values in place of keys alone where the format of another producer has these."""
        if self.form.is_written or not records.num_rows:
            return records
        keys, values = (records.column(name).combine_chunks() for name in ("key", "value"))
        values = self.form.completed(keys, values, self.table.schema.primary_keys)
        return records.set_column(records.schema.get_field_index("value"), records.schema.field("value"), values)

    def parts(self, bucket: int, records: pa.Table) -> Iterator[VisibleBatch]:
        """The records that these (one or more, of one bucket) make visible: themselves, or the ones they commit.

        Raises OffsetExpired, Unavailable.
        """
        if self.is_transactional:
            expired, most = self.table.options.need(EXPIRED_OFFSETS), self.most_records
            yield from CommittedReader(self.reader, most, self.switch, self.table.name, expired).parts(bucket, records)
        else:
            offsets = records.column("offset")
            start, end = offsets[0].as_py(), offsets[records.num_rows - 1].as_py() + 1
            yield VisibleBatch(records if self.switch is None else self.switch.kept(bucket, records), start, end)

    @property
    def most_records(self) -> int:
        """The number of records decoded at a time."""
        most = self.records_of(_READ_ROWS)
        return most if self.form.changes_per_record == 1 else max(most, _READ_PACKS)

    def position_json(self, position: LogPosition) -> dict[str, Any]:
        """The checkpoint value for a position of this read."""
        out = position.to_json(self.location.log_id)
        marks = {str(b): mark for b, o in sorted(position.offsets.items()) if o and (mark := self.reader.mark(b, o))}
        out |= {_MARKS: marks} if marks else {}
        return {**out, _CONSISTENCY: "transactional"} if self.is_transactional else out

    def position_of(self, value: Mapping[str, Any]) -> LogPosition:
        """The reverse of ``position_json``.

        Raises InvalidRequest for a position in another log or in another history of it, or of a read with another
        ``log.consistency``.
        """
        began = value.get(_CONSISTENCY, "eventual")
        if self.is_transactional != (began == "transactional"):
            raise InvalidRequest(
                f"the position in table {self.table.name} was created with '{LOG_CONSISTENCY.key}'='{began}'. With "
                f"another value, rows of open epochs would be duplicated or lost: set it to '{began}', or restart (a "
                "query: with a new checkpointLocation)"
            )
        position = LogPosition.from_json(value, self.location.log_id, self.table.name)
        self._check_history(position.offsets, value.get(_MARKS, {}))
        return position

    def _check_history(self, offsets: Mapping[int, int], marks: Mapping[str, str]) -> None:
        """Raises InvalidRequest if the log is an older copy of the one in which a position was taken."""
        if not log_factory(self.location.system).is_local:
            return
        ends = self.reader.end_offsets()
        for bucket, offset in offsets.items():
            mark, had = self.reader.mark(bucket, offset) if offset else "", marks.get(str(bucket), "")
            if offset > ends.get(bucket, offset):
                what = f"ends at offset {ends[bucket]}"
            elif mark and had and mark != had:
                what = "has another record before that offset"
            else:
                continue
            raise InvalidRequest(
                f"the log of table {self.table.name} is another one than a reader left: the position is offset "
                f"{offset} of bucket {bucket}, and the bucket {what}. An older copy of the table was restored. Restart "
                "without the position (a query: with a new checkpointLocation, a mirror: with a new topic)"
            )

    def available_offsets(self, positions: Mapping[int, int]) -> dict[int, int]:
        """The positions, with expired ones moved to the first record in the log.

        Raises OffsetExpired if rows may have been lost, unless ``scan.expired-offsets`` is ``earliest``.
        """
        firsts = self.reader.first_offsets(list(positions))
        for bucket, offset in positions.items():
            if offset < firsts[bucket] and not self._may_miss(bucket, offset):
                raise OffsetExpired(
                    f"offset {offset} of bucket {bucket} of the log of table {self.table.name} has expired; the "
                    f"first offset is {firsts[bucket]}. Restart from the newest snapshot "
                    f"('{EXPIRED_OFFSETS.key}'='latest-full'), or skip the rows in between "
                    f"('{EXPIRED_OFFSETS.key}'='earliest')"
                )
        return {b: max(o, firsts[b]) for b, o in positions.items()}

    def _may_miss(self, bucket: int, offset: int) -> bool:
        """True if a read may skip the records that expired from an offset on, by option or because no row is lost."""
        if self.table.options.need(EXPIRED_OFFSETS) == "earliest":
            return True
        state = newest_state(self.table.store)[1]
        return not self.is_transactional and only_control_records_expired(self.table, state, bucket, offset)

    def records(self, start: str | Mapping[int, int] | None = None) -> Iterator[pa.Table]:
        """The raw records (RECORDS_SCHEMA) up to the current end of the log, bucket by bucket."""
        ends = self.reader.end_offsets()
        for bucket, position in self.start_offsets(start).items():
            yield from self.reader.chunks(bucket, position, ends[bucket], self.most_records)

    def decode(self, records: pa.Table, bucket: int | None = None) -> pa.Table:
        """Rows (``schema``) of log records (RECORDS_SCHEMA) of a bucket; control records yield none.

        Raises Corrupt as ``RecordDecoder``.
        """
        kinds = (DATA, CORRECTION) if self.emits_corrections else (DATA,)
        chosen = of_kinds(records, kinds)
        if chosen.column("value").null_count:  # a tombstone of another producer
            chosen = chosen.filter(pc.is_valid(chosen.column("value")))
        if chosen.num_rows == 0:
            return self.schema.empty_table()
        rows = self.rows(chosen, bucket)
        return self._inserts(rows) if self._is_append_only else rows

    @property
    def emits_corrections(self) -> bool:
        """True if corrections are emitted; an append-only read skips them unless retractions are errors."""
        options = self.table.options
        may_emit = not self._is_append_only or options.need(RETRACTIONS) == "error"
        return bool(options.need(CONSISTENCY_GUARANTEE)) and may_emit

    @property
    def _is_append_only(self) -> bool:
        return bool(self.table.options.need(CHANGELOG_MODES) == "append-only")

    def _inserts(self, rows: pa.Table) -> pa.Table:
        """Only the inserts. Raises InvalidRequest for any other row if ``log.consumer.retractions`` requires it."""
        inserts = pc.equal(rows.column(ROW_KIND_COLUMN), NAMES[INSERT])
        if self.table.options.need(RETRACTIONS) == "error" and not pc.all(inserts).as_py():
            kind = rows.column(ROW_KIND_COLUMN).filter(pc.invert(inserts))[0].as_py()
            raise InvalidRequest(retraction_refused(self.table.name, kind))
        return rows.filter(inserts)

    def rows(self, records: pa.Table, bucket: int | None) -> pa.Table:
        """Rows (``schema``) of log records with values, in their order. Raises Corrupt as ``RecordDecoder``.

        Columns are found by their id in the schema of the record. Raises InvalidSchema for a newer record that has no
        value of this read's schema.
        """
        runs = list(self.schemas.runs(records.column("header")))
        parts = [self._rows_of(records.slice(at, end - at), number, bucket) for number, at, end in runs]
        return parts[0] if len(parts) == 1 else pa.concat_tables(parts).combine_chunks()

    def decoded(self, values: pa.LargeBinaryArray, number: int | None) -> pa.Table:
        """Rows (``data_schema`` and ``_row_kind``) of values with the columns of a schema, unchecked.

        Raises what the format raises for a value that it cannot read, Corrupt for an unknown schema or a value that
        the present type does not have, InvalidSchema for a newer value that the former type does not have.
        """
        written, table, names = self.schemas.of(number), self.table.schema, self.data_schema.names
        if written.id == table.id:
            return self.form.decode(values, self.data_schema)
        rows = self.form.decode(values, arrow_schema(source_columns(written, table, names)))
        try:
            return converted(rows, written, table, names).select([*names, ROW_KIND_COLUMN])
        except InvalidSchema as why:
            if written.id > table.id:
                raise
            raise Corrupt(str(why)) from None

    def by_columns(self, records: pa.Table) -> Iterator[tuple[frozenset[str], pa.Table]]:
        """The records with values, in runs of consecutive ones whose rows lack the same columns of the table."""
        for number, at, end in self.schemas.runs(records.column("header")):
            part, start = records.slice(at, end - at), 0
            for lacks, run in groupby(self.lacking(part.column("value").combine_chunks(), number)):
                count = len(list(run))
                yield lacks, part.slice(start, count)
                start += count

    def lacking(self, values: pa.LargeBinaryArray, number: int | None) -> list[frozenset[str]]:
        """The columns of the table that the new row of each value of a schema should have and lacks."""
        names = self.schemas.required(number)
        columns = self.form.lacking(values, list(names))
        return [frozenset(names[name] for name in lacks) if lacks else lacks for lacks in columns]

    @cached_property
    def schemas(self) -> RecordSchemas:
        return RecordSchemas(self.table)

    def _rows_of(self, records: pa.Table, number: int | None, bucket: int | None) -> pa.Table:
        values, offsets = (records.column(name).combine_chunks() for name in ("value", "offset"))
        decoder = RecordDecoder(self.table, partial(self.decoded, number=number), bucket)
        rows = decoder.rows(values, offsets)
        if rows is None:
            return self.schema.empty_table()
        written, table, names = self.schemas.of(number), self.table.schema, self.data_schema.names
        if written.id != table.id:
            # as in files, a column that was made NOT NULL later may have NULL
            here = {field.id for field in written.fields}
            names = [f.name for f in table.select(names) if written.id > table.id and f.id not in here]
        elif table.is_keyed and engine_class(self.table.options).leaves_null:
            names = [name for name in names if name in table.primary_keys]
        rows = self._checked(self._padded(rows.select(self.schema.names)), names)
        return pa.Table.from_arrays(rows.columns, schema=self.schema)

    def _padded(self, rows: pa.Table) -> pa.Table:
        """The rows with CHAR columns of their length, as files have them; another producer may send fewer spaces."""
        for name, length in self.table.schema.padded_columns.items():
            if (at := rows.schema.get_field_index(name)) >= 0:
                texts = pc.utf8_rpad(pc.utf8_rtrim(rows.column(at), " "), length)
                rows = rows.set_column(at, rows.schema.field(at), texts)
        return rows

    def _checked(self, rows: pa.Table, names: Sequence[str]) -> pa.Table:
        """The rows; raises InvalidSchema for NULL in one of these columns if it is NOT NULL: ALTER TABLE dropped it.

        A retraction of another producer may have the key alone: its other columns are NULL, or empty if NOT NULL.
        """
        retracted = pc.invert(pc.is_in(rows.column(ROW_KIND_COLUMN).combine_chunks(), _ADDED))
        for at, field in ((rows.schema.get_field_index(name), self.schema.field(name)) for name in names):
            if field.nullable or not rows.column(at).null_count:
                continue
            column = rows.column(at).combine_chunks()
            if self.table.schema.is_keyed and field.name not in self.table.schema.primary_keys:
                column = with_empty(column, retracted)
                rows = rows.set_column(at, rows.schema.field(at), column)
            if column.null_count:
                raise InvalidSchema(
                    f"column '{field.name}' of table {self.table.name} is NOT NULL, but newer messages of its log do "
                    "not have it: it was dropped concurrently. Open the table again, or restart the query"
                )
        return rows


_ADDED: Final = pa.array(["+I", "+U"])


def retraction_refused(table_name: str, kind: str) -> str:
    """The error message of an append-only read for any other change."""
    return (
        f"the log of table {table_name} has a change of kind '{kind}', and '{RETRACTIONS.key}'='error' with "
        f"'{CHANGELOG_MODES.key}'='append-only' refuses it: leave such changes out ('{RETRACTIONS.key}'='drop'), or "
        f"read all of them ('{CHANGELOG_MODES.key}'='all-kinds'). If it takes back rows of a failed micro-batch, "
        f"'{LOG_CONSISTENCY.key}'='transactional' never shows those"
    )
