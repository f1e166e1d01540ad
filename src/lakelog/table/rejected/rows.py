"""The rows that an attempt leaves out: their files, and what is stored of each row (RFC 16)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from lakelog.errors import ConstraintViolation, Corrupt, InvalidOption, InvalidSchema, LakelogError
from lakelog.io.clock import now_ms
from lakelog.io.names import new_uuid
from lakelog.options.constraints import REJECT, constraints_of
from lakelog.options.rejected import FAIL, KEEP, ON_BAD_RECORD, SKIP
from lakelog.paimon.types.checked_values import parsing
from lakelog.table.model.attempt import RejectedRows
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.rejected.entries import RejectedEntries, RejectedEntry

ROW_FORMAT: Final = "row"
"""``format`` of a row that a program gave; that of a log record is the format of the log."""
UNREADABLE: Final = "unreadable"
"""``format`` of the row of ``t$rejected`` that stands for a file that cannot be read."""
REJECTED_SCHEMA: Final = pa.schema(
    [
        pa.field("time", pa.timestamp("ms", "UTC"), nullable=False),
        pa.field("reason", pa.string(), nullable=False),
        pa.field("writer", pa.string(), nullable=False),
        pa.field("epoch", pa.int64(), nullable=False),
        pa.field("task", pa.int32()),
        pa.field("row", pa.int64()),
        pa.field("topic", pa.string()),
        pa.field("bucket", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("format", pa.string(), nullable=False),
        pa.field("key", pa.large_binary()),
        pa.field("value", pa.large_binary(), nullable=False),
        pa.field("schema_id", pa.int64()),
    ]
)
"""A rejected row. It has ``task`` and ``row`` (from 0 on, in its task), or ``topic``, ``bucket`` and ``offset``.

``value`` is the value of a log record as it was, or an Arrow IPC stream of the row, with the columns of its batch.
``schema_id`` is the schema whose names these are; NULL for a log record without one (RFC 17).
"""
_BUFFER_BYTES: Final = 4 << 20
"""Size of the values that are held before they are written as a row group."""
_READ_ROWS: Final = 4_096
_LONGEST_REASON: Final = 1_000
"""Maximum number of characters of a reason; an error may quote the value, which is stored anyway."""


def check_not_given(table: DynamicTable) -> None:
    """Raises InvalidOption if the options of a batch write have ``on-bad-record``, which would do nothing there."""
    if ON_BAD_RECORD.key in table.hints:
        raise InvalidOption(
            f"option '{ON_BAD_RECORD.key}' = '{table.hints[ON_BAD_RECORD.key]}' is for streams, followers and "
            f"Table.writer(): a batch write or an overwrite of table {table.name} always fails on a bad row"
        )


def by_constraints(table: DynamicTable) -> DynamicTable:
    """The table for a batch write, of which only a constraint rejects rows; any other bad row fails it.

    Raises InvalidOption as ``check_not_given``.
    """
    check_not_given(table)
    return table.with_hints({ON_BAD_RECORD.key: FAIL})


class Rejects:
    """The rejected rows of one attempt, and their number ``count``; not for several threads.

    ``add`` each, then ``finish`` once, or ``close`` after a failure, which deletes the files. With ``keep`` false the
    rows are only counted. ``action`` is that of the table on bad records; with ``fail``, only a constraint rejects.
    Without an ``action``, every bad row is rejected.
    """

    def __init__(
        self, table: DynamicTable, writer: str, epoch: int, task: int, keep: bool, action: str | None = None
    ) -> None:
        self._table, self._keep, self._action = table, keep, action
        self._own = {"writer": writer, "epoch": epoch, "task": task}
        self._held: list[dict[str, Any]] = []
        self._bytes = self.count = self._part_rows = 0
        self._file: str = ""
        self._done: list[RejectedRows] = []
        self._sink: pa.NativeFile | None = None
        self._parquet: pq.ParquetWriter | None = None

    @staticmethod
    def of(table: DynamicTable, writer: str, epoch: int, task: int) -> Rejects | None:
        """Those of an attempt by ``on-bad-record`` and the constraints, None if each bad row fails the write."""
        action = table.options.need(ON_BAD_RECORD)
        rejecting = _rejecting(table)
        if rejecting and action == SKIP:
            raise InvalidOption(
                f"option '{ON_BAD_RECORD.key}' = '{action}' would lose the rows that constraint '{rejecting[0]}' of "
                f"table {table.name} rejects: use '{KEEP}' or '{FAIL}'"
            )
        if action == FAIL and not rejecting:
            return None
        return Rejects(table, writer, epoch, task, keep=action != SKIP, action=action)

    @staticmethod
    def are_kept(table: DynamicTable) -> bool:
        """True if an attempt may store rejected rows, for which it must be an epoch."""
        return table.options.need(ON_BAD_RECORD) == KEEP or bool(_rejecting(table))

    def takes(self, why: InvalidSchema) -> bool:
        """True if a row with this error is rejected, False if it fails the write."""
        if self._action is None:
            return True
        return why.is_rejected if isinstance(why, ConstraintViolation) else self._action != FAIL

    def add(self, row: Mapping[str, Any], reason: str) -> None:
        """Adds a row: columns of ``REJECTED_SCHEMA`` without those of the attempt, unless it was rejected before."""
        self.count += 1
        self._part_rows += 1
        if not self._keep:
            return
        if len(reason) > _LONGEST_REASON:
            reason = f"{reason[:_LONGEST_REASON]}…"
        self._held.append({"time": datetime.fromtimestamp(now_ms() / 1000, UTC), **self._own, **row, "reason": reason})
        self._bytes += len(row["value"]) + len(row.get("key") or b"") + len(reason)
        if self._bytes >= _BUFFER_BYTES:
            self._write()

    def end_part(self, time_ms: int = 0) -> None:
        """Makes the rows since the last part durable as one file, with the time of their first decision.

        Raises Unavailable.
        """
        self._write()
        self._close()
        if self._part_rows:
            self._done.append(RejectedRows(self._file, self._part_rows, time_ms))
        self._file, self._part_rows = "", 0

    def drop_part(self) -> None:
        """Forgets the rows since the last part, and deletes their file."""
        self.count -= self._part_rows
        self._part_rows = self._bytes = 0
        self._held.clear()
        self._close()
        self._delete(self._file)
        self._file = ""

    def finish(self) -> tuple[RejectedRows, ...]:
        """Makes all rows durable. Raises Unavailable."""
        self.end_part()
        done, self._done = tuple(self._done), []  # from now on the epoch may be decided
        return done

    def close(self) -> None:
        """Deletes the files after a failure; orphan cleaning does so after a crash."""
        self._held.clear()
        with contextlib.suppress(LakelogError, OSError, pa.ArrowException):
            self._close()
        for file in (self._file, *(done.file for done in self._done)):
            self._delete(file)

    def _delete(self, file: str) -> None:
        if file:
            with contextlib.suppress(LakelogError):
                self._table.io.delete(RejectedEntries(self._table).path(file))

    def _write(self) -> None:
        if not self._held:
            return
        if self._parquet is None:
            self._file = f"{new_uuid()}.parquet"
            self._sink = self._table.io.open_output(RejectedEntries(self._table).path(self._file))
            self._parquet = pq.ParquetWriter(self._sink, REJECTED_SCHEMA, compression="zstd")
        self._parquet.write_table(pa.Table.from_pylist(self._held, REJECTED_SCHEMA))
        self._held.clear()
        self._bytes = 0

    def _close(self) -> None:
        parquet, sink, self._parquet, self._sink = self._parquet, self._sink, None, None
        if parquet is not None and sink is not None:
            parquet.close()
            sink.close()


def _rejecting(table: DynamicTable) -> list[str]:
    """The names of the constraints that reject rows."""
    return [constraint.name for constraint in constraints_of(table.schema.options) if constraint.action == REJECT]


def rejected_rows(table: DynamicTable, entry: RejectedEntry) -> Iterator[pa.RecordBatch]:
    """The rows of an entry (REJECTED_SCHEMA), in their order. Raises Corrupt naming the file, NotFound."""
    path = RejectedEntries(table).path(entry.file)
    with table.io.open_input(path) as source, parsing(path):
        file = pq.ParquetFile(source)
        for group in range(file.num_row_groups):  # a batch over several would be as large as the file
            for batch in file.iter_batches(_READ_ROWS, row_groups=[group]):
                if batch.schema != REJECTED_SCHEMA:
                    raise Corrupt(f"'{path}' has other columns than rejected rows")
                batch.validate(full=True)
                yield batch
