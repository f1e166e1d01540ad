"""The clients of a table's log; a new one is compared with what the table's newest snapshot knows of the log."""

from __future__ import annotations

from typing import Final
from weakref import WeakSet

from lakelog.errors import NotFound
from lakelog.logstore.base import LogAppender, LogLocation, LogReader
from lakelog.logstore.clients import appender_for, reader_for
from lakelog.table.dynamic_table import DynamicTable
from lakelog.table.log_state import FOLLOWER, newest_state

_COMPARED: Final[WeakSet[LogAppender | LogReader]] = WeakSet()


def reader_of(table: DynamicTable, log: LogLocation) -> LogReader:
    """This thread's reader of a table's log. Raises as opening it does, NotFound for an older copy of the log."""
    reader = reader_for(log)
    _compare(table, log, reader)
    return reader


def appender_of(table: DynamicTable, log: LogLocation) -> LogAppender:
    """This thread's appender of a table's log. Raises as ``reader_of``."""
    appender = appender_for(log)
    _compare(table, log, appender)
    return appender


def _compare(table: DynamicTable, log: LogLocation, client: LogAppender | LogReader) -> None:
    """Raises NotFound when a log ends before what a snapshot was made of: offsets would be given a second time."""
    if client in _COMPARED:
        return
    state = newest_state(table.store)[1]  # before the ends, which only grow
    # a follower that was told to skip what is missing has begun anew
    known = state.writers[FOLLOWER].verified if FOLLOWER in state.writers else state.offsets
    ends = client.end_offsets()
    lost = {bucket: offset for bucket, offset in known.items() if ends.get(bucket, offset) < offset}
    if lost:
        bucket, offset = min(lost.items())
        where = log.address if log.system == "embedded" else f"topic '{log.topic}' on {log.address}"
        raise NotFound(
            f"the log of table {table.name} ({where}) ends at offset {ends[bucket]} in bucket {bucket}, but the newest "
            f"snapshot knows it up to {offset}: it is an older copy, or has lost its end. The rows are in the files. "
            f"Put the newer log back, or make the table anew to log again"
        )
    _COMPARED.add(client)
