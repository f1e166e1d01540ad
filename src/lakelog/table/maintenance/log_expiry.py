"""Expiry of a log without a server by its default retention, which keeps what somebody still needs."""

from __future__ import annotations

from collections.abc import Mapping

from lakelog.logstore import LOG_SYSTEMS, log_factory
from lakelog.table.log.register import NamedReaders
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.read.log_view import look


def expire_log(table: DynamicTable) -> None:
    """Deletes old records of the log that nobody needs any more (``log_floors``).

    Called at times after a write. Does nothing with ``log-store.retention``, which the log follows by itself, and for a
    log on a server. Raises Unavailable, NotFound.
    """
    log = table.log
    if log is None or log.retention_ms is not None or not log_factory(log.system).is_local:
        return
    floors = log_floors(table)
    if floors:
        LOG_SYSTEMS.create(log.system).expire(log, floors)


def log_floors(table: DynamicTable) -> Mapping[int, int]:
    """Bucket → offset below which no record is needed: all are in the newest snapshot, or taken back.

    Records stay that only the log has (``emit.mode`` = log), that an open writer may have to heal, or that a reader
    with a ``consumer-id`` has not read. A bucket without a row in a snapshot has no floor. Raises Unavailable,
    NotFound.
    """
    moment = look(table)
    readers = NamedReaders(table.io, table.path).list()
    sealed = [writer.sealed_up_to for writer in moment.writers.values()]
    needed = moment.starts([moment.state.offsets, *sealed, *(reader.offsets for reader in readers)])
    return {bucket: offset for bucket, offset in needed.items() if bucket in moment.state.offsets}
