"""Bugs to plant into the protocol: the simulation has to find each one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, Final
from unittest.mock import patch

import pyarrow as pa

from lakelog.errors import Fenced
from lakelog.filestore.commit.request import CommitRequest
from lakelog.filestore.metadata.identity import Identity
from lakelog.filestore.store import FileStore
from lakelog.io.lease import Leases
from lakelog.logstore.protocol.header import CORRECTION, DATA, decode_header
from lakelog.logstore.protocol.healing_plan import Correction, Healing, LoggedChange
from lakelog.paimon.metadata.snapshot import Snapshot
from lakelog.paimon.schema.schema import TableSchema
from lakelog.table import create
from lakelog.table.commit import committer, file_commit, markers, replacement, seal, take_over
from lakelog.table.commit.committer import Committer
from lakelog.table.commit.log_repair import LogRepair
from lakelog.table.commit.missing_changes import _MissingChanges
from lakelog.table.log.committed_reader import CommittedReader
from lakelog.table.log.position import SnapshotCutover
from lakelog.table.log.record_schemas import RecordSchemas
from lakelog.table.maintenance import retention
from lakelog.table.model import waiting_epochs
from lakelog.table.model.attempt import AttemptResult
from lakelog.table.model.decided_epochs import DecidedEpochs
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.model.epoch_record import EpochRecord
from lakelog.table.model.log_state import LogState, state_of
from lakelog.table.new_log import NewLog
from lakelog.table.read import log_view, snapshot_switch
from lakelog.table.read.committed_rows import CommittedRows
from lakelog.table.read.log_view import LogView
from lakelog.table.write import restore

_PLAN: Final = Healing.plan
_STARTS: Final = Committer._starts
_IS_RIGHT: Final = Healing._is_right
_DECIDE: Final = _MissingChanges._decide


def _skip_healing(healing: Healing, region: pa.Table, expired: range = range(0)) -> list[Correction]:
    """Leaves redundant rows in the log for ever."""
    return []


def _wrong_order(healing: Healing, region: pa.Table, expired: range = range(0)) -> list[Correction]:
    """Appends corrections in the wrong order."""
    return _PLAN(healing, region, expired)[::-1]


def _name_only(healing: Healing, region: pa.Table, expired: range = range(0)) -> list[Correction]:
    """Takes back every refused row that no correction names; never looks at corrections themselves."""
    named, refused = set(), []
    for row in region.to_pylist():
        head = decode_header(row["header"], row["offset"])
        if head.writer != healing.writer:
            continue
        if head.kind == CORRECTION:
            named.add(head.ref)
        elif head.kind == DATA and head.attempt not in healing.accepted.get(head.epoch, frozenset()):
            refused.append((row, head))
    return [
        Correction(row["offset"], -1, head.epoch, head.attempt, row["key"], healing.format.inverse(row["value"]))
        for row, head in reversed(refused)
        if row["offset"] not in named
    ]


def _no_last_state(healing: Healing, region: pa.Table, expired: range = range(0)) -> list[Correction]:
    """Balances, and does not look at what is the last record of a key."""
    return _PLAN(replace(healing, keyed=False), region, expired)


def _accept_fenced(healing: Healing, region: pa.Table, expired: range = range(0)) -> list[Correction]:
    """A driver of the past takes the rows of later epochs for refused ones."""
    return _PLAN(replace(healing, accepted={10**6: frozenset(), **healing.accepted}), region, expired)


def _starts_with(error: int) -> Callable[..., dict[int, int]]:
    """Healing begins at an offset that is wrong."""
    return lambda *given: {b: max(0, o + error) for b, o in _STARTS(*given).items()}


def _decide_again(decided: DecidedEpochs, record: EpochRecord, tip: int = 0) -> tuple[EpochRecord, bool]:
    """The last decision wins: it takes the place of one that is there."""
    number = tip + 1 if decided.keyed else 0
    path = decided._link_path(number) if number else decided._staged_path(record.writer, record.epoch)
    decided.io.write(path, record.to_bytes())
    return replace(record, number=number), True


def _others_are_right(healing: Healing, last: Any, is_late: bool) -> bool:
    """What another writer appended behind a row is never read."""
    return last.header.writer != healing.writer or _IS_RIGHT(healing, last, is_late)


def _every_commit(_: CommittedReader, region: object, run: list[Any]) -> list[Any]:
    """Takes every commit record for the first one of its epoch."""
    return run


def _never_back(
    _: CommittedReader, bucket: int, first: int, last: int, records: pa.Table
) -> Callable[[], Iterator[pa.Table]]:
    """Shows of an epoch what lies in the same part of the log as its commit record."""
    return lambda: iter([records])


def _at_the_end(switch: SnapshotCutover, bucket: int, records: pa.Table) -> pa.Table:
    """Goes on behind a snapshot where the log ended then."""
    return records.slice(max(0, switch.ends.get(bucket, 0) - records.column("offset")[0].as_py()))


def _nothing(*_: object) -> None:
    """Does not do it."""


def _last_rows_only(
    level0_files_of: Callable[..., Any], table: DynamicTable, records: Sequence[EpochRecord], latest: Any
) -> Any:
    """Writes the rows of one writer's epochs to files, and takes those of all for sealed."""
    return level0_files_of(table, [r for r in records if r.writer == records[-1].writer], latest)


def _was_taken_over(repair: LogRepair, *_: object) -> bool:
    """Never judges corrections of records that another process has healed."""
    return repair.was_taken_over


def _same(table: DynamicTable) -> DynamicTable:
    """Takes the schema that was opened for the newest one."""
    return table


def _by_name(schemas: RecordSchemas, headers: pa.ChunkedArray) -> Iterator[tuple[TableSchema, int, int]]:
    """Reads each record with the names of the reader, whatever they meant when it was written."""
    yield schemas.table.schema, 0, len(headers)


def _as_they_are(rows: CommittedRows, changes: Sequence[LoggedChange]) -> tuple[int | None, Sequence[LoggedChange]]:
    """Takes the names in a record for those of the committed rows."""
    rows.table = rows.table.with_newest_schema()
    return RecordSchemas(rows.table).own_id, changes


def _missing_alone(state: LogState, writer: str, snapshot: int) -> LogState:
    """The state of a snapshot does not say that it has the rows of the writer."""
    return replace(state, missing={**state.missing, writer: snapshot})


def _without_missing(table: DynamicTable) -> LogView:
    """Readers of a snapshot do not know that it has the rows of a writer that appends them later."""
    view = log_view.capture(table)
    return replace(view, state=replace(view.state, missing={}))


@contextmanager
def _held_by_all(*_: object) -> Iterator[bool]:
    """Takes no lease, so that several processes append the same changes at once."""
    yield True


def _still_missing(_: object) -> bool:
    """Never looks whether another process has appended the changes."""
    return True


def _nothing_missing(store: FileStore) -> tuple[Snapshot | None, LogState]:
    """Expires snapshots whose changes are not in the log."""
    return None, LogState()


def _all_attempts(changes: Any, attempt: AttemptResult | None) -> EpochRecord | None:
    """Each process decides that its own attempt counts."""
    if attempt is not None:
        changes._table.io.delete(changes._path)
    return _DECIDE(changes, attempt)


def _files_only(table: DynamicTable, request: CommitRequest) -> Snapshot:
    """Replaces the files, and leaves the log as it is."""
    return table.store.commit(request)


def _state_of_then(_: LogState, target: Snapshot) -> LogState:
    """Takes the log back with the files."""
    return state_of(target) or LogState()


def planted(*parts: tuple[Any, str, Any]) -> Callable[[], AbstractContextManager[None]]:
    """Puts a bug into code while its context lasts: each part replaces an attribute of an object."""

    @contextmanager
    def plant() -> Iterator[None]:
        with ExitStack() as stack:
            for part in parts:
                stack.enter_context(patch.object(*part))
            yield

    return plant


BUGS: Final = {
    "skip-healing": planted((Healing, "plan", _skip_healing)),
    "wrong-order": planted((Healing, "plan", _wrong_order)),
    "name-only": planted((Healing, "plan", _name_only)),
    "no-last-state": planted((Healing, "plan", _no_last_state)),
    # with the second part, since a take-over reverts what the first one does
    "accept-fenced": planted((Healing, "plan", _accept_fenced), (LogRepair, "_is_unverified", _was_taken_over)),
    "offset-too-low": planted((Committer, "_starts", _starts_with(-1))),
    "offset-too-high": planted((Committer, "_starts", _starts_with(1))),
    "decide-twice": planted((DecidedEpochs, "decide", _decide_again)),
    "own-rows-only": planted((Healing, "_is_right", _others_are_right)),
    "tell-twice": planted((CommittedReader, "_first_of_epoch", _every_commit)),
    "never-read-back": planted((CommittedReader, "_region", _never_back)),
    "switch-too-high": planted((SnapshotCutover, "kept", _at_the_end)),
    "commit-records-forgotten": planted((Committer, "append_commit", _nothing)),
    "sealed-twice": planted((seal, "_check_waiting", _nothing)),
    "rows-of-others-forgotten": planted(
        (file_commit, "level0_files_of", partial(_last_rows_only, file_commit.level0_files_of))
    ),
    "closed-writers-unknown": planted(
        *((module, "sealed_elsewhere", _nothing) for module in (seal, committer, waiting_epochs))
    ),
    "state-expires": planted((retention, "_newest_with_state", _nothing)),
    "read-by-name": planted((RecordSchemas, "runs", _by_name)),
    "heal-by-name": planted((CommittedRows, "translate", _as_they_are)),
    "no-schema-id": planted((RecordSchemas, "own_id", None)),
    "columns-forgotten": planted((DynamicTable, "with_newest_schema", _same)),
    "handles-follow-the-name": planted((Identity, "check", _nothing)),
    "replacement-shown-twice": planted(
        (LogState, "with_missing", _missing_alone), (snapshot_switch, "capture", _without_missing)
    ),
    "replacement-decided-twice": planted(
        (_MissingChanges, "_decide", _all_attempts), (Leases, "holding", _held_by_all)
    ),
    "replacement-not-asked": planted((_MissingChanges, "_is_missing", _still_missing)),
    "replacement-expires": planted((retention, "newest_state", _nothing_missing)),
    "replacement-never-appended": planted(
        *((module, "append_missing_changes", _nothing) for module in (replacement, seal, take_over)),
        (markers, "append_missing", _nothing),
    ),
    "rollback-of-the-state": planted((restore, "_state_after", _state_of_then)),
    "rollback-beside-the-log": planted((restore, "commit_replacement", _files_only)),
    "log-goes-with-a-doubt": planted((create, "CommitUnknown", Fenced), (NewLog, "is_local", False)),
}
