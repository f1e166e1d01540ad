"""Registers a writer of the log before its first record: where its rows may begin, and that it is alive."""

from __future__ import annotations

from lakelog.io.clock import now_ms
from lakelog.logstore.clients import reader_for
from lakelog.table.log.lease_keeper import keep_lease
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.model.log_state import FOLLOWER
from lakelog.table.model.registrations import STREAM, Lease


def register_writer(table: DynamicTable, writer: str, kind: str = STREAM) -> dict[int, int]:
    """Remembers, once per writer, the end of the log before its first record; returns it (bucket → offset).

    Called before the first append of a writer, by a task or by the driver; healing never looks before this point. From
    then on this process keeps the writer's lease. ``kind`` is STREAM or BATCH. Raises Unavailable, TableReplaced.
    """
    if table.log is None:
        return {}
    table.check_identity()
    ends = reader_for(table.log).end_offsets()
    lease = Lease(kind, now_ms() + table.lease_ms)
    if not table.registered.register(writer, ends, lease):
        ends = table.registered.origin(writer)
    keep_lease(table, writer, kind)
    return ends


def register_follower(table: DynamicTable) -> None:
    """Remembers, once, that the table gets rows of nobody: where the log begins, for they may lie anywhere in it.

    Called before the first of them may be written, and when a follower begins; until its first snapshot union reads
    and ``latest-full`` know by it that such rows are in no file.
    """
    if table.log is not None:
        table.registered.register(FOLLOWER, reader_for(table.log).first_offsets())
