"""Checks of replayed epochs, before the first row of a task (RFC 2, task, step 1).

They decide whether the task writes its epoch, and whether the epoch has the decided number of rows.
"""

from __future__ import annotations

import contextlib
import logging
import os
from bisect import bisect_right
from typing import Final

from lakelog.errors import Fenced, InvalidRequest, NotFound
from lakelog.filestore.store import FileStore
from lakelog.io.logs import fields
from lakelog.options.log import CHECK_REPLAYS
from lakelog.table.log.register import register_writer
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.model.log_state import KEPT_EPOCHS, LogState, WriterState, state_at
from lakelog.table.model.registrations import STREAM
from lakelog.table.model.waiting_epochs import waiting_epochs

_LOG: Final = logging.getLogger("lakelog.commit")
_SEEN: dict[tuple[int, str, str], tuple[str, int]] = {}
"""(process, table, writer) → the run, and its newest epoch that this process has found undecided."""


def should_write_epoch(table: DynamicTable, writer: str, epoch: int, run: str) -> bool:
    """True if the epoch is undecided; False for a replay, whose rows are in the table already.

    A process that found an epoch of this ``run`` (Spark's run id) undecided does not check again: a run repeats only
    its first epochs, and rows of a replay are taken back like those of a lost attempt. Other processes check, and
    remember the end of the log for a new writer. Raises TableReplaced, and InvalidRequest if the checkpoint belongs to
    another table.
    """
    key = (os.getpid(), table.identity.key, writer)
    seen_run, seen = _SEEN.get(key, ("", 0))
    if not run or seen_run != run or epoch < seen:
        newest = waiting_epochs(table, writer).newest().get(writer, -1)
        if epoch <= newest:
            return False
        table.check_identity()
        check_checkpoint(table, writer, epoch, known=newest >= 0)
        if table.emits_log:
            register_writer(table, writer)
    elif table.emits_log:
        table.registered.keep(writer, STREAM, table.lease_ms)
    _SEEN[key] = run, epoch
    return True


def check_checkpoint(table: DynamicTable, writer: str, epoch: int, known: bool) -> None:
    """Raises InvalidRequest if a query past its first epoch has never written to this table."""
    if epoch > 0 and not known:
        raise InvalidRequest(
            f"the checkpoint is at epoch {epoch}, but table {table.name} has never been written by this query "
            f"({writer}): it is the checkpoint of another table (or the table was recreated). Use a new "
            "checkpointLocation, or write to the table that the checkpoint belongs to."
        )


def warn_of_older(table: DynamicTable, writer: str, epoch: int, newest: int) -> None:
    """Logs once that a query repeats an epoch other than its newest, the only one that Spark repeats.

    ``check_rows`` compares numbers of rows only. Different rows of the same number are ignored.
    """
    warned = table.identity.memory.warned_epochs
    if epoch < newest and (writer, newest) not in warned:
        warned[writer, newest] = None
        _LOG.warning(
            "query %s sends epoch %d of table %s again, but has committed epochs up to %d: its checkpoint is an older "
            "copy, or another process also runs the query. Epochs %d to %d are not written again, even if they have "
            "other rows now; to write such rows, use a new checkpointLocation",
            *(writer, epoch, table.name, newest, epoch, newest),
            extra=fields(table=table.name),
        )


def check_rows(table: DynamicTable, writer: str, epoch: int, decided: int | None, sent: int) -> None:
    """Raises Fenced if a query repeats an epoch with a number of rows other than the decided one (None: unknown).

    The source has split its rows into different epochs than before. The sent rows are discarded, so Spark must not
    consider the epoch committed.
    """
    if decided in (None, sent) or not table.options.need(CHECK_REPLAYS):
        return
    raise Fenced(
        f"epoch {epoch} of query {writer} is not committed: it has {sent} rows, but table {table.name} holds this "
        f"epoch with {decided} rows. The checkpoint is older than the table, or the source now splits its rows into "
        "other micro-batches. Restore the newest checkpoint, or restore this copy and the former limits of the "
        "source; or start the query with a new checkpointLocation at the first source offset that the table does "
        f"not have. If the query is not deterministic, set '{CHECK_REPLAYS.key}' to false, which keeps the rows of "
        "the first commit"
    )


class SealedRows:
    """The row counts of a streaming writer's sealed epochs, as far back as the table's snapshots have them."""

    def __init__(self, store: FileStore, writer: str) -> None:
        self._store, self._writer = store, writer
        self._older: WriterState | None = None

    def of(self, epoch: int, newest: LogState) -> int | None:
        """The row count of an epoch that is sealed in the newest state; None if unknown."""
        last = newest.writers[self._writer]
        for known in (last, self._older):
            if known is not None and (rows := known.rows_of(epoch)) is not None:
                return rows
        self._older = self._find(epoch) if last.rows else None
        return None if self._older is None else self._older.rows_of(epoch)

    def _find(self, epoch: int) -> WriterState | None:
        """The newest state that may still contain an epoch, and so the following ones, too."""
        snapshots = self._store.snapshots
        with contextlib.suppress(NotFound):  # expiry has deleted a snapshot in the meantime
            ids = range(snapshots.earliest_id() or 1, (snapshots.latest_id() or 0) + 1)
            at = bisect_right(ids, epoch + KEPT_EPOCHS - 1, key=lambda n: self._state(n).sealed_epoch(self._writer))
            return self._state(ids[at - 1]).writers.get(self._writer) if at else None
        return None

    def _state(self, snapshot_id: int) -> LogState:
        return state_at(self._store, self._store.snapshots.get(snapshot_id))
