"""Turns decided epochs into one snapshot (RFC 2, step 4)."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from lakelog.errors import NotFound
from lakelog.filestore.commit.lost_race import LostRace, pause_after_loss
from lakelog.io.logs import fields
from lakelog.io.metrics import METER
from lakelog.io.names import new_uuid
from lakelog.logstore.protocol.header import LOG_ONLY
from lakelog.options.metrics import SEAL_DURATION, SEALS
from lakelog.paimon.metadata.snapshot import Snapshot
from lakelog.table.commit.committer import Committer
from lakelog.table.commit.file_commit import FileCommit
from lakelog.table.commit.markers import append_markers
from lakelog.table.commit.replacement import append_missing_changes
from lakelog.table.commit.sealed_state import sealed_state
from lakelog.table.maintenance.publish import publish_best_effort
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.model.epoch_record import EpochRecord
from lakelog.table.model.log_state import LogState, MarkerCounts, WriterState, newest_state, state_at
from lakelog.table.model.registrations import REPLACEMENT
from lakelog.table.model.waiting_epochs import WaitingEpochs, sealed_elsewhere, waiting_epochs
from lakelog.table.rejected.entries import RejectedEntries

_LOG = logging.getLogger("lakelog.seal")
_ELSEWHERE: Final = "another process has sealed some of its epochs"


def seal(committer: Committer) -> Snapshot | None:
    """Makes one snapshot of the epochs that are decided, healed and not sealed; None if there is none.

    These are the epochs of all writers, which are healed here: in a table with a key a prefix of the chain, without a
    key those in all lanes. 1 list the waiting epochs · 2 heal those of others, and search all records that were read
    for late rows · 3 write the rows as level-0 files · 4 commit them with their entries of rejected rows, unless
    another process has sealed any of them · 5 append the ``commit`` control records, after those that older snapshots
    lack · 6 delete the epoch records. After a crash at any point, the next seal of any writer repairs it.
    """
    with committer.lock:
        state, appended = committer.verified(), committer.appended()
    if state is None:
        return None
    table, writer = committer.table, committer.writer
    for attempt in itertools.count():
        # 1
        epochs = waiting_epochs(table)
        records = _sealable(committer, epochs, state.epoch)
        if _seal_late(committer, epochs, records):
            continue
        if not any(r.writer == writer for r in records):
            committer.search.run(table)
            append_markers(committer, epochs.sealed, (), epochs.state)
            return None
        # 2
        states = {writer: replace(state, once=committer.once)}
        for other in {r.writer: r for r in records if r.writer != writer}.values():
            helper = Committer(table.whole, other.writer, helps=True)
            helper.search = committer.search
            states[other.writer] = helper.verify(other)
        committer.search.add_between(table, epochs, records)
        committer.search.run(table)
        try:
            with METER.step("seal", table=table.name, writer=writer, epoch=state.epoch) as span:
                # 3, 4
                snapshot = _commit(committer, epochs, records, states, appended)
                span.set(snapshot=snapshot.id)
        except LostRace:
            pause_after_loss(attempt)
            continue
        except NotFound:
            # The seal of another process has deleted large runs after it assigned their rows to dynamic buckets.
            now = state_at(table.store, table.store.latest_snapshot())
            if not any(now.holds(record) for record in records):
                raise
            continue
        _count(table, records, snapshot, span.seconds)
        # 5, 6
        after = state_at(table.store, snapshot)
        committer.know(after)
        passed = [record for record in epochs.void if record.number <= after.chain]
        append_markers(committer, [*epochs.sealed, *passed], records, after)
        publish_best_effort(table)
        return snapshot
    return None


def _sealable(committer: Committer, epochs: WaitingEpochs, newest: int) -> list[EpochRecord]:
    """The waiting epochs that one snapshot may have: those up to ``newest`` of the own writer, and others before it.

    Not those that know a later log than this process: the process cannot heal it. If some epochs were decided without
    the log that the table has (``_seal_late``), only these.
    """
    writer, log = committer.writer, committer.table.log_generation
    records = itertools.takewhile(lambda r: r.writer != writer or r.epoch <= newest, epochs.waiting)
    mine = [*itertools.takewhile(lambda r: r.log <= log, records)]
    return [r for r in mine if r.log < epochs.state.log] or mine


def _seal_late(committer: Committer, epochs: WaitingEpochs, records: Sequence[EpochRecord]) -> bool:
    """Seals the epochs whose drivers did not know yet that the table without a key has another log, or none.

    They are acknowledged, so they go into a snapshot of their own, whose rows the log lacks. False if there are none of
    other writers alone; the caller then seals its own.
    """
    if not records or records[0].log >= epochs.state.log or any(r.writer == committer.writer for r in records):
        return False
    last = records[-1]
    helper = Committer(committer.table.whole, last.writer, once=last.once, helps=True)
    helper.verify(last)
    return seal(helper) is not None


def _count(table: DynamicTable, records: Sequence[EpochRecord], snapshot: Snapshot, seconds: float) -> None:
    METER.add(SEALS, table=table.name)
    METER.observe(SEAL_DURATION, seconds, table=table.name)
    last, rows = records[-1], sum(record.row_count for record in records)
    about = fields(table=table.name, snapshot=snapshot.id, writer=last.writer, epoch=last.epoch, rows=rows)
    _LOG.info(
        "table %s: snapshot %d has %d epochs, %d rows, in %.3f s",
        table.name, snapshot.id, len(records), rows, seconds, extra={**about, "duration_s": round(seconds, 4)},
    )  # fmt: skip


def seal_staged(table: DynamicTable) -> list[Snapshot]:
    """Seals all decided epochs of every writer, and appends missing control records.

    Called before a write that must follow all decided epochs, and after streams have stopped. Raises Unavailable.
    """
    if not table.decided.all():
        append_missing_changes(table)
        return []
    table = table.whole
    if any(r.log > table.log_generation for r in waiting_epochs(table).waiting):
        table = table.with_newest_schema()  # the log was added meanwhile, and has to have these rows
    epochs, snapshots, sealers = waiting_epochs(table), list[Snapshot](), set[str]()
    waiting = epochs.waiting
    while waiting:  # one seal takes them all, unless another process seals the last and had not seen those before
        last = waiting[-1]
        sealers.add(last.writer)
        committer = Committer(table, last.writer, once=last.once, helps=True)
        committer.verify(last)
        snapshots += [snapshot for snapshot in (seal(committer),) if snapshot is not None]
        state = newest_state(table.store)[1]
        waiting = tuple(record for record in waiting[:-1] if not state.holds(record))
    for writer in sorted({r.writer for r in epochs.sealed} - sealers):
        append_markers(Committer(table, writer), epochs.sealed, (), epochs.state)
    return snapshots


def seal_decided(table: DynamicTable) -> None:
    """Seals every epoch that is decided now, so that the caller's write follows them. Raises Unavailable."""
    decided = {(r.writer, r.epoch) for r in waiting_epochs(table).waiting}
    for attempt in itertools.count():
        if decided.isdisjoint((r.writer, r.epoch) for r in waiting_epochs(table).waiting):
            return
        pause_after_loss(attempt)
        seal_staged(table)


def named_snapshot(table: DynamicTable, snapshot_id: int | None) -> int | None:
    """The snapshot that a tag or a branch names: this one, or the newest, which then has all commits."""
    if snapshot_id is None:
        seal_decided(table)
    return table.store.snapshots.latest_id() if snapshot_id is None else snapshot_id


def _check_waiting(
    table: DynamicTable, latest: Snapshot | None, state: LogState, records: Sequence[EpochRecord]
) -> None:
    """Raises LostRace if a snapshot has one of the epochs, which would then be in two."""
    try:
        if any(state.holds(r) or sealed_elsewhere(table, latest, r) is not None for r in records):
            raise LostRace(_ELSEWHERE)
    except NotFound:
        raise LostRace(_ELSEWHERE) from None


def log_only_from(records: Sequence[EpochRecord]) -> dict[int, int]:
    """Bucket → the log offset of the first row of these epochs that is in no file."""
    out: dict[int, int] = {}
    for attempt in (a for r in records for a in r.attempts if a.attempt.startswith(LOG_ONLY)):
        for part in attempt.appends:
            out[part.bucket] = min(part.first_offset, out.get(part.bucket, part.first_offset))
    return out


def _commit(
    committer: Committer,
    epochs: WaitingEpochs,
    records: Sequence[EpochRecord],
    states: Mapping[str, WriterState],
    appended: Mapping[int, int],
) -> Snapshot:
    table, log_only, rejected = committer.table, log_only_from(records), RejectedEntries(committer.table)
    markers = MarkerCounts(appended, committer.expected_markers(records))  # missing ones may be appended already

    def properties(latest: Snapshot | None) -> Mapping[str, str]:
        state = state_at(table.store, latest)
        _check_waiting(table, latest, state, records)
        number, is_late = 1 if latest is None else latest.id + 1, records[0].log < state.log
        if is_late != (records[0].log < epochs.state.log):
            raise LostRace("the log of the table was added or removed")
        state = state.with_log(max(r.log for r in records))
        for writer, verified in sorted(states.items(), key=lambda item: item[0] == committer.writer):  # own state last
            own = [r for r in records if r.writer == writer]
            known = state.writers.get(writer)
            sealed = sealed_state(verified, own, [r for r in epochs.sealed if r.writer == writer], known, number)
            is_own = writer == committer.writer
            state = state.with_writer(writer, sealed, log_only, markers if is_own else MarkerCounts())
        state = replace(state, chain=max([state.chain, *(r.number for r in records)]))
        state = rejected.following(state, records)
        if is_late and table.with_newest_schema().has_input_log:
            state = state.with_missing(f"{REPLACEMENT}{new_uuid()}", number)
        at_work = {*table.registered.writers(), *(r.writer for r in (*records, *epochs.sealed))}
        return state.without_finished(at_work).to_properties()

    snapshot = FileCommit(table, records, properties, keeps_runs=True, allow_empty=True).run(epochs.snapshot)
    assert snapshot is not None
    return snapshot
