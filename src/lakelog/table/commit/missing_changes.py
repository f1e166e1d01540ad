"""Appends the changes of snapshots that have replaced files to a log of input rows (RFC 21).

The writer of the changes has one epoch, which is in the snapshot. Several processes may append it at the same time: the
first one that creates the file ``changes`` decides which attempt counts, and the others are taken back.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from lakelog.errors import Fenced, NotFound, Unavailable
from lakelog.filestore.commit.lost_race import LostRace
from lakelog.filestore.commit.request import CommitRequest
from lakelog.io.clock import now_ms
from lakelog.io.lease import Leases
from lakelog.io.names import new_uuid
from lakelog.options.log import EMIT_MODE
from lakelog.paimon.metadata.snapshot import COMPACT, Snapshot
from lakelog.paimon.rows.row_kind import ROW_KIND_COLUMN, kinds_from_text
from lakelog.table.commit.committer import Committer, count_epoch
from lakelog.table.commit.late_rows import find_late_rows, forget_writer
from lakelog.table.commit.sealed_state import sealed_state
from lakelog.table.log.register import register_writer
from lakelog.table.maintenance.state_changes import state_changes
from lakelog.table.model.attempt import AttemptResult
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.model.epoch_record import EpochRecord
from lakelog.table.model.log_state import LogState, MarkerCounts, newest_state, state_at
from lakelog.table.model.registrations import BATCH
from lakelog.table.staging.task_writer import TaskWriter

_WAIT_S: Final = 10.0
"""Maximum time that a process waits for another one that appends the same changes."""


def append_missing(table: DynamicTable, writer: str, number: int) -> None:
    """Appends the changes of snapshot ``number`` as the epoch of their writer, and commits that the log has them.

    1 append the changes as an attempt · 2 decide, unless another process has · 3 heal the log to the decision
    · 4 append its markers · 5 commit a snapshot without rows that says so. Any process may repeat any step.
    Called after the markers of all earlier snapshots. If another engine has expired one of the two snapshots, the
    changes are unknown, and the log stays ahead of the files. Raises Unavailable, CommitConflict, CommitUnknown; the
    next call continues.
    """
    table = table.whole.with_hints({EMIT_MODE.key: "file,log"}).with_newest_schema()
    leases = Leases(table.io, f"{table.store.paths.branch_root}/lakelog/publish")
    busy = Unavailable(f"the log of table {table.name} is being written by another process, which appends the changes")
    with leases.holding("log", _WAIT_S, busy):
        if newest_state(table.store)[1].missing.get(writer) == number:
            _MissingChanges(table, writer, number).run()


class _MissingChanges:
    def __init__(self, table: DynamicTable, writer: str, number: int) -> None:
        self._table, self._writer, self._number = table, writer, number
        self._path = table.registered.changes_path(writer)
        self._origin: Mapping[int, int] = {}
        """Where the rows of this process begin in the log, nothing if it has none."""
        self._verified: Mapping[int, int] = {}
        """The offsets below which the log is right."""

    def run(self) -> None:
        """Steps 1 to 5."""
        try:
            record = self._decided() or self._decide(self._appended())
            if record is not None:
                self._seal(record)
        except (NotFound, Fenced) as failure:
            if not self._is_missing():
                self._take_back()
            elif isinstance(failure, Fenced):
                raise
            else:
                self._commit(lambda state: replace(state, ahead=state.offsets))
        finally:
            self._table.registered.drop(self._writer)
        forget_writer(self._table, self._writer, self._verified)

    def _is_missing(self) -> bool:
        return newest_state(self._table.store)[1].missing.get(self._writer) == self._number

    def _decided(self) -> EpochRecord | None:
        try:
            return EpochRecord.from_bytes(self._table.io.read(self._path), self._path)
        except NotFound:
            return None

    def _appended(self) -> AttemptResult | None:
        """The changes as one attempt, None if the rows are the same. Raises NotFound if a snapshot has expired."""
        table, store = self._table, self._table.store
        before = store.snapshot(self._number - 1) if self._number > 1 else None
        task: TaskWriter | None = None
        try:
            for _, batch in state_changes(table, before, store.snapshot(self._number)):
                if task is None:
                    find_late_rows(table)  # the seal below verifies the log up to its own rows
                    self._origin = register_writer(table, self._writer, BATCH)
                    task = TaskWriter(table, self._writer, 0, lane=0, stages=False)
                kinds = kinds_from_text(batch.column(ROW_KIND_COLUMN), ROW_KIND_COLUMN).to_numpy()
                task.write_checked(batch.select(table.schema.field_names), kinds)
            return None if task is None else task.finish()
        finally:
            if task is not None:
                task.close()

    def _decide(self, attempt: AttemptResult | None) -> EpochRecord | None:
        """The decision about the changes, None if nothing is left to do."""
        table, writer = self._table, self._writer
        if attempt is None:
            self._commit(lambda state: state)
            return None
        record = EpochRecord(writer, 0, now_ms(), (attempt,), table.registered.origin(writer), once=True)
        table.check_identity()
        if not table.io.create(self._path, record.to_bytes()):
            return EpochRecord.from_bytes(table.io.read(self._path), self._path)
        if not self._is_missing():
            self._take_back()
            return None
        count_epoch(table, record)
        return record

    def _take_back(self) -> None:
        """Takes the rows of this process back: others have appended the changes while it was suspended."""
        if self._origin:
            self._table.registered.register(self._writer, self._origin, BATCH)
            self._verified = Committer(self._table, self._writer, once=True, helps=True).take_back().verified

    def _seal(self, record: EpochRecord) -> None:
        """Steps 3 to 5."""
        table, writer = self._table, self._writer
        committer = Committer(table, writer, once=True, helps=True)
        verified = committer.verify(record)
        self._verified = verified.verified
        committer.search.run(table)
        markers = MarkerCounts(committer.appended(), committer.expected_markers([record]))
        committer.append_commit([record])

        def sealed(state: LogState) -> LogState:
            after = sealed_state(verified, [record], (), state.writers.get(writer), self._number)
            return state.with_writer(writer, replace(after, unmarked={}, sealed_in={}), {}, markers)

        self._commit(sealed)

    def _commit(self, change: Callable[[LogState], LogState]) -> None:
        """Commits that the log has the changes, unless another process has."""
        table, writer = self._table, self._writer

        def properties(latest: Snapshot | None) -> Mapping[str, str]:
            state = state_at(table.store, latest)
            if state.missing.get(writer) != self._number:
                raise LostRace("another process has appended the changes")
            return change(state).without_missing(writer).without_finished(table.registered.writers()).to_properties()

        request = CommitRequest(f"{writer}-{new_uuid()}", 0, COMPACT, allow_empty=True, prepare=properties)
        with contextlib.suppress(LostRace):
            table.store.commit(replace(request, first_try=True))
