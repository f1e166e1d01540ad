"""The driver's side of an epoch: decide, heal (RFC 2, RFC 11). One committer per table and writer in a process."""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from lakelog.errors import Fenced, NotFound, after_decision
from lakelog.io.clock import now_ms
from lakelog.io.metrics import METER
from lakelog.logstore.base import LogLocation
from lakelog.logstore.clients import appender_for, reader_for
from lakelog.logstore.protocol.control_records import abort_record, commit_record
from lakelog.logstore.protocol.healer import Healed
from lakelog.logstore.protocol.healing_plan import Later
from lakelog.options.log import CONCURRENT_WRITERS
from lakelog.options.metrics import BYTES_WRITTEN, EPOCHS_DECIDED, ROWS_REJECTED, ROWS_WRITTEN
from lakelog.table.commit.late_rows import LateRowSearch, forget_writer
from lakelog.table.commit.log_repair import (
    HealedPosition,
    LogRepair,
    TakenBack,
    marked_attempts,
    starts_without_rows,
    take_back_late,
    was_forgotten,
    writer_ended,
)
from lakelog.table.commit.replay import SealedRows, check_rows, warn_of_older
from lakelog.table.log.register import register_writer
from lakelog.table.model.attempt import AttemptResult
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.model.epoch_record import EpochRecord
from lakelog.table.model.log_state import LogState, WriterState, newest_state
from lakelog.table.model.registrations import BATCH, STREAM
from lakelog.table.model.single_writer import StreamingRun, check_alone
from lakelog.table.model.waiting_epochs import WaitingEpochs, sealed_elsewhere, waiting_epochs
from lakelog.table.staging.backfill import note_catch_up
from lakelog.table.staging.late_retractions import late_keys


def count_epoch(table: DynamicTable, record: EpochRecord) -> None:
    """Counts an epoch that this process has decided; from then on its rows in the log count."""
    METER.add(EPOCHS_DECIDED, table=table.name)
    METER.add(ROWS_REJECTED, record.rejected_count, table=table.name)
    METER.add(ROWS_WRITTEN, sum(a.written for a in record.attempts if a.appends), table=table.name, store="log")
    METER.add(BYTES_WRITTEN, sum(a.log_bytes for a in record.attempts), table=table.name, store="log")


class Committer:
    """Commits the epochs of one writer, one after the other.

    Every step is durable and idempotent. After a crash at any step, the next call for the same or a later epoch repairs
    it, in this process or another. ``once`` marks a batch writer. ``ended`` makes the commit the last of the writer.
    ``helps`` means that the writer may be active in another process; then only ``verify`` is called. ``origin`` is the
    registered origin, if this process has registered the writer. ``state`` is that of the newest snapshot read so far,
    ``tip`` the last known link of the chain.
    """

    def __init__(
        self, table: DynamicTable, writer: str, once: bool = False, ended: bool = False, helps: bool = False
    ) -> None:
        self.table, self.writer, self.once, self.ended, self._helps = table, writer, once, ended, helps
        self.lock = threading.RLock()
        self.lacks_markers = False  # control records of a sealed epoch are missing
        self.run: StreamingRun | None = None
        self.origin: Mapping[int, int] | None = None
        self.state, self.search, self.tip = LogState(), LateRowSearch(), 0
        self._later_log = 0  # the newest generation of the log that a decided epoch before the next one knows
        self._known: HealedPosition | None = None
        self._decided: dict[int, EpochRecord] = {}
        self._sealed_rows = SealedRows(table.store, writer)
        self._has_appended = False  # batch writer: its rows start at its origin, or it is forgotten

    def commit(self, epoch: int, results: Sequence[AttemptResult]) -> EpochRecord | None:
        """Decides an epoch and heals the log to the decision.

        1 already decided → take that decision · 2 create the epoch record if absent · 3 heal every bucket. Returns the
        decision, None if the epoch is sealed already. Raises Unavailable, CommitUnknown, Fenced (also after step 3, for
        a decision with other rows), TableReplaced.
        """
        with self.lock:
            # 1 already decided?
            record, is_made, is_left_out = None, False, any(r.replay for r in results)
            epochs = self._read_epochs() if is_left_out or self._stale(epoch) else None
            if epochs is not None:
                sealed = self.state.writers.get(self.writer)
                record = self._end_of(epoch, sealed, results)
                warn_of_older(self.table, self.writer, epoch, epochs.newest().get(self.writer, -1))
                if record is None and sealed is not None and epoch <= sealed.epoch:
                    self._heal_replay(sealed)
                    self._check_same(epoch, None, results)
                    return None
                record = record or epochs.find(self.writer, epoch)
                if record is None and is_left_out:  # a later epoch is decided, but not this one
                    self._check_same(epoch, EpochRecord(self.writer, epoch, 0, ()), results)
            # 2 decide
            self.search.run(self.table)  # the process that seals this epoch reads no earlier record again
            if record is None:
                record, is_made = self._decide(epoch, results, epochs)
            if record is None:
                self._check_same(epoch, None, results)
                return None
            if is_made:
                count_epoch(self.table, record)
            # 3 heal
            if self.table.emits_log and self.table.log is not None:
                with after_decision(self.table.name) if self.once and is_made else contextlib.nullcontext():
                    self._heal_decided(record, self.table.log, is_replay=not is_made)
            else:
                self._known = HealedPosition(epoch, dict(record.since))
            note_catch_up(self.table, record)
            if record.ended and not self.ended and (results or not self.once):
                raise writer_ended(self.table, self.writer)
            self._check_same(epoch, record, results)
            return record

    def verify(self, record: EpochRecord) -> WriterState:
        """Heals the log to an epoch that another process has decided, without touching later epochs of the writer.

        Called before a seal that includes this epoch. Raises Unavailable.
        """
        with self.lock:
            if self.table.emits_log and self.table.log is not None:
                self._read_epochs()
                self._heal(record, self.table.log)
            else:
                self._known = HealedPosition(record.epoch, dict(record.since))
            assert self._known is not None
            return self._known.to_state(record.epoch)

    def _decide(
        self, epoch: int, results: Sequence[AttemptResult], epochs: WaitingEpochs | None
    ) -> tuple[EpochRecord | None, bool]:
        """The valid decision, and whether it was made here; None if a snapshot already has another decision.

        ``epochs`` are those that this commit has read, None if it did not need to.
        """
        self._check_log()
        if self.once and not self.ended and any(r.appends or r.replays for r in results):
            self._check_registered(epoch, results)
        position = self._position(epoch, epochs)
        while True:
            self._check_log()
            proposal = EpochRecord(
                self.writer, epoch, now_ms(), tuple(results), position.verified, self.once, self.ended, self.run
            )
            self.table.check_identity()
            record, is_made = self.table.decided.decide(proposal, self.tip)
            self.tip = max(self.tip, record.number)
            sealed = self._sealed(record)
            is_ended = sealed is not None and sealed.ended and not self.ended and epoch >= sealed.epoch
            if sealed is not None and (is_ended or epoch <= sealed.epoch):
                if not is_ended and record.digest == sealed.digest_of(epoch):
                    return record, is_made  # another process has sealed it already
                # Another driver has decided, sealed and forgotten it, so the new record decides nothing.
                if is_made and record.number <= self.state.chain:
                    self.table.decided.forget([record])
                if (end := self._end_of(epoch, sealed, results)) is not None:
                    return end, False
                self._heal_replay(sealed)
                return None, False
            if not 0 < record.number <= self.state.chain:
                return record, is_made
            # The record reuses the name of a sealed and forgotten link, so it decides nothing.
            self.table.decided.forget([record])
            if (earlier := self._read_epochs().find(self.writer, epoch)) is not None:
                return earlier, False

    def _check_log(self) -> None:
        """Raises CommitConflict if what this process has read last knows a later log (RFC 27)."""
        self.table.decided.check_log(max(self.state.log, self._later_log))

    def begin_run(self, run_id: str) -> None:
        """Sets the run of the query that commits from now on; reads the state of other writers for a new one."""
        if self.run is None or self.run.id != run_id:
            staged = self.table.decided.newest()
            self.run = newest_state(self.table.store)[1].run_of(self.writer, run_id, staged)

    def check_alone(self) -> None:
        """Raises InvalidRequest if an earlier streaming query also writes this keyed table (``check_alone``)."""
        table = self.table
        if self.run is not None and table.schema.is_keyed and not table.options.need(CONCURRENT_WRITERS):
            check_alone(table.name, self.writer, self.run, self.state.other_streaming(self.writer))

    def verified(self) -> WriterState | None:
        """The last decided and healed epoch, with its offsets; a seal may include it."""
        with self.lock:
            if self._known is None:
                return None
            return self._known.to_state(max(self._known.epoch, self._known.decided))

    def appended(self) -> Mapping[int, int]:
        """Bucket → the control records that this process has appended after the offsets of ``verified``."""
        return {} if self._known is None else dict(self._known.extra)

    def expected_markers(self, records: Sequence[EpochRecord]) -> Mapping[int, int]:
        """Bucket → the number of control records that ``append_commit`` will append for these epochs."""
        if self.table.whole.log is None:
            return {}
        return Counter(bucket for record in records for bucket in record.buckets)

    def append_commit(self, records: Sequence[EpochRecord]) -> None:
        """Appends the ``commit`` control records of sealed epochs, of any writer, to the buckets that they touched.

        Called before the epoch records are deleted. Any process that finds the record of a sealed epoch appends its
        control records; duplicates do no harm. Transactional readers wait for them. Returns after the log has them all.
        Raises Unavailable.
        """
        log = self.table.whole.log  # even if this use writes no log: it seals decisions of others
        if log is None or not any(record.buckets for record in records):
            return
        with self.lock:
            appender = appender_for(log)
            appended: Counter[int] = Counter()
            for record in records:
                for bucket in sorted(record.buckets):
                    firsts = {
                        a.attempt: p.first_offset for a in record.attempts for p in a.appends if p.bucket == bucket
                    }
                    control = commit_record(record.writer, record.epoch, sorted(firsts), min(firsts.values()))
                    appended[bucket] += appender.append(bucket, control).entries
            appender.flush()
            self._count(appended)

    def append_abort(self, epoch: int) -> None:
        """Appends an abort record for an epoch to every bucket. Called after the log is healed to that decision."""
        log = self.table.log
        if log is None or not self.table.emits_log:
            return
        with self.lock:
            appender = appender_for(log)
            buckets = reader_for(log).end_offsets()
            appended = {bucket: appender.append(bucket, abort_record(self.writer, epoch)).entries for bucket in buckets}
            appender.flush()
            self._count(appended)

    def _count(self, appended: Mapping[int, int]) -> None:
        """Records control records appended after the verified offsets."""
        if self._known is not None:
            for bucket, count in appended.items():
                self._known.extra[bucket] = self._known.extra.get(bucket, 0) + count

    def _stale(self, epoch: int) -> bool:
        """True if the epoch may be decided already, so that the records must be read."""
        return self._known is None or self._known.epoch != epoch - 1 or epoch in self._decided

    def _end_of(self, epoch: int, sealed: WriterState | None, results: Sequence[AttemptResult]) -> EpochRecord | None:
        """The decision about an epoch of a writer that another process has ended, None if none has.

        Raises Fenced, except for a batch writer that only takes back its rows. One with rows takes them back before.
        """
        if sealed is None or not sealed.ended or self.ended or epoch < sealed.epoch:
            return None
        if self.once and any(r.appends for r in results):
            take_back_late(self.table, self.writer, epoch, results)
        if results or not self.once:
            raise writer_ended(self.table, self.writer)
        return EpochRecord(self.writer, epoch, sealed.time_ms, (), sealed.verified, once=True, ended=True)

    def _check_same(self, epoch: int, decided: EpochRecord | None, results: Sequence[AttemptResult]) -> None:
        """Raises Fenced if the decision (None: the sealed one) has other rows than these.

        A batch writer will not write its rows again. For a streaming query only the number of rows is compared.
        """
        sent = EpochRecord(self.writer, epoch, 0, tuple(results))
        if self.once:
            if not sent.accepted:
                return
            if decided is None:
                self.table.check_identity()  # else the state may be that of another table, which knows no such writer
            digest = self.state.writers[self.writer].digest_of(epoch) if decided is None else decided.digest
            if digest != sent.digest:
                raise writer_ended(self.table, self.writer)
        elif results:
            rows = self._sealed_rows.of(epoch, self.state) if decided is None else decided.row_count
            check_rows(self.table, self.writer, epoch, rows, sent.row_count)

    def _check_registered(self, epoch: int, results: Sequence[AttemptResult]) -> None:
        """Takes back the late rows of a forgotten batch writer and raises Fenced.

        The writer was forgotten because it was considered dead.
        """
        self._has_appended = True
        if was_forgotten(self.table, self.writer, results):
            take_back_late(self.table, self.writer, epoch, results)
            raise writer_ended(self.table, self.writer)

    def _read_epochs(self) -> WaitingEpochs:
        epochs = waiting_epochs(self.table, self.writer)
        self.know(epochs.state, epochs.tip)
        self._later_log = max((r.log for r in epochs.waiting), default=0)
        self._decided = {r.epoch: r for r in epochs.waiting if r.writer == self.writer}
        return epochs

    def know(self, state: LogState, tip: int = 0) -> None:
        """Takes over the newest state and the last link that were read: no decision reads what is before them."""
        self.state, self.tip = state, max(self.tip, state.chain, tip)

    def _sealed(self, record: EpochRecord | None = None) -> WriterState | None:
        """The writer's sealed state, or for a record of a forgotten writer that of the snapshot that has its epoch."""
        snapshot, self.state = newest_state(self.table.store)
        known = self.state.writers.get(self.writer)
        if known is not None or record is None:
            return known
        try:
            return sealed_elsewhere(self.table, snapshot, record)
        except NotFound:  # another process has sealed and forgotten it, and the snapshot has expired
            return WriterState(record.epoch, {}, record.time_ms, once=True, digest=record.digest)

    def _position(self, epoch: int, epochs: WaitingEpochs | None = None) -> HealedPosition:
        """The start of healing: from the last epoch, else from the newest record, snapshot or the origin."""
        if self._known is not None and self._known.epoch == epoch - 1:
            return self._known
        waiting = (epochs or self._read_epochs()).waiting
        own = [HealedPosition(r.epoch, dict(r.since)) for r in waiting if r.writer == self.writer]
        position = own[-1] if own else HealedPosition.of_seal(self.state.writers.get(self.writer))
        needs_origin = not position.verified and self.table.emits_log and not self.ended  # also after epochs of files
        return replace(position, verified=self._origin()) if needs_origin else position

    def _origin(self) -> dict[int, int]:
        if self.origin is not None:  # may be forgotten by now, if the writer was considered dead
            return dict(self.origin)
        if self._helps:  # a helper must not register a forgotten writer again
            return self.table.registered.origin(self.writer)
        with contextlib.suppress(NotFound):
            return self.table.registered.origin(self.writer)
        if self._has_appended:
            raise writer_ended(self.table, self.writer)
        return register_writer(self.table, self.writer, BATCH if self.once else STREAM)

    def _heal_replay(self, sealed: WriterState) -> None:
        """Takes back the rows that a replay of a sealed epoch has appended before it was recognised.

        If the log has rows of a later epoch, another process is ahead, and its own healing sees these rows, too.
        """
        if self.table.emits_log and self.table.log is not None:
            with contextlib.suppress(Fenced):
                self._heal(EpochRecord(self.writer, sealed.epoch, sealed.time_ms, (), sealed.verified), self.table.log)

    def _heal_decided(self, record: EpochRecord, log: LogLocation, is_replay: bool) -> None:
        """Heals to a decision; a replayed decision may fail, because the next epoch heals the open rows after it.

        Otherwise a query could stay fenced, if it restarts before its last epoch from an older checkpoint and
        its later attempts died. Nothing is verified in that case, so none of it is sealed yet.
        """
        try:
            self._heal(record, log)
        except Fenced:
            if not is_replay:
                raise
            self._known = None

    def _heal(self, record: EpochRecord, log: LogLocation) -> None:
        known = self._known if self._known is not None and self._known.epoch == record.epoch - 1 else None
        records = {record.epoch: record} | (self._decided if known is None else {})
        reader, ends = reader_for(log), reader_for(log).end_offsets()
        starts = self._starts(record, known) or starts_without_rows(self.table, record, ends)
        judged = HealedPosition.of_seal(self.state.writers.get(self.writer)) if known is None else known
        later = Later.FENCED
        if self._helps:
            records, later = {epoch: r for epoch, r in records.items() if epoch <= record.epoch}, Later.OPEN
        accepted = {epoch: r.accepted for epoch, r in records.items()}
        late = late_keys(self.table, records.values())
        search = self.search if record.attempts else None  # an epoch without rows is not always sealed
        repair = LogRepair(self.table, log, self.writer, accepted, later, search=search)
        healed: dict[int, Healed] = {}
        for bucket, end in ends.items():
            start = starts.get(bucket, 0)
            # Skip the read if the log has grown only by this writer's records since a verified offset.
            if record.since.get(bucket, 0) == start and bucket not in late:
                extra = 0 if known is None else known.extra.get(bucket, 0)
                if reader.entries(bucket, start, end) == record.entries_appended(bucket) + extra:
                    healed[bucket] = Healed(end, end)
                    continue
            healed[bucket] = repair.repair(bucket, start, late.get(bucket, frozenset()), judged)
        before = -1 if known is None else known.decided
        corrected = judged.corrected or (self._known is not None and self._known.corrected)
        self._known = HealedPosition.after(record.epoch, healed, max(before, *accepted), corrected)

    def _starts(self, record: EpochRecord, known: HealedPosition | None) -> dict[int, int]:
        """The start of healing per bucket, the highest known offset below which all earlier epochs are verified.

        A decision of another driver may have an older ``since``; rows of earlier epochs after it count.
        """
        starts = dict(record.since)
        later: list[Mapping[int, int]] = [] if known is None else [known.verified]
        if known is None:
            sealed = self._sealed()
            later += [] if sealed is None else [sealed.verified]
        for verified in later:
            for bucket, offset in verified.items():
                starts[bucket] = max(starts.get(bucket, 0), offset)
        return starts

    def take_back(self) -> TakenBack:
        """Takes the writer's undecided records back without deciding their epoch.

        Called for a dead writer. A streaming query that returns sends these rows again or decides them, and heals to
        that decision. Raises NotFound if another process has forgotten the writer in the meantime, Unavailable.
        """
        log = self.table.log
        if log is None or not self.table.emits_log:
            return TakenBack({})
        with self.lock:
            while True:
                epochs = self._read_epochs()
                newest = epochs.newest().get(self.writer, -1)
                accepted = {epoch: r.accepted for epoch, r in self._decided.items()}
                starts, sealed = self._position(newest + 1).verified, self.state.writers.get(self.writer)
                judged = HealedPosition.of_seal(sealed)
                is_closed = False
                if not any(epoch > (-1 if sealed is None else sealed.epoch) for epoch in accepted):
                    accepted = {newest: frozenset()} if newest >= 0 else marked_attempts(log, self.writer, starts)
                    is_closed = newest < 0 and bool(accepted)
                repair = LogRepair(self.table, log, self.writer, accepted, Later.REFUSED, was_taken_over=True)
                ends = reader_for(log).end_offsets()
                at = {b: max(starts.get(b, 0), judged.verified.get(b, 0)) for b in ends}
                healed = {b: repair.repair(b, start, judged=judged) for b, start in at.items()}
                if self._read_epochs().newest().get(self.writer, -1) == newest:
                    # a writer that has closed is in no state, and its epochs did not begin with the first one
                    last = max((done.newest for done in healed.values()), default=newest)
                    verified = {bucket: done.verified for bucket, done in healed.items()}
                    return TakenBack(verified, last if last > newest and not is_closed else None)
                # else the writer has resumed and decided: heal to that

    def forget(self) -> None:
        """Deletes the files of the writer. Called once its epochs are sealed or taken back, with their markers."""
        known = self._known if self.table.emits_log else None
        offsets, entries = ({}, {}) if known is None else (known.verified, known.extra)
        forget_writer(self.table, self.writer, offsets, entries)
