"""Retention of a table: expiry and cleaning that respect the log and rows waiting for a snapshot."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from datetime import timedelta

from lakelog.errors import LakelogError
from lakelog.filestore.gc.expiry import Retention, snapshot_retention
from lakelog.filestore.gc.orphans import DAY_MS, Orphans
from lakelog.filestore.gc.partition_expiry import PartitionRule
from lakelog.io.logs import fields
from lakelog.io.metrics import METER
from lakelog.logstore import LOG_SYSTEMS, log_factory
from lakelog.options.metrics import ORPHANS_REMOVED, PARTITIONS_EXPIRED, SNAPSHOTS_EXPIRED
from lakelog.options.retention import (
    CONSUMER_EXPIRATION_TIME,
    PARTITION_EXPIRATION_INTERVAL,
)
from lakelog.options.table import WRITE_ONLY
from lakelog.table.log.register import NamedReaders
from lakelog.table.lookup.stats import delete_old_stats
from lakelog.table.maintenance.after_write import compact_best_effort
from lakelog.table.maintenance.publish import publish_best_effort, published_from
from lakelog.table.model.dynamic_table import DynamicTable, open_branch
from lakelog.table.model.log_generation import carried_properties
from lakelog.table.model.log_state import newest_state, state_of
from lakelog.table.read.log_view import LogView, capture
from lakelog.table.rejected.entries import expire_rejected
from lakelog.table.tail.normalizer import forget_streams

_LOG = logging.getLogger("lakelog.expire")


def expire_snapshots(
    table: DynamicTable,
    retain_max: int | None = None,
    retain_min: int | None = None,
    older_than: timedelta | None = None,
    max_deletes: int | None = None,
) -> list[int]:
    """Expires snapshots by the table's options, or by the arguments instead; returns their ids.

    A snapshot with the newest state of the log stays, regardless of later committers; so do those that a log of changes
    has not passed yet.
    """
    by_options = snapshot_retention(table.options)
    largest = by_options.largest if retain_max is None else retain_max
    keep = Retention(
        min(by_options.smallest, largest) if retain_min is None else retain_min,
        largest,
        by_options.time if older_than is None else older_than,
        by_options.limit if max_deletes is None else max_deletes,
    )
    expired = table.store.expire_snapshots(keep, lambda: _oldest_needed(table))
    METER.add(SNAPSHOTS_EXPIRED, len(expired), table=table.name)
    if expired:
        about = fields(table=table.name, snapshot=expired[-1])
        _LOG.info("table %s: %d snapshots removed, up to %d", table.name, len(expired), expired[-1], extra=about)
    return expired


def expirable_snapshots(table: DynamicTable) -> tuple[int, int, str]:
    """The number of snapshots that one expiry would remove now, with and without regard to consumers.

    The third value is the consumer that retains the oldest of them. Changes nothing.
    """

    def keep_from() -> int | None:
        return _oldest_needed(table)

    free = len(table.store.expirable_snapshots(keep_from))
    consumers = table.store.consumers.list()
    if not consumers:
        return free, free, ""
    without_consumers = len(table.store.expirable_snapshots(keep_from, minds_consumers=False))
    return (
        free,
        without_consumers,
        min(consumers, key=lambda c: c.next_snapshot).name if without_consumers > free else "",
    )


def _oldest_needed(table: DynamicTable) -> int | None:
    missing = (max(1, number - 1) for number in newest_state(table.store)[1].missing.values())
    needed = (published_from(table.with_newest_schema()), _newest_with_state(table), *missing)
    return min((number for number in needed if number is not None), default=None)


def _newest_with_state(table: DynamicTable) -> int | None:
    for snapshot in table.store.snapshots.backwards():
        if state_of(snapshot) is not None:
            return snapshot.id
    return None


def drop_old_partitions(table: DynamicTable, rule: PartitionRule) -> list[bytes]:
    """Drops the partitions that a rule expires, in one commit of the files; returns them, as serialised rows.

    Not called for a table with a log of input rows, whose readers would keep them. Raises InvalidRequest,
    CommitConflict.
    """
    dropped = table.store.expire_partitions(rule, lambda latest: carried_properties(table, latest))
    if dropped:
        publish_best_effort(table)
    METER.add(PARTITIONS_EXPIRED, len(dropped), table=table.name)
    return dropped


def remove_orphan_files(table: DynamicTable, older_than: timedelta | None = None, dry_run: bool = False) -> Orphans:
    """Removes unreferenced files that are older than a day, or than ``older_than``; see ``OrphanCleaning``.

    It also deletes the states of streams that have not run for a month (``normalizer.STATE_KEPT_MS``), and statistics
    of lookup joins that are older than a day.
    """
    if not dry_run:
        forget_streams(table)
        delete_old_stats(table)
    age = DAY_MS if older_than is None else int(older_than.total_seconds() * 1000)
    orphans = table.store.remove_orphans(age, dry_run, lambda: _staged_files(table))
    lost = expire_rejected(_all_branches(table), age, dry_run)
    orphans = Orphans(tuple(sorted((*orphans.files, *lost))), orphans.bytes + sum(lost.values()))
    if not dry_run:
        METER.add(ORPHANS_REMOVED, len(orphans.files), table=table.name)
        about = fields(table=table.name, files=len(orphans.files))
        _LOG.info("table %s: %d orphan files removed", table.name, len(orphans.files), extra=about)
    return orphans


def _all_branches(table: DynamicTable) -> list[DynamicTable]:
    return [DynamicTable(table.location), *(open_branch(table, name) for name in table.store.branches.list())]


def _staged_files(table: DynamicTable) -> Iterator[str]:
    """Data files of epochs that are decided but in no snapshot yet, of all branches."""
    for branch in _all_branches(table):
        for record in branch.decided.all():
            for attempt in record.attempts:
                for run in attempt.runs:
                    for file in (*run.files, *run.changelog):
                        yield branch.store.paths.data_file(run.partition, run.bucket, file)


def expire_log(table: DynamicTable) -> None:
    """Deletes old records of the log that no reader or writer needs (``log_floors``).

    With ``log-store.retention``, their age alone counts. Called at times after a write and by ``lakelog optimize``.
    Does nothing for a log on a server, which expires records itself. Raises Unavailable, NotFound.
    """
    log = table.log
    if log is None or not log_factory(log.system).is_local:
        return
    floors = {} if log.retention_ms is not None else log_floors(capture(table), table)
    if floors or log.retention_ms is not None:
        LOG_SYSTEMS.create(log.system).expire(log, floors)


def log_expiry_interval_s(table: DynamicTable) -> float:
    """The seconds between two expiries of the log by a process; records may be late by as much."""
    every = table.options.need(PARTITION_EXPIRATION_INTERVAL).total_seconds()
    retention_ms = None if table.log is None else table.log.retention_ms
    return every if retention_ms is None else min(every, retention_ms / 4000)


def log_floors(log_view: LogView, table: DynamicTable) -> Mapping[int, int]:
    """Bucket → offset below which no record is needed: all are in the newest snapshot, or taken back.

    Records stay that only the log has (``emit.mode`` = log), that an open writer may have to heal, or that a reader
    with a ``consumer-id`` has not read. A bucket without a row in a snapshot has no floor. Raises Unavailable,
    NotFound.
    """
    readers = NamedReaders(table.io, table.path).floors()
    sealed = [writer.sealed_up_to for writer in log_view.writers.values()]
    needed = log_view.starts([log_view.state.offsets, *sealed, *readers])
    return {bucket: offset for bucket, offset in needed.items() if bucket in log_view.state.offsets}


def expire_best_effort(table: DynamicTable) -> None:
    """Compacts and expires after a write, unless ``write-only``.

    A failure is only logged, because the write is already committed.
    """
    if table.options.need(WRITE_ONLY):
        return
    compact_best_effort(table)
    expire_by_options(table)


def expire_by_options(table: DynamicTable) -> None:
    """Expires by the table's options after a write; a failure is only logged.

    Costs a few small reads if nothing is due. A process checks its log, tags, consumers and partitions once per
    ``partition.expiration-check-interval``, and the log more often if its retention is short.
    """
    try:
        expire_snapshots(table)
        if table.log is not None and table.identity.memory.is_due("log", log_expiry_interval_s(table)):
            expire_log(table)
        every_s = table.options.need(PARTITION_EXPIRATION_INTERVAL).total_seconds()
        if not table.identity.memory.is_due("tags, consumers and partitions", every_s):
            return
        table.store.tags.expire()
        expire_rejected(_all_branches(table))
        unused = table.options.get_typed(CONSUMER_EXPIRATION_TIME)
        if unused is not None:
            table.store.consumers.expire(unused)
        rule = PartitionRule.of(table.options) if table.schema.partition_keys and not table.whole.emits_log else None
        if rule is not None:
            drop_old_partitions(table, rule)
    except LakelogError as failure:
        _LOG.warning("expiry of %s failed: %s", table.name, failure, extra=fields(table=table.name))
