"""Whether a task should write its epoch at all, asked before its first row (RFC 2, task, step 1)."""

from __future__ import annotations

import os

from lakelog.errors import InvalidRequest
from lakelog.table.committer import register_writer
from lakelog.table.dynamic_table import DynamicTable
from lakelog.table.log_state import newest_state

_SEEN: dict[tuple[int, str, str], int] = {}
"""(process, table, writer) → the newest epoch that this process has found undecided."""


def ready_to_write(table: DynamicTable, writer: str, epoch: int) -> bool:
    """True when the epoch is undecided; False for a replay, whose rows are in the table already.

    A process that wrote the epoch before looks for the epoch record only; any other looks into the snapshot too, and
    remembers the end of the log for a new writer. Raises TableReplaced, and InvalidRequest when the checkpoint belongs
    to another table.
    """
    key = (os.getpid(), table.identity.key, writer)
    if _SEEN.get(key) != epoch - 1:
        sealed = newest_state(table.store)[1].sealed_epoch(writer)
        if epoch <= sealed:
            return False
        table.check_identity()
        check_checkpoint(table, writer, epoch, known=sealed >= 0)
        if table.emits_log:
            register_writer(table, writer)
    if table.staged.read(writer, epoch) is not None:
        return False
    _SEEN[key] = epoch
    return True


def check_checkpoint(table: DynamicTable, writer: str, epoch: int, known: bool) -> None:
    """Raises InvalidRequest when a query that is past its first epoch has never written to this table."""
    if epoch > 0 and not known and not table.staged.epochs(writer):
        raise InvalidRequest(
            f"the checkpoint is at epoch {epoch}, but table {table.name} has never been written by this query "
            f"({writer}): "
            f"it is the checkpoint of another table (or the table was made anew). Use a new checkpointLocation, "
            f"or write to the "
            f"table that the checkpoint belongs to."
        )
