"""The service that keeps a replica close to its source, and the promotion of a replica (RFC 26)."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from lakelog.catalog.base import Catalog, Identifier
from lakelog.errors import CommitConflict, CommitUnknown, Corrupt, InvalidRequest, LakelogError, NotFound, Unavailable
from lakelog.filestore.commit.request import CommitRequest
from lakelog.io.clock import monotonic_s, now_ms, sleep
from lakelog.io.logs import fields
from lakelog.io.metrics import METER
from lakelog.io.names import new_uuid
from lakelog.logstore import LOG_SYSTEMS
from lakelog.options.features import FEATURES_KEY, REPLICA, TableFeatures
from lakelog.options.log import LOG_ENABLED, LOG_TYPE
from lakelog.options.metrics import SNAPSHOTS_REPLICATED
from lakelog.options.notebook import NotebookView
from lakelog.options.option import Options
from lakelog.paimon.metadata.snapshot import COMPACT, Snapshot
from lakelog.table.commit.seal import seal_decided
from lakelog.table.copies.replica import REPLICA_LOG, REPLICA_OF, Replica, unmarked
from lakelog.table.health.stats import ReplicaStats
from lakelog.table.maintenance.retention import expire_snapshots
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.model.log_options import planned_log, stored_log_options
from lakelog.table.model.log_state import LogState, state_of
from lakelog.table.model.waiting_epochs import waiting_epochs
from lakelog.table.tail.subscribe import Stop, check_stop, is_set

_LOG: Final = logging.getLogger("lakelog.replicate")
_POLL_S: Final = 0.5
"""Time between two looks at the source."""
_LATE_MS: Final = 2_000
"""Age of a decided epoch without a snapshot from which on the replica's process seals it."""
_CHECK_S: Final = 2.0
"""Time between two looks for such epochs: they cost a listing."""
_REPORT_S: Final = 2.0
_EXPIRE_S: Final = 60.0
_LONGEST_PAUSE_S: Final = 5.0
"""Longest pause after failures of a storage."""
_TRANSIENT: Final = (Unavailable, CommitUnknown, CommitConflict, NotFound, Corrupt)
"""Errors after which the next look may succeed: storages that do not answer, snapshots that expire meanwhile."""


@dataclass(frozen=True)
class ReplicaProgress(NotebookView):
    """A step of a replica: the source's snapshot that it has, its lag in seconds, and the error of a failed step.

    ``lag_s`` is the age of the newest state of the source that it may lack: what a loss of the source loses at most.
    """

    snapshot: int
    lag_s: float
    error: str = ""


class Replication:
    """Follows one source; not for several threads."""

    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        last = ReplicaStats.read(replica.table.io, replica.table.path)
        newest = replica.table.store.latest_snapshot()
        self._complete_ms = max(last.complete_ms if last else 0, newest.time_millis if newest else 0)
        self._checked_s = self._reported_s = float("-inf")
        self._expired_s, self._failures = monotonic_s(), 0

    def run(self, stop: Stop = None) -> Iterator[ReplicaProgress]:
        """Copies without end, up to an event, or (``stop='latest'``) up to the current state of the source.

        Yields after each snapshot and each failed step. While a storage does not answer, it tries again. With
        ``stop='latest'`` a failure is raised. Raises InvalidRequest for another text, Fenced after a promotion,
        TableReplaced.
        """
        check_stop(stop)
        while not is_set(stop):
            try:
                yield from self._step(stop == "latest")
                self._failures = 0
            except _TRANSIENT as why:
                if stop == "latest":
                    raise
                self._failures += 1
                yield self._failed(why)
            if stop == "latest":
                return
            sleep(min(_POLL_S * 2 ** min(self._failures, 8), _LONGEST_PAUSE_S))

    def _step(self, seals_all: bool) -> Iterator[ReplicaProgress]:
        started_ms, replica = now_ms(), self._replica
        waits = self._seal(seals_all)
        moved = False
        for snapshot in replica.copy_next():
            moved = True
            self._complete_ms = max(self._complete_ms, snapshot.time_millis)
            METER.add(SNAPSHOTS_REPLICATED, table=replica.table.name)
            yield self.progress()
        if not waits:
            self._complete_ms = max(self._complete_ms, started_ms)
        self._note(moved or seals_all)
        if monotonic_s() - self._expired_s > _EXPIRE_S:
            self._expired_s = monotonic_s()
            expire_snapshots(replica.table)

    def progress(self, error: str = "") -> ReplicaProgress:
        """The state of the replica now."""
        return ReplicaProgress(self._replica.snapshot, max(0, now_ms() - self._complete_ms) / 1000, error)

    def _seal(self, seals_all: bool) -> bool:
        """Seals the epochs of the source that wait for too long; True if epochs may wait for a snapshot."""
        source = self._replica.source
        if source.log is None or source.publishes:
            return False
        if not seals_all and monotonic_s() - self._checked_s < _CHECK_S:
            return True
        self._checked_s = monotonic_s()
        waiting = waiting_epochs(source).waiting
        if waiting and (seals_all or min(record.time_ms for record in waiting) < now_ms() - _LATE_MS):
            seal_decided(source)
            return False
        return bool(waiting)

    def _note(self, moved: bool) -> None:
        """Writes the report, and what the source may expire."""
        if not moved and monotonic_s() - self._reported_s < _REPORT_S:
            return
        self._reported_s = monotonic_s()
        if moved:
            self._replica.keep_source()
        self._write()

    def _failed(self, why: LakelogError) -> ReplicaProgress:
        replica = self._replica
        _LOG.warning("replica %s: %s", replica.table.name, why, extra=fields(table=replica.table.name))
        try:
            self._write(str(why))
        except LakelogError as also:  # the storage of the replica does not answer either
            _LOG.debug("replica %s: no report: %s", replica.table.name, also)
        return self.progress(str(why))

    def _write(self, error: str = "") -> None:
        replica = self._replica
        report = ReplicaStats(replica.source.name, replica.snapshot, self._complete_ms, now_ms(), error)
        report.write(replica.table.io, replica.table.path)


def promote(catalog: Catalog, identifier: Identifier, options: Mapping[str, str]) -> DynamicTable:
    """Makes a replica a table of its own, with a new log if its source had one; returns it.

    ``options`` are table options to set, such as the address of the log. 1 create the log · 2 commit a snapshot, after
    which ``lakelog replicate`` can commit no other · 3 create a schema without the mark. A crash before 3 leaves a
    replica that nothing writes; the same call continues. Writers and checkpoints of the source are refused here, by
    the identity (RFC 10). Raises InvalidRequest for a table that is no replica, CommitConflict, and the errors of
    CREATE TABLE.
    """
    table = DynamicTable(catalog.load_table(identifier))
    if REPLICA_OF not in table.schema.options:
        raise InvalidRequest(f"table {table.name} is no replica: there is nothing to promote")
    # 1
    schema = replace(table.schema, options=_promoted(table, options), time_millis=now_ms())
    if Options(schema.options).need(LOG_ENABLED):
        plan = replace(planned_log(schema, table.path, identifier), storage=table.io)
        log = LOG_SYSTEMS.create(plan.system).create(plan, False)
        schema = replace(schema, options={**schema.options, **stored_log_options(log, table.path)})

    # 2
    def properties(latest: Snapshot | None) -> Mapping[str, str]:
        before = None if latest is None else state_of(latest)
        return LogState(rejected=() if before is None else before.rejected).to_properties()

    request = CommitRequest(f"promote-{new_uuid()}", 0, COMPACT, prepare=properties, allow_empty=True)
    unmarked(table).store.commit(request)
    # 3
    while True:
        schema = replace(schema, id=table.store.schemas.newest_id() + 1)
        if table.io.create(table.store.paths.schema_file(schema.id), schema.to_json()):
            break
        table = table.with_newest_schema()
        schema = replace(
            schema, fields=table.schema.fields, highest_field_id=table.schema.highest_field_id
        )  # the source was altered meanwhile
    last = ReplicaStats.read(table.io, table.path)
    if last is not None:
        replace(last, promoted=True).write(table.io, table.path)
    return DynamicTable(catalog.load_table(identifier))


def _promoted(table: DynamicTable, options: Mapping[str, str]) -> dict[str, str]:
    before = table.schema.options
    features = TableFeatures.of(before)
    left = replace(features, writers=tuple(name for name in features.writers if name != REPLICA.name)).to_text()
    merged = {key: value for key, value in before.items() if key not in (REPLICA_OF, REPLICA_LOG, FEATURES_KEY)}
    if REPLICA_LOG in before:
        merged |= {LOG_ENABLED.key: "true", LOG_TYPE.key: before[REPLICA_LOG]}
    merged |= options
    return merged | ({FEATURES_KEY: left} if left else {})
