"""Replaces files of a table without a primary key, and the rows in its log of input rows (RFC 21).

The log gets a -D of each row that the files lose and a +I of each new row, as the proposed epoch of one batch writer.
The snapshot of the files decides the epoch. So after any failure, both stores have all of it or nothing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from lakelog.errors import CommitConflict, CommitUnknown, LakelogError, NotFound
from lakelog.filestore.commit.request import CommitRequest
from lakelog.filestore.read.plan import Split
from lakelog.io.names import new_uuid
from lakelog.options.overwrite import OVERWRITE_DATA_FILES
from lakelog.paimon.metadata.snapshot import COMPACT, Snapshot
from lakelog.paimon.rows.row_kind import INSERT, ROW_KIND_COLUMN, kinds_from_text
from lakelog.table.commit.committer import Committer
from lakelog.table.commit.epoch_metrics import count_epoch
from lakelog.table.commit.log_repair import take_back_late, was_forgotten, writer_ended
from lakelog.table.commit.proposal import settle
from lakelog.table.commit.seal import append_markers, sealed_state
from lakelog.table.commit.take_over import take_over_best_effort
from lakelog.table.log.register import register_writer
from lakelog.table.maintenance.state_changes import exchanged_rows, file_key
from lakelog.table.model.attempt import AttemptResult
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.model.log_state import MarkerCounts, newest_state, state_at
from lakelog.table.model.registrations import BATCH, REPLACEMENT
from lakelog.table.model.waiting_epochs import waiting_epochs
from lakelog.table.staging.backfill import is_backfilling
from lakelog.table.staging.task_writer import TaskWriter

_ROUNDS: Final = 20
"""Number of times that the files to replace may change before the commit."""

FilesAt = Callable[[Snapshot | None], Sequence[Split]]
"""Returns the files that a commit after this snapshot replaces, one split for each."""
_Files = Mapping[tuple[object, ...], Split]


def commit_replacement(
    table: DynamicTable, request: CommitRequest, replaced: FilesAt, added: Sequence[Split] | None = None
) -> Snapshot:
    """Commits a request that replaces files; a log of input rows without a key gets the changed rows.

    ``request.user`` is a name that is used once. ``replaced`` is called again if another commit comes first. ``added``
    are files with the new rows (None: all rows of the new files). Raises
    CommitConflict (nothing has changed: try again), CommitUnknown (``find_replacement`` finds the outcome later),
    Fenced, Unavailable, and the errors of ``request.prepare``.
    """
    if request.kind == COMPACT or not _logs_rows(table) or is_backfilling(table):
        return table.store.commit(request)
    with _replacement(table, request.user) as made:
        return made.commit(request, replaced, added)


def find_replacement(table: DynamicTable, user: str) -> bool:
    """Returns whether an earlier request of this user is in a snapshot; if not, it never will be.

    Called after CommitUnknown. Raises as ``settle``.
    """
    if not _logs_rows(table):
        return False  # the commit itself looks for the snapshot of its user
    prefix = f"{REPLACEMENT}{user}-"
    if any(snapshot.commit_user.startswith(prefix) for snapshot in table.store.snapshots.backwards()):
        return True  # the state keeps the newest replacements only
    writers = {*newest_state(table.store)[1].writers, *table.registered.writers()}
    return any(settle(table, writer) for writer in sorted(writers) if writer.startswith(prefix))


def _logs_rows(table: DynamicTable) -> bool:
    """True if the readers of a log without a key need each changed row."""
    return table.emits_log and not table.schema.is_keyed


@contextlib.contextmanager
def _replacement(table: DynamicTable, user: str) -> Iterator[_Replacement]:
    hints = {key: value for key, value in table.hints.items() if key != OVERWRITE_DATA_FILES.key}
    made = _Replacement(replace(table, hints=hints), f"{REPLACEMENT}{user}-{new_uuid()[:8]}")
    try:
        yield made
    except BaseException:
        made.undo()
        raise


class _Replacement:
    """One replacement of files, and the writer of its rows in the log.

    1 append the difference between the old files and the new ones · 2 propose the epoch, heal the log to it
    · 3 commit, if the files are still the same; else again from 1, with what has changed · 4 append the commit markers.
    """

    def __init__(self, table: DynamicTable, writer: str) -> None:
        self._table, self._writer = table, writer
        self._committer = Committer(table, writer, once=True)
        self._results: list[AttemptResult] = []
        self._is_registered = self._may_be_committed = False

    def commit(self, request: CommitRequest, replaced: FilesAt, added: Sequence[Split] | None = None) -> Snapshot:
        """Steps 1 to 4."""
        store = self._table.store
        new = [
            Split(b.partition, b.bucket, b.total_buckets, (f,), needs_merge=False)
            for b in request.files
            for f in b.new_files
        ]
        made = new if added is None else added
        seen: _Files | None = None
        for _ in range(_ROUNDS):
            # 1
            live = {file_key(split): split for split in replaced(store.latest_snapshot())}
            try:
                self._append_difference(made, seen, live)
            except NotFound as why:
                raise CommitConflict(
                    f"table {self._table.name}: a file was replaced and removed while its rows were read. Try again"
                ) from why
            seen = live
            try:
                return self._committed(request, replaced, live.keys())
            except _FilesChanged:
                continue
        raise CommitConflict(f"table {self._table.name}: other writers keep changing the replaced files. Try again")

    def _append_difference(self, made: Sequence[Split], seen: _Files | None, live: _Files) -> None:
        """Appends what has changed since an earlier round, which has seen other files.

        If that includes insertions, another writer has deleted the same rows. A deletion and its correction in one
        epoch would show readers of committed rows the second delete. So the earlier attempts do not count, and all is
        appended again.
        """
        if seen is not None:
            if self._append(_only_in(live, seen), _only_in(seen, live), may_insert=False):
                return
            self._results.clear()
        self._append(list(live.values()), made)

    def undo(self) -> None:
        """Takes the rows in the log back. If that fails, the next process does so, once the lease has expired."""
        if not self._is_registered:
            return
        with contextlib.suppress(LakelogError):
            if not (self._may_be_committed and settle(self._table, self._writer)):
                self._take_back()
        self._release()

    def _take_back(self) -> None:
        # The proposal first: if the process dies here, its writer is still registered, and is taken over.
        self._table.decided.forget(self._table.decided.of(self._writer))
        if was_forgotten(self._table, self._writer, self._results):
            take_back_late(self._table, self._writer, 0, self._results)
            return
        Committer(self._table, self._writer, helps=True).take_back()
        self._table.registered.forget(self._writer)

    def _append(self, removed: Sequence[Split], added: Sequence[Split], may_insert: bool = True) -> bool:
        """Appends the difference between some files and others as one attempt, with all their columns.

        Returns False, without an attempt, at an insertion if there may be none.
        """
        table = self._table.with_newest_schema()  # an ALTER TABLE may have added some since the table was opened
        task: TaskWriter | None = None
        try:
            for _, batch in exchanged_rows(table, removed, added):
                kinds = kinds_from_text(batch.column(ROW_KIND_COLUMN), ROW_KIND_COLUMN).to_numpy()
                if not may_insert and (kinds == INSERT).any():
                    if task is not None:
                        task.close()
                    return False
                if task is None:
                    self._register()
                    task = TaskWriter(table, self._writer, 0, lane=0, stages=False)
                task.write_checked(batch.select(table.schema.field_names), kinds)
        except BaseException:
            if task is not None:
                task.close()
            raise
        if task is not None:
            self._results.append(task.finish())
        return True

    def _register(self) -> None:
        if not self._is_registered:
            take_over_best_effort(self._table)
            self._is_registered = True
            self._committer.origin = register_writer(self._table, self._writer, BATCH, in_use=True)

    def _committed(self, request: CommitRequest, replaced: FilesAt, seen: object) -> Snapshot:
        """Steps 2 to 4. Raises _FilesChanged if the files to replace are others than ``seen``."""
        table, committer, prepare = self._table, self._committer, request.prepare

        def unchanged(latest: Snapshot | None) -> Mapping[str, str]:
            given = {} if prepare is None else prepare(latest)
            if {file_key(split) for split in replaced(latest)} != seen:
                raise _FilesChanged
            return given

        if not self._results and not self._is_registered:  # the rows stay the same
            return table.store.commit(replace(request, prepare=unchanged))
        # 2
        record = committer.propose(self._results)
        committer.search.run(table)
        verified = committer.verified()
        assert verified is not None
        markers = MarkerCounts(committer.appended(), committer.expected_markers([record]))

        def properties(latest: Snapshot | None) -> Mapping[str, str]:
            state = state_at(table.store, latest)
            known = state.writers.get(self._writer)
            self._may_be_committed = known is not None and not known.ended  # by a round whose answer was lost
            if known is not None:
                raise writer_ended(table, self._writer)
            unchanged(latest)
            number = 1 if latest is None else latest.id + 1
            sealed = sealed_state(verified, [record], (), None, number)
            self._may_be_committed = True
            at_work = [self._writer, *table.registered.writers()]
            return state.with_writer(self._writer, sealed, {}, markers).without_finished(at_work).to_properties()

        # 3
        own = replace(request, user=self._writer, identifier=0, prepare=properties, first_try=True)
        try:
            snapshot = table.store.commit(own)
        except Exception as why:
            snapshot = self._snapshot_after(why)
        # 4
        count_epoch(table, record)
        with contextlib.suppress(LakelogError):  # the rows are replaced: the next process appends the markers
            found = waiting_epochs(table)
            append_markers(committer, [r for r in found.sealed if r.writer != self._writer], [record], found.state)
            if not committer.lacks_markers:
                table.registered.forget(self._writer)
        self._release()
        return snapshot

    def _snapshot_after(self, failure: Exception) -> Snapshot:
        """The newest snapshot, if the epoch is in one despite a failure of the commit; else raises the failure."""
        if not self._may_be_committed:
            raise failure
        try:
            is_committed = settle(self._table, self._writer)
        except LakelogError:
            raise CommitUnknown(
                f"unknown whether rows of table {self._table.name} were replaced: the storage does not answer. Read "
                "them, and repeat the statement if they are not"
            ) from failure
        latest = self._table.store.latest_snapshot()
        if is_committed and latest is not None:
            return latest
        self._may_be_committed = False
        if isinstance(failure, CommitUnknown):
            raise CommitConflict(f"table {self._table.name}: the storage has lost the commit. Try again") from failure
        raise failure

    def _release(self) -> None:
        self._is_registered = False
        self._table.registered.drop(self._writer)


def _only_in(files: _Files, others: _Files) -> list[Split]:
    return [split for key, split in files.items() if key not in others]


class _FilesChanged(Exception):
    """Another commit has changed the files to replace."""
