"""A writer that copies an ordered source: the position in the source is committed with the rows (``lakelog ingest``).

Its epochs are those of a streaming query. Each has the position after its rows, which the table's state keeps. So a
writer that is killed at any moment continues with the next row: the position and the rows are one decision.
"""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from lakelog.errors import Fenced
from lakelog.paimon.metadata.snapshot import Snapshot
from lakelog.table.commit.seal import seal_staged
from lakelog.table.commit.seal_thread import sealer_for, stop_sealing
from lakelog.table.log.register import register_writer
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.model.log_state import newest_state
from lakelog.table.model.registrations import STREAM
from lakelog.table.model.waiting_epochs import waiting_epochs, writer_position
from lakelog.table.rejected.rows import Rejects
from lakelog.table.staging.task_writer import TaskWriter
from lakelog.table.write.table_writer import failed_before


class PositionedWriter:
    """Writes the rows of one source in its order; not for several threads.

    ``writer`` names the source, and is the same in each process that continues it. A thread of this process seals the
    epochs each ``commit.interval`` and compacts the table. With ``may_reject``, bad rows are treated by
    ``on-bad-record`` and by constraints; without it they fail the write.
    """

    def __init__(self, table: DynamicTable, writer: str, may_reject: bool = False) -> None:
        self._table, self._writer, self._may_reject = table, writer, may_reject
        epochs = waiting_epochs(table, writer)
        self._epoch = epochs.newest().get(writer, -1) + 1
        self._position = writer_position(epochs, writer)
        self._task: TaskWriter | None = None
        self._failure: BaseException | None = None
        if table.emits_log:
            register_writer(table, writer)

    @property
    def name(self) -> str:
        """The name of the source."""
        return self._writer

    @property
    def position(self) -> str:
        """The position in the source that is committed, "" before the first commit."""
        return self._position

    @property
    def epoch(self) -> int:
        """The number of the open epoch."""
        return self._epoch

    def write(self, batch: pa.RecordBatch) -> None:
        """Writes rows, optionally with ``_row_kind``. Raises InvalidSchema, Unavailable, Fenced, TableReplaced.

        After an error, ``commit`` raises InvalidRequest: the position would be beyond rows that are not written. A new
        writer continues from the position.
        """
        try:
            if self._task is None:
                if self._table.emits_log:
                    self._table.registered.keep(self._writer, STREAM, self._table.lease_ms)
                self._task = self._new_task()
            self._task.write(batch)
        except BaseException as why:
            self._failure = why
            raise

    def commit(self, position: str) -> int:
        """Commits the open epoch with the position after it; returns its number of rows.

        Raises Fenced if another process has decided this epoch: it copies the same source, and a new writer continues
        from its position. Raises CommitUnknown, Unavailable, TableReplaced, and the errors of an earlier seal.
        """
        if self._failure is not None:
            raise failed_before(self._table.name, self._failure)
        task = self._task or self._new_task()
        self._task = None
        result = replace(task.finish(), position=position)
        sealer = sealer_for(self._table, self._writer)
        record = sealer.committer.commit(self._epoch, [result])
        if record is None or record.accepted != {result.attempt}:
            raise Fenced(
                f"epoch {self._epoch} of writer {self._writer} of table {self._table.name} was committed by another "
                "process, which copies the same source: run only one"
            )
        self._epoch += 1
        self._position = position
        sealer.notify()
        return result.row_count

    def _new_task(self) -> TaskWriter:
        place = self._table, self._writer, self._epoch, 0
        return TaskWriter(*place, rejects=Rejects.of(*place) if self._may_reject else None)

    def seal(self) -> None:
        """Makes a snapshot of the committed epochs now, for the end of a run. Raises Unavailable, CommitConflict."""
        sealer_for(self._table, self._writer).seal_now()

    def end(self) -> None:
        """Makes a snapshot of the committed epochs, and ends the thread that would. Raises as ``seal``."""
        try:
            self.seal()
        finally:
            stop_sealing(self._table, self._writer)
            self.close()

    def sealed(self) -> Snapshot | None:
        """Seals, and returns a snapshot with exactly the committed epochs of this writer; for a cut.

        None if there is no such snapshot: another process has committed meanwhile, a rollback has taken rows out, or
        the rows are in the log only. Raises Unavailable, CommitConflict.
        """
        if not self._table.emits_files:
            return None
        self.seal()
        snapshot = self._exact()
        if snapshot is None:
            seal_staged(self._table)  # epochs of an earlier process, which ``seal`` leaves to the next commit
            snapshot = self._exact()
        return snapshot

    def _exact(self) -> Snapshot | None:
        snapshot, state = newest_state(self._table.store)
        known = state.writers.get(self._writer)
        if known is None or known.undone or (known.epoch, known.position) != (self._epoch - 1, self._position):
            return None
        return snapshot

    def close(self) -> None:
        """Discards the open epoch. The next epoch takes its rows in the log back."""
        if self._task is not None:
            self._task.close()
            self._task = None
