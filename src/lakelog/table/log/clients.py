"""The clients of a table's log; a new client is checked against the offsets in the table's decided epochs."""

from __future__ import annotations

from typing import Final
from weakref import WeakSet

from lakelog.errors import NotFound
from lakelog.logstore import log_factory
from lakelog.logstore.base import LogAppender, LogLocation, LogReader
from lakelog.logstore.clients import appender_for, reader_for
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.model.log_state import FOLLOWER
from lakelog.table.model.waiting_epochs import waiting_epochs

_COMPARED: Final[WeakSet[LogAppender | LogReader]] = WeakSet()


def reader_of(table: DynamicTable, log: LogLocation) -> LogReader:
    """This thread's reader of a table's log. Raises the errors of opening it, NotFound for an older copy of the log."""
    reader = reader_for(log)
    _compare(table, log, reader)
    return reader


def appender_of(table: DynamicTable, log: LogLocation) -> LogAppender:
    """This thread's appender of a table's log. Raises the errors of ``reader_of``."""
    appender = appender_for(log)
    _compare(table, log, appender)
    return appender


def _compare(table: DynamicTable, log: LogLocation, client: LogAppender | LogReader) -> None:
    """Raises NotFound if a log ends before decided rows, because it would assign their offsets a second time."""
    if client in _COMPARED:
        return
    known = _known_ends(table)  # before the ends, which only grow
    ends = client.end_offsets()
    lost = {bucket: offset for bucket, offset in known.items() if ends.get(bucket, offset) < offset}
    if lost:
        bucket, offset = min(lost.items())
        where = log_factory(log.system).describe(log)
        raise NotFound(
            f"the log of table {table.name} ({where}) ends at offset {ends[bucket]} in bucket {bucket}, but rows of "
            f"the table were in it up to {offset}: it is an older copy or was truncated. The rows are in the files. "
            "Restore the newer log, or recreate the table to write to a log again"
        )
    _COMPARED.add(client)


def _known_ends(table: DynamicTable) -> dict[int, int]:
    """Bucket → the offset after all log records in snapshots and decided epochs."""
    epochs = waiting_epochs(table)
    if FOLLOWER in epochs.state.writers:  # a follower that skips missing records has restarted
        return dict(epochs.state.writers[FOLLOWER].verified)
    known = dict(epochs.state.offsets)
    for record in epochs.waiting:
        for append in (append for attempt in record.attempts for append in attempt.appends):
            known[append.bucket] = max(known.get(append.bucket, 0), append.first_offset + append.entry_count)
    return known
