"""Takes over from writers with expired leases: seals their decided epochs and takes back their open rows.

The next active process does it: the next writer, the optimizer, a lake that is closed. No service is needed.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Final

from lakelog.errors import LakelogError, NotFound, OffsetExpired
from lakelog.io.logs import fields
from lakelog.options.log import WRITER_TIMEOUT
from lakelog.paimon.metadata.snapshot import Snapshot
from lakelog.table.commit.committer import Committer
from lakelog.table.commit.late_rows import find_late_rows, forget_writer
from lakelog.table.commit.replacement import append_missing_changes
from lakelog.table.commit.seal import seal, seal_staged
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.model.log_state import FOLLOWER, newest_state
from lakelog.table.model.registrations import Registration
from lakelog.table.model.waiting_epochs import waiting_epochs
from lakelog.table.rejected.entries import REPLAY_OF_ROWS

_LOG = logging.getLogger("lakelog.seal")
_RECHECK_SHARE: Final = 0.5
"""Fraction of the timeout that a process waits before it checks a table's leases again."""


def dead_writers(table: DynamicTable) -> dict[str, Registration]:
    """The writers with an expired lease whose open rows are not taken back yet. Raises Unavailable."""
    if table.log is None:
        return {}
    registrations = table.registered.all().items()
    return {name: r for name, r in registrations if name != FOLLOWER and not r.is_alive and r.is_open}


def take_over(table: DynamicTable) -> Iterator[str]:
    """Takes over from each dead writer and yields its name: seals decided epochs and takes back open rows.

    A batch writer is forgotten; if it resumes, it is refused (Fenced) or heals the log to its decision. A replay of
    rejected rows is ended before, because it decides about rows that are not its own. A streaming query keeps its
    position and sends the open epoch again. Called by maintenance; the caller may stop between two writers. Raises
    Unavailable, CommitConflict, after the other writers if it is about the end of one; the next call continues.
    """
    find_late_rows(table)
    append_missing_changes(table)
    dead, failure = dead_writers(table), None
    missing = newest_state(table.store)[1].missing  # read later: it has all of the dead ones that are not done
    for writer, entry in dead.items():
        # its rows are in the table and not taken back, or another process has done it
        if writer in missing or not table.registered.is_registered(writer):
            continue
        try:
            taken_back = Committer(table, writer, helps=True).take_back()
        except OffsetExpired:
            raise
        except NotFound:
            continue  # another process has done it
        epochs = table.decided.of(writer)
        if epochs:
            seal_staged(table)  # or appends missing markers
            state = newest_state(table.store)[1]
            table.decided.forget([r for r in epochs if r.proposed and not state.holds(r)])  # of a version before RFC 21
        table.check_identity()  # the writer may be one of the next table of this name, and the log that of the former
        now = table.registered.find(writer)
        if now is not None and now.is_alive:
            continue  # the writer has resumed
        try:
            if writer.startswith(REPLAY_OF_ROWS):
                end_writer(table, writer)  # it could still decide, and another replay take the same rows
            elif entry.is_batch and taken_back.epoch is not None and not _decide_none(table, writer, taken_back.epoch):
                continue  # the writer has decided
        except NotFound:
            continue  # another process has done it
        except LakelogError as why:
            failure = why  # it stays, and the others do not wait for it
            continue
        if entry.is_batch:
            if not table.decided.of(writer):  # else its control records are still missing
                forget_writer(table, writer, taken_back.verified)
        else:
            table.registered.write_lease(writer, entry.kind, settled=taken_back.verified)
        yield writer
    for writer in table.registered.remains(table.lease_ms):
        table.registered.forget(writer)
    if failure is not None:
        raise failure


def _decide_none(table: DynamicTable, writer: str, epoch: int) -> bool:
    """Decides the open epoch of a dead batch writer as empty, and seals; False if the writer has decided it.

    Readers that begin now skip its rows, so it must not decide them later. Raises as ``seal``.
    """
    committer = Committer(table, writer, once=True, ended=True)
    record = committer.commit(epoch, [])
    if record is None or not record.ended:
        return False
    committer.append_abort(epoch)
    seal(committer)
    return True


def seal_abandoned(table: DynamicTable) -> list[Snapshot]:
    """Seals the decided epochs of dead writers, and appends their missing markers.

    In a table with a key, also seals all epochs decided before them.
    """
    epochs = waiting_epochs(table)
    records = (*epochs.waiting, *epochs.sealed)
    if not records:
        return []
    alive = {name for name, r in table.registered.all().items() if r.is_alive}
    return seal_staged(table) if any(r.writer not in alive for r in records) else []


def take_over_best_effort(table: DynamicTable) -> None:
    """``take_over`` during a write, at most once per half timeout and process; a failure is only logged."""
    if table.log is None or not table.emits_log:
        return
    wait_s = table.options.need(WRITER_TIMEOUT).total_seconds() * _RECHECK_SHARE
    if not table.identity.memory.is_due("writers", wait_s):
        return
    take_over_now(table)


def take_over_now(table: DynamicTable) -> None:
    """``take_over`` and ``seal_abandoned``; a failure is only logged, and the next process retries."""
    try:
        for _ in take_over(table):
            pass
        seal_abandoned(table)
    except LakelogError as failure:
        about = fields(table=table.name)
        _LOG.warning("table %s: dead writers are not taken over yet: %s", table.name, failure, extra=about)


def end_writer(table: DynamicTable, writer: str) -> Snapshot | None:
    """Decides the writer's open epoch as empty, heals the log to that, seals; returns the resulting snapshot.

    Called for a query that has stopped for good or restarts with a new checkpoint. From then on the old query is
    refused (Fenced). None if it was ended before. Raises NotFound for an unknown writer, Unavailable.
    """
    epochs = waiting_epochs(table)
    known = epochs.state.writers
    if writer not in epochs.newest() and writer not in table.registered.writers():
        names = ", ".join(sorted({*epochs.newest(), *table.registered.writers()})) or "none"
        raise NotFound(f"table {table.name} has no writer '{writer}'; its writers: {names}")
    if writer in known and known[writer].ended:
        seal_staged(table)
        return None
    while True:
        epoch = waiting_epochs(table).newest().get(writer, -1) + 1
        committer = Committer(table, writer, ended=True)
        record = committer.commit(epoch, [])
        if record is None or record.ended:
            break  # else the live writer has just decided this epoch
    committer.append_abort(epoch)  # before the seal, which counts it
    return seal(committer)
