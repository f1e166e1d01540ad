"""Overwrites a table or partitions of it without Spark: all rows of a ``with`` block are one snapshot."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

from lakelog.errors import CommitUnknown, InvalidRequest
from lakelog.io.names import new_uuid
from lakelog.paimon.metadata.snapshot import Snapshot
from lakelog.table.maintenance.retention import expire_best_effort
from lakelog.table.model.attempt import AttemptResult
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.model.partition_selection import OverwriteTarget, check_overwritable
from lakelog.table.staging.task_writer import TaskWriter
from lakelog.table.write.overwrite import commit_overwrite
from lakelog.table.write.table_writer import batches_of


class OverwriteWriter:
    """Takes the new rows and replaces the target by them; use it as a context manager.

    Nothing is visible before the block ends or ``commit`` is called; an exception in the block changes nothing.
    Raises UnsupportedFeature when it is made for a table with a log.
    """

    def __init__(self, table: DynamicTable, target: OverwriteTarget) -> None:
        check_overwritable(table)
        self._table, self._target = table, target
        self._writer = f"overwrite-{new_uuid()}"
        self._task = TaskWriter(table, self._writer, 0, lane=0, replaces=True)
        self._result: AttemptResult | None = None
        self._unknown = False
        self._open = True

    def write(self, rows: Any) -> None:
        """Takes an Arrow table, batch, reader, or anything with ``__arrow_c_stream__``. Raises InvalidSchema."""
        if not self._open or self._result is not None:
            raise InvalidRequest(f"this overwrite of table {self._table.name} is done: open a new writer")
        try:
            for batch in batches_of(rows):
                self._task.write(batch)
        except BaseException:
            self._open = False
            raise

    def commit(self) -> Snapshot | None:
        """Replaces the target by the rows so far; None when there is nothing to replace.

        Raises CommitConflict, CommitUnknown (call it again: it looks first), InvalidRequest.
        """
        if not self._open:
            raise InvalidRequest(f"this overwrite of table {self._table.name} is done or has failed: open a new writer")
        if self._result is None:
            self._result = self._task.finish()
        try:
            made = commit_overwrite(self._table, self._writer, [self._result], self._target, again=self._unknown)
        except CommitUnknown:
            self._unknown = True
            raise
        self._open = False
        expire_best_effort(self._table)
        return made

    def close(self) -> None:
        """Drops what was not committed; nothing can be written afterwards."""
        self._open = False
        self._task.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None and self._open:
                self.commit()
        except CommitUnknown:
            # nobody knows: it stays open, so that ``commit`` can be called again
            raise
        except BaseException:
            self.close()
            raise
        self.close()
