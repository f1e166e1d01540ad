"""Whether a task should write its epoch at all, asked before its first row (RFC 2, task, step 1)."""

from __future__ import annotations

import logging
import os
from typing import Final

from lakelog.errors import InvalidRequest
from lakelog.io.logs import fields
from lakelog.table.log.lease_keeper import keep_lease
from lakelog.table.log.register import register_writer
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.model.registrations import STREAM
from lakelog.table.model.waiting_epochs import waiting_epochs

_LOG: Final = logging.getLogger("lakelog.commit")
_WARNED: Final[set[tuple[str, str, int]]] = set()
"""(identity of the table, writer, newest epoch) that this process has warned of."""
_SEEN: dict[tuple[int, str, str], int] = {}
"""(process, table, writer) → the newest epoch that this process has found undecided."""


def should_write_epoch(table: DynamicTable, writer: str, epoch: int) -> bool:
    """True when the epoch is undecided; False for a replay, whose rows are in the table already.

    A process that wrote the epoch before does not look: rows of a replay are taken back like those of any attempt that
    lost. Any other looks, and remembers the end of the log for a new writer. Raises TableReplaced, and
    InvalidRequest when the checkpoint belongs to another table.
    """
    key = (os.getpid(), table.identity.key, writer)
    if _SEEN.get(key) != epoch - 1:
        newest = waiting_epochs(table, writer).newest().get(writer, -1)
        if epoch <= newest:
            return False
        table.check_identity()
        check_checkpoint(table, writer, epoch, known=newest >= 0)
        if table.emits_log:
            register_writer(table, writer)
    elif table.emits_log:
        keep_lease(table, writer, STREAM)
    _SEEN[key] = epoch
    return True


def check_checkpoint(table: DynamicTable, writer: str, epoch: int, known: bool) -> None:
    """Raises InvalidRequest when a query that is past its first epoch has never written to this table."""
    if epoch > 0 and not known:
        raise InvalidRequest(
            f"the checkpoint is at epoch {epoch}, but table {table.name} has never been written by this query "
            f"({writer}): "
            f"it is the checkpoint of another table (or the table was made anew). Use a new checkpointLocation, "
            f"or write to the "
            f"table that the checkpoint belongs to."
        )


def warn_of_older(table: DynamicTable, writer: str, epoch: int, newest: int) -> None:
    """Logs, once, that a query sends an epoch again that is not its newest one, the only one that Spark repeats.

    Epochs are compared by number. If the source cuts its rows into other epochs than before, rows are left out.
    """
    told = (table.identity.key, writer, newest)
    if epoch < newest and told not in _WARNED:
        _WARNED.add(told)
        _LOG.warning(
            "query %s sends epoch %d of table %s again, but has committed epochs up to %d: its checkpoint is an older "
            "copy, or another process runs the query, too. Epochs %d to %d are not written again, even if they have "
            "other rows now; to write such rows, use a new checkpointLocation",
            *(writer, epoch, table.name, newest, epoch, newest),
            extra=fields(table=table.name),
        )
