"""Rollback and fast-forward: a new snapshot with the content of an older state, or of a branch (RFC 23).

Both are one commit that replaces all files. They never remove a snapshot, so writers, readers, tags and consumers
beside them go on. The log gets the difference: as a replacement if the table has no key, as an epoch of changed rows if
it has one, or from the publisher of a log of changes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import replace

from lakelog.errors import InvalidRequest, NotFound, UnsupportedFeature
from lakelog.filestore.commit.request import CommitRequest
from lakelog.filestore.read.split_reader import engine_of
from lakelog.io.names import new_uuid
from lakelog.options.constraints import without_constraints
from lakelog.paimon.metadata.snapshot import COMPACT, Snapshot
from lakelog.table.commit.replacement import commit_replacement
from lakelog.table.commit.seal import seal_decided
from lakelog.table.maintenance.state_changes import state_changes
from lakelog.table.model.dynamic_table import DynamicTable, open_branch
from lakelog.table.model.log_generation import checked_state
from lakelog.table.model.log_state import LogState, WriterState, newest_state, state_at, state_of
from lakelog.table.read.time_travel import snapshot_at_time
from lakelog.table.write.replaced_rows import check_overwrite, one_overwrite
from lakelog.table.write.table_writer import TableWriter


def roll_back(
    table: DynamicTable,
    snapshot_id: int | None = None,
    tag: str | None = None,
    timestamp_ms: int | None = None,
    files_only: bool = False,
) -> Snapshot:
    """Makes the rows of an older state the newest ones; exactly one of snapshot, tag and timestamp selects it.

    Returns the snapshot of that state. The log gets the difference, unless ``files_only``: it then stays ahead of the
    files. Raises NotFound, InvalidRequest (a log of input rows whose merge engine cannot take rows back, without
    ``files_only``), CommitConflict, CommitUnknown (roll back again), Unavailable.
    """
    if sum(choice is not None for choice in (snapshot_id, tag, timestamp_ms)) != 1:
        raise InvalidRequest("roll back to one of: a snapshot id, a tag, a timestamp in milliseconds")
    table.check_rows_writable()
    table = table.with_newest_schema()
    _check_log(table, "rolled back", files_only)
    seal_decided(table)
    store = table.store
    if tag is not None:
        target = store.tags.get(tag).snapshot
    elif snapshot_id is not None:
        target = store.snapshot(snapshot_id)
        if snapshot_id not in store.snapshots.chain_ids():
            raise NotFound(f"snapshot {snapshot_id} of table {table.name} has expired: choose one in $snapshots")
    else:
        target = snapshot_at_time(store, timestamp_ms or 0)
    if target != store.latest_snapshot():
        _restore(table, f"rollback-{new_uuid()}", target, files_only)
    else:
        store.check_identity()
    return target


def fast_forward(table: DynamicTable, branch: str, files_only: bool = False) -> Snapshot:
    """Makes the rows of a branch those of main; returns the branch's newest snapshot.

    Main gets the schemas that only the branch has. Raises as ``roll_back``, InvalidRequest for a branch without
    snapshots, and UnsupportedFeature if main and the branch were altered differently.
    """
    table.check_rows_writable()
    branches = table.store.branches
    target = open_branch(table, branch).store.latest_snapshot()
    if target is None:
        raise InvalidRequest(f"branch '{branch}' has no snapshot: write to it before you fast-forward main")
    branches.adopt_schemas(branch)
    table = table.with_newest_schema()
    _check_log(table, "fast-forwarded", files_only)
    seal_decided(table)
    _restore(table, f"fast-forward-{new_uuid()}", target, files_only, lambda: branches.unused_files(branch))
    return target


def restore_copied(
    table: DynamicTable, state: Snapshot, check: Callable[[Snapshot | None], Mapping[str, str]] = lambda newest: {}
) -> None:
    """Makes a state the newest one of a table whose directory has the state's files. The log stays as it is.

    ``check`` gets the newest snapshot before each try. It returns more properties of the new one, or raises. Raises
    CommitConflict, CommitUnknown, Unavailable.
    """
    names = frozenset(entry.file.file_name for entry in table.store.live_entries(state))
    _restore(table, f"restore-{new_uuid()}", state, True, lambda: names, check)


def _check_log(table: DynamicTable, what: str, files_only: bool) -> None:
    """Raises InvalidRequest if the log has input rows that cannot be taken back, unless ``files_only``."""
    if files_only or not table.emits_log or not table.schema.is_keyed:
        return
    with contextlib.suppress(UnsupportedFeature):
        check_overwrite(table)
        if engine_of(table.schema).number_decides:
            return
    raise InvalidRequest(
        f"table {table.name} has a log of input rows, and its merge engine cannot take rows back, so it cannot be "
        f"{what}. Pass files_only to change only the files; the log then stays ahead of them. A log of changes "
        "('log.content' = 'changes') follows"
    )


def _restore(
    table: DynamicTable,
    user: str,
    target: Snapshot,
    files_only: bool,
    unused: Callable[[], frozenset[str]] = frozenset,
    check: Callable[[Snapshot | None], Mapping[str, str]] = lambda newest: {},
) -> None:
    if table.emits_log and table.schema.is_keyed and not files_only:
        _restore_rows(table, user, target)
        return
    is_ahead = table.emits_log and files_only

    def properties(newest: Snapshot | None) -> Mapping[str, str]:
        state = _state_after(checked_state(table, newest), target)
        state = replace(state, ahead=state.offsets if is_ahead else state.ahead)
        return {**state.to_properties(), **check(newest)}

    def commit(request: CommitRequest) -> Snapshot:
        request = replace(request, prepare=properties)
        return table.store.commit(request) if is_ahead else commit_replacement(table, request)

    table.store.restored(target, unused()).commit(user, table.store.latest_snapshot, commit)


def _restore_rows(table: DynamicTable, user: str, target: Snapshot) -> None:
    """Writes the difference as one epoch, for both stores. A row with a new key that others commit meanwhile stays.

    No constraint is checked: the rows are those that the table had.
    """
    with one_overwrite(table):
        _note(table, user, 0, target, lambda state, after: replace(state, writers=after.writers))
        newest = table.store.latest_snapshot()
        table = table.with_newest_schema()  # an ALTER TABLE may have given these rows columns while this one waited
        unchecked = replace(table.schema, options=without_constraints(table.schema.options))
        with TableWriter(table.with_schema(unchecked)) as writer:
            for _, batch in state_changes(table.all_rows, newest, target, is_chain=False):
                writer.write(batch)
        _note(table, user, 1, target, lambda state, after: replace(state, rejected=after.rejected))


def _note(
    table: DynamicTable, user: str, number: int, target: Snapshot, change: Callable[[LogState, LogState], LogState]
) -> None:
    """Commits a part of the log state of ``target``, if it differs: a snapshot without rows."""

    def noted(newest: Snapshot | None) -> LogState:
        state = state_at(table.store, newest)
        return change(state, _state_after(state, target))

    newest, state = newest_state(table.store)
    if noted(newest) != state:
        table.store.commit(
            CommitRequest(user, number, COMPACT, prepare=lambda latest: noted(latest).to_properties(), allow_empty=True)
        )


def _state_after(state: LogState, target: Snapshot) -> LogState:
    """The log state after a commit that restores a snapshot.

    The log and its writers go on. But the rows of a source that has written since are no longer in the table, and the
    rejected rows are those of that time: what was replayed since is not in the table either.
    """
    before = state_of(target) or LogState()

    def known(name: str, writer: WriterState) -> WriterState:
        former = before.writers.get(name)
        is_undone = former is None or former.position != writer.position or former.undone
        return replace(writer, undone=is_undone) if writer.position else writer

    writers = {name: known(name, writer) for name, writer in state.writers.items()}
    return replace(state, writers=writers, rejected=before.rejected)
