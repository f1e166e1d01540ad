"""The driver's side of an epoch: decide, heal, seal (RFC 2). One committer per table and writer in a process."""

from __future__ import annotations

import contextlib
import os
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import orjson

from lakelog.errors import Fenced
from lakelog.io.clock import now_ms
from lakelog.io.metrics import METER
from lakelog.logstore.base import LogLocation, LogReader
from lakelog.logstore.clients import appender_for, reader_for
from lakelog.logstore.control import abort_record, commit_record
from lakelog.logstore.formats import log_format
from lakelog.logstore.healer import heal
from lakelog.logstore.healing import Healing
from lakelog.options.log import CONCURRENT_WRITERS, DATA_FORMAT
from lakelog.options.metrics import BYTES_WRITTEN, EPOCHS_DECIDED, ROWS_WRITTEN
from lakelog.table.attempt import AttemptResult
from lakelog.table.catch_up import note_catch_up
from lakelog.table.dynamic_table import DynamicTable
from lakelog.table.epoch_record import EpochRecord
from lakelog.table.log_state import FOLLOWER, LogState, WriterState, newest_state
from lakelog.table.lookup import committed_values, logged_values
from lakelog.table.staged import BatchMark
from lakelog.table.streaming_run import StreamingRun, check_alone


@dataclass
class _Position:
    """What this process knows of the log: healed up to ``verified`` after ``epoch``; ``extra`` own entries came
    after.

    ``decided`` is the newest epoch that was decided then, later than ``epoch`` when the query has started again before
    its last one: rows of it, too, may lie below ``verified``.
    """

    epoch: int
    verified: dict[int, int]
    extra: dict[int, int] = field(default_factory=dict)
    decided: int = -1


def register_writer(table: DynamicTable, writer: str, batch: BatchMark | None = None) -> dict[int, int]:
    """Remembers, once per writer, the end of the log before its first record; returns it (bucket → offset).

    Called before the first append of a writer, by a task or by the driver; healing never looks before this point.
    ``batch``: it is a batch writer, whose rows are taken back when it is gone (``gone_writers``).
    """
    if table.log is None:
        return {}
    table.check_identity()
    if batch is not None:
        table.staged.mark_batch(writer, batch)
    path = table.staged.origin_path(writer)
    ends = reader_for(table.log).end_offsets()
    if table.io.create(path, orjson.dumps({str(b): o for b, o in ends.items()})):
        return ends
    return table.staged.origin(writer)


def register_follower(table: DynamicTable) -> None:
    """Remembers, once, that the table gets rows of nobody: where the log begins, for they may lie anywhere in it.

    Called before the first of them may be written, and when a follower begins; until its first snapshot union reads
    and ``latest-full`` know by it that such rows are in no file.
    """
    if table.log is not None:
        firsts = reader_for(table.log).first_offsets()
        table.io.create(table.staged.origin_path(FOLLOWER), orjson.dumps({str(b): o for b, o in firsts.items()}))


class Committer:
    """Commits the epochs of one writer, one after the other.

    Every step is durable by itself and may be repeated: a crash after any of them is repaired by the next call
    for the same or a later epoch, in this process or another.
    """

    def __init__(self, table: DynamicTable, writer: str, once: bool = False, ended: bool = False) -> None:
        self.table, self.writer, self.once, self.ended = table, writer, once, ended
        self.lock = threading.RLock()
        self.owes = False  # the control records of an epoch that is sealed
        self.run: StreamingRun | None = None
        self._state = LogState()
        self._known: _Position | None = None

    def commit(self, epoch: int, results: Sequence[AttemptResult]) -> EpochRecord | None:
        """Decides an epoch and heals the log to the decision.

        1 already decided → take that decision · 2 create the epoch record if absent · 3 heal every bucket. Returns the
        decision, None when the epoch is sealed already. Raises Unavailable, CommitUnknown, Fenced, TableReplaced.
        """
        with self.lock:
            # 1 already decided?
            record = made = None
            if self._stale(epoch):
                sealed = self._sealed()
                self._check_not_ended(sealed)
                if sealed is not None and epoch <= sealed.epoch:
                    self._heal_behind(sealed)
                    return None
                record = self.table.staged.read(self.writer, epoch)
            # 2 decide
            if record is None:
                position = self._position(epoch)
                made = EpochRecord(self.writer, epoch, now_ms(), tuple(results), position.verified)
                self.table.check_identity()
                record = self.table.staged.decide(made)
                sealed = self._sealed()
                if sealed is not None and (sealed.ended or epoch <= sealed.epoch):
                    # another driver had decided, sealed and forgotten it: what was created now decides nothing
                    self.table.staged.forget(self.writer, [epoch])
                    self._check_not_ended(sealed)
                    self._heal_behind(sealed)
                    return None
                if record is made:
                    self._count_epoch(record)
            # 3 heal
            if self.table.emits_log and self.table.log is not None:
                self._heal_decided(record, self.table.log, made is None)
            else:
                self._known = _Position(epoch, dict(record.since))
            note_catch_up(self.table, record)
            return record

    def begin_run(self, run_id: str) -> None:
        """Says which run of a streaming query commits from now on; looks at the other writers when it is a new one."""
        if self.run is not None and self.run.id == run_id:
            return
        staged = {w: max(self.table.staged.epochs(w), default=-1) for w in self.table.staged.writers()}
        state = newest_state(self.table.store)[1]
        known = state.writers.get(self.writer)
        if known is not None and known.run is not None and known.run.id == run_id:
            self.run = known.run  # Spark commits in another process than before
            return
        met = {o.name: max(o.epoch, staged.pop(o.name, -1)) for o in state.streaming_beside(self.writer)}
        met |= {w: epoch for w, epoch in staged.items() if w != self.writer and epoch >= 0}
        self.run = StreamingRun(run_id, now_ms(), met)

    def check_alone(self) -> None:
        """Raises InvalidRequest when an earlier streaming query writes this table with a key, too (``check_alone``)."""
        table = self.table
        if self.run is not None and table.schema.is_keyed and not table.options.need(CONCURRENT_WRITERS):
            check_alone(table.name, self.writer, self.run, self._state.streaming_beside(self.writer))

    def verified(self) -> WriterState | None:
        """The last epoch that is decided and healed, with its offsets; what a seal may take."""
        with self.lock:
            if self._known is None:
                return None
            newest = max(self._known.epoch, self._known.decided)
            return WriterState(newest, dict(self._known.verified), now_ms())

    def appended(self) -> Mapping[int, int]:
        """Bucket → the control records that this process has appended behind what ``verified`` says."""
        with self.lock:
            return {} if self._known is None else dict(self._known.extra)

    def tells(self, records: Sequence[EpochRecord]) -> Mapping[int, int]:
        """Bucket → the control records that ``append_commit`` of these will append."""
        if self.table.log is None:
            return {}
        return Counter(b for r in records for b in {p.bucket for a in r.attempts for p in a.appends})

    def append_commit(self, records: Sequence[EpochRecord]) -> None:
        """Appends the ``commit`` control records of sealed epochs, of any writer, to the buckets that they touched.

        Called before the epoch records are forgotten: whoever finds one of a sealed epoch appends its control records,
        again perhaps, which does no harm. Transactional readers wait for them. Returns when the log has them all.
        Raises Unavailable.
        """
        log = self.table.log
        if log is None or not any(a.appends for r in records for a in r.attempts):
            return
        with self.lock:
            appender = appender_for(log)
            appended: dict[int, int] = {}
            for record in records:
                for bucket in sorted({p.bucket for a in record.attempts for p in a.appends}):
                    firsts = {
                        a.attempt: p.first_offset for a in record.attempts for p in a.appends if p.bucket == bucket
                    }
                    control = commit_record(record.writer, record.epoch, sorted(firsts), min(firsts.values()))
                    entries = appender.append(bucket, control).entries
                    appended[bucket] = appended.get(bucket, 0) + entries
            appender.flush()
            self._count(appended)

    def append_abort(self, epoch: int) -> None:
        """Appends, to every bucket, that an epoch was taken back. Called when the log is healed to that."""
        log = self.table.log
        if log is None or not self.table.emits_log:
            return
        with self.lock:
            appender = appender_for(log)
            buckets = reader_for(log).end_offsets()
            appended = {bucket: appender.append(bucket, abort_record(self.writer, epoch)).entries for bucket in buckets}
            appender.flush()
            self._count(appended)

    def _count_epoch(self, record: EpochRecord) -> None:
        """Counts what an epoch that was decided here brings; the log's rows count from now on."""
        table = self.table.name
        METER.add(EPOCHS_DECIDED, table=table)
        logged = [a for a in record.attempts if a.appends]
        METER.add(ROWS_WRITTEN, sum(a.row_count for a in logged), table=table, store="log")
        METER.add(BYTES_WRITTEN, sum(a.log_bytes for a in logged), table=table, store="log")

    def _count(self, appended: Mapping[int, int]) -> None:
        """Knows of control records behind what is verified."""
        if self._known is not None:
            for bucket, count in appended.items():
                self._known.extra[bucket] = self._known.extra.get(bucket, 0) + count

    def _stale(self, epoch: int) -> bool:
        return self._known is None or self._known.epoch != epoch - 1

    def _check_not_ended(self, sealed: WriterState | None) -> None:
        if sealed is not None and sealed.ended:
            raise Fenced(
                f"writer {self.writer} of table {self.table.name} was ended (end_writer, or a batch write was taken "
                f"for dead after 'log.writer-timeout'): start the query with a new checkpointLocation, or "
                f"the batch again"
            )

    def _sealed(self) -> WriterState | None:
        self._state = newest_state(self.table.store)[1]
        return self._state.writers.get(self.writer)

    def _position(self, epoch: int) -> _Position:
        """Where healing starts: known from the last epoch, else from the newest record, snapshot or the origin."""
        if self._known is not None and self._known.epoch == epoch - 1:
            return self._known
        _, state = newest_state(self.table.store)
        sealed = state.writers.get(self.writer)
        records = self.table.staged.records(self.writer, after=-1 if sealed is None else sealed.epoch)
        if records:
            return _Position(records[-1].epoch, dict(records[-1].since))
        if sealed is not None:
            return _Position(sealed.epoch, dict(sealed.verified))
        return _Position(-1, register_writer(self.table, self.writer) if self.table.emits_log else {})

    def _heal_behind(self, sealed: WriterState) -> None:
        """Takes back what a replay of a sealed epoch has appended before it was told so.

        Rows of a later epoch in the log mean that somebody is further; its own healing sees these rows, too.
        """
        if self.table.emits_log and self.table.log is not None:
            with contextlib.suppress(Fenced):
                self._heal(EpochRecord(self.writer, sealed.epoch, sealed.time_ms, (), sealed.verified), self.table.log)

    def _heal_decided(self, record: EpochRecord, log: LogLocation, is_replay: bool) -> None:
        """Heals to a decision; one of before need not be: what lies open behind it is healed with the next epoch.

        Else a query that is started again before its last epoch, with an older checkpoint, and whose later attempts
        died, would find itself replaced by them for ever. Nothing is verified, so nothing of it is sealed yet.
        """
        try:
            self._heal(record, log)
        except Fenced:
            if not is_replay:
                raise
            self._known = None

    def _heal(self, record: EpochRecord, log: LogLocation) -> None:
        known = self._known if self._known is not None and self._known.epoch == record.epoch - 1 else None
        accepted = self._accepted(record, known is None)  # before the snapshot is looked at: a seal removes records
        starts = self._starts(record, known)
        reader, appender = reader_for(log), appender_for(log)
        verified: dict[int, int] = {}
        for bucket, end in reader.end_offsets().items():
            start = starts.get(bucket, 0)
            # nothing to read when the log grew by just what this process knows of, since a point that it verified
            if known is not None and record.since.get(bucket, 0) == known.verified.get(bucket, 0):
                extra = known.extra.get(bucket, 0)
                if reader.entries(bucket, start, end) == record.entries_appended(bucket) + extra:
                    verified[bucket] = end
                    continue
            verified[bucket] = heal(reader, appender, bucket, start, self._healing(accepted, reader, bucket, start))
        self._known = _Position(record.epoch, verified, decided=max(accepted))

    def _healing(self, accepted: Mapping[int, frozenset[str]], reader: LogReader, bucket: int, start: int) -> Healing:
        form = log_format(self.table.options.need(DATA_FORMAT))

        def lookup(keys: Sequence[bytes]) -> Mapping[bytes, bytes | None]:
            if self.table.emits_files:
                return committed_values(self.table, keys)
            return logged_values(reader, form, bucket, start, keys)

        return Healing(
            writer=self.writer,
            accepted=accepted,
            table=self.table.name,
            mode=self.table.changelog_mode,
            keyed=bool(self.table.schema.primary_keys),
            format=form,
            lookup=lookup,
        )

    def _starts(self, record: EpochRecord, known: _Position | None) -> dict[int, int]:
        """Where healing starts per bucket: below it all epochs before this one are verified, by whoever knows most.

        A decision that another driver made may have an older ``since``; rows of earlier epochs behind it count.
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

    def _accepted(self, record: EpochRecord, look_back: bool) -> Mapping[int, frozenset[str]]:
        accepted = {record.epoch: record.accepted}
        if look_back:
            accepted |= {r.epoch: r.accepted for r in self.table.staged.records(self.writer)}
        return accepted


_COMMITTERS: dict[tuple[int, str, str], Committer] = {}
_COMMITTERS_LOCK = threading.Lock()


def committer_for(table: DynamicTable, writer: str) -> Committer:
    """The committer of a streaming writer in this process; kept, so that a quiet epoch reads nothing."""
    with _COMMITTERS_LOCK:
        key = (os.getpid(), table.identity.key, writer)
        found = _COMMITTERS.get(key)
        if found is None:
            found = _COMMITTERS[key] = Committer(table, writer)
        found.table = table
        return found
