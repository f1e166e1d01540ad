"""Whether a task should write its epoch at all, asked before its first row (RFC 2, task, step 1)."""

from __future__ import annotations

import os

from lakelog.table.committer import register_writer
from lakelog.table.dynamic_table import DynamicTable
from lakelog.table.log_state import state_at

_SEEN: dict[tuple[int, str, str], int] = {}
"""(process, table, writer) → an epoch that this process has seen undecided; all later ones are undecided too."""


def ready_to_write(table: DynamicTable, writer: str, epoch: int) -> bool:
    """True when the epoch is undecided; False for a replay, whose rows are in the table already.

    The first call of a process looks into the snapshot and remembers the end of the log for a new writer; later ones look for the epoch record only.
    """
    key = (os.getpid(), table.path, writer)
    if key not in _SEEN:
        state = state_at(table.store, table.store.latest_snapshot())
        if epoch <= state.sealed_epoch(writer):
            return False
        if table.emits_log:
            register_writer(table, writer)
    if table.staged.read(writer, epoch) is not None:
        return False
    _SEEN[key] = epoch
    return True
