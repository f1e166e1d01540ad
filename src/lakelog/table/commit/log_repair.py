"""Makes a writer's records in the log match its decisions, bucket by bucket (RFC 2, step 3; RFC 11)."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from lakelog.errors import Fenced, NotFound
from lakelog.io.clock import now_ms
from lakelog.logstore.base import LogLocation, LogReader
from lakelog.logstore.clients import appender_for, reader_for
from lakelog.logstore.encoding.record_format import LogFormat
from lakelog.logstore.protocol.control_records import commits_in
from lakelog.logstore.protocol.header import LOG_ONLY, Header, decode_header
from lakelog.logstore.protocol.healer import Healed, heal
from lakelog.logstore.protocol.healing_plan import Counted, Healing, Later, LoggedChange
from lakelog.table.commit.late_rows import LateRowSearch, forget_writer, register_late_writers
from lakelog.table.log.record_schemas import RecordSchemas
from lakelog.table.model.attempt import AttemptResult
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.model.epoch_record import EpochRecord
from lakelog.table.model.log_state import WriterState
from lakelog.table.model.registrations import BATCH
from lakelog.table.model.waiting_epochs import waiting_epochs
from lakelog.table.read.committed_rows import CommittedRows


@dataclass
class HealedPosition:
    """The known state of the log: healed up to ``verified`` after ``epoch``; ``extra`` own entries follow.

    ``decided`` is the newest epoch decided at that time. It is later than ``epoch`` if the query has restarted before
    its last epoch; then rows of it may also be stored below ``verified``. ``counted`` are the ends of the judged
    regions that are higher than ``verified``. ``corrected``: the log has corrections of the writer's records.
    """

    epoch: int
    verified: dict[int, int]
    extra: dict[int, int] = field(default_factory=dict)
    decided: int = -1
    counted: Mapping[int, int] = field(default_factory=dict)
    corrected: bool = False

    @staticmethod
    def after(epoch: int, healed: Mapping[int, Healed], decided: int, corrected: bool = False) -> HealedPosition:
        """The position after a healing of the whole log; ``corrected`` is that of the position before."""
        counted = {b: done.counted for b, done in healed.items() if done.counted > done.verified}
        verified = {b: done.verified for b, done in healed.items()}
        corrected |= any(done.corrected for done in healed.values())
        return HealedPosition(epoch, verified, decided=decided, counted=counted, corrected=corrected)

    @staticmethod
    def of_seal(state: WriterState | None) -> HealedPosition:
        """The position in a snapshot's state of the writer, None if it has none."""
        if state is None:
            return HealedPosition(-1, {})
        return HealedPosition(state.epoch, dict(state.verified), counted=state.counted, corrected=state.corrected)

    def to_state(self, epoch: int) -> WriterState:
        """The state of the writer for a seal of its epochs up to ``epoch``."""
        return WriterState(epoch, dict(self.verified), now_ms(), counted=self.counted, corrected=self.corrected)

    def counted_from(self, bucket: int, start: int) -> Counted:
        """The corrections at or after ``start`` that are judged already: none unless it is the verified offset."""
        return Counted(self.counted.get(bucket, 0) if self.verified.get(bucket) == start else 0, self.epoch)


@dataclass(frozen=True)
class TakenBack:
    """The result of a take-back: the offsets below which no open row counts, and the open epoch if it had rows."""

    verified: Mapping[int, int]
    epoch: int | None = None


@dataclass(frozen=True)
class LogRepair:
    """The repair of one writer's records: ``accepted`` are its decided attempts by epoch.

    ``later`` sets the handling of records of undecided epochs. ``was_taken_over`` is as in ``Healing``, except in a
    bucket whose region starts at a verified offset. ``search`` is where the search for late rows of others waits for a
    seal; without it, the healing ends with it.
    """

    table: DynamicTable
    log: LogLocation
    writer: str
    accepted: Mapping[int, frozenset[str]]
    later: Later = Later.FENCED
    was_taken_over: bool = False
    search: LateRowSearch | None = None

    def repair(
        self, bucket: int, start: int, late: frozenset[bytes] = frozenset(), judged: HealedPosition | None = None
    ) -> Healed:
        """Heals a bucket from an offset. Raises Unavailable, Fenced.

        ``late`` are keys with a -U that may follow the insertion that replaces it (``late_keys``). ``judged`` is a
        position of an earlier healing, of a seal or of this process.
        """
        healing = self._healing(bucket, start, late)
        if judged is not None:
            taken_over = self._is_unverified(judged, bucket, start)
            healing = replace(healing, counted=judged.counted_from(bucket, start), was_taken_over=taken_over)
        return heal(reader_for(self.log), appender_for(self.log), bucket, start, healing)

    def _is_unverified(self, judged: HealedPosition, bucket: int, start: int) -> bool:
        """True if corrections of records before ``start`` are not judged, because another process may have made them.

        Below a verified offset, the count of each record is right. A later correction of one is surplus: its healer was
        suspended before the append. An origin says less: late rows may have registered the writer again, and
        corrections of the first take-over may follow that origin.
        """
        return self.was_taken_over and judged.verified.get(bucket) != start

    def _healing(self, bucket: int, start: int, late: frozenset[bytes]) -> Healing:
        table, reader = self.table, reader_for(self.log)
        form, committed = table.record_format, CommittedRows(table)

        def lookup(keys: Sequence[bytes]) -> Mapping[bytes, bytes | None]:
            if table.emits_files:
                return committed.values(keys)
            return logged_values(reader, form, bucket, start, keys, committed)

        return Healing(
            writer=self.writer,
            accepted=self.accepted,
            table=table.name,
            mode=table.changelog_mode,
            keyed=table.schema.is_keyed,
            format=form,
            lookup=lookup,
            is_open=_is_open(table),
            later=self.later,
            own_first=not table.emits_files,
            late=late,
            schema=RecordSchemas(table).own_id,
            translate=committed.translate,
            was_taken_over=self.was_taken_over,
            watch=partial(
                register_late_writers if self.search is None else self.search.add, table, bucket, healed=self.writer
            ),
            # a process that was suspended may have read the decisions and files of the next table of this name
            confirm=table.check_identity,
        )


def starts_without_rows(table: DynamicTable, record: EpochRecord, ends: Mapping[int, int]) -> Mapping[int, int]:
    """The start of healing for an epoch that was decided without a position in the log, as one of files only.

    Its writer has rows in the log from its origin on, or none if it has never registered.
    """
    if any(attempt.appends for attempt in record.attempts):
        return {}
    with contextlib.suppress(NotFound):
        return table.registered.origin(record.writer)
    return ends


def marked_attempts(log: LogLocation, writer: str, starts: Mapping[int, int]) -> dict[int, frozenset[str]]:
    """The attempts by epoch that have commit markers after these offsets, of a writer that no state knows.

    It has closed, and a task that was suspended in its registration has registered it again, with the end of the log
    before its rows.
    """
    out: dict[int, frozenset[str]] = {}
    reader = reader_for(log)
    firsts = reader.first_offsets()
    for bucket, end in reader.end_offsets().items():
        for records in reader.chunks(bucket, max(firsts[bucket], starts.get(bucket, 0)), end):
            for commit in commits_in(records):
                if commit.writer == writer:
                    out[commit.epoch] = out.get(commit.epoch, frozenset()).union(commit.attempts)
    return out


def was_forgotten(table: DynamicTable, writer: str, results: Sequence[AttemptResult]) -> bool:
    """True if a batch writer was forgotten after it appended these rows.

    If a later task has registered it again, rows of earlier tasks precede its origin. Raises Unavailable.
    """
    try:
        origin = table.registered.origin(writer)
    except NotFound:
        return True
    return any(part.first_offset < origin.get(part.bucket, 0) for r in results for part in r.appends)


def writer_ended(table: DynamicTable, writer: str) -> Fenced:
    """The error for a writer that another process has ended, before its decision."""
    return Fenced(
        f"writer {writer} of table {table.name} was ended (end_writer, or its lease expired after "
        f"'log.writer-timeout'), and none of these rows are in the table: start the query with a new "
        f"checkpointLocation, or start the batch or the statement again"
    )


def take_back_late(table: DynamicTable, writer: str, epoch: int, results: Sequence[AttemptResult]) -> None:
    """Takes back the rows of a forgotten batch writer, some of them after offsets that others have verified.

    The writer is registered for the duration, so that another process takes over if this one ends. If a later task has
    registered it again, all its rows after that origin are taken back, too. Raises Unavailable, Fenced.
    """
    if table.log is None:
        return
    origin: Mapping[int, int] = {}
    with contextlib.suppress(NotFound):
        origin = table.registered.origin(writer)
    firsts = dict(origin)
    for part in (p for r in results for p in r.appends):
        firsts[part.bucket] = min(part.first_offset, firsts.get(part.bucket, part.first_offset))
    if origin:
        table.registered.lower(writer, firsts)
    else:
        table.registered.register(writer, firsts, BATCH)
    table.registered.keep(writer, BATCH, table.lease_ms)
    repair = LogRepair(table, table.log, writer, {epoch: frozenset()}, Later.REFUSED, was_taken_over=True)
    ends = {bucket: repair.repair(bucket, first).verified for bucket, first in firsts.items()}
    table.registered.drop(writer)
    forget_writer(table, writer, ends)


def _is_open(table: DynamicTable) -> Callable[[Header], bool]:
    """Returns a predicate for records of other writers, true if their epoch is undecided or must be taken back.

    The first call reads the writers, after the decision that is healed. Earlier epochs of the chain are known by then.
    Log-only records, and records without a writer, have the order of the log.
    """
    newest: dict[str, int] = {}
    at_work: set[str] = set()

    def is_open(header: Header) -> bool:
        if not header.writer or header.attempt.startswith(LOG_ONLY):
            return True
        if not at_work:
            newest.update(waiting_epochs(table).newest())
            at_work.update(["", *(name for name, r in table.registered.all().items() if r.is_open)])
        return header.writer in at_work and header.epoch > newest.get(header.writer, -1)

    return is_open


_READ_ROWS = 100_000
"""Number of log changes read at a time."""


def logged_values(
    reader: LogReader, form: LogFormat, bucket: int, end: int, keys: Sequence[bytes], committed: CommittedRows
) -> dict[bytes, bytes | None]:
    """The newest log value of each key below an offset, for log-only writes (``emit.mode`` = log).

    Reads the bucket from its start, so it is called only during healing. Keys and values have the newest columns.
    """
    out: dict[bytes, bytes | None] = dict.fromkeys(keys)
    names = pa.array([name for key in keys for name in committed.former_keys(key)], pa.large_binary())
    for records in reader.chunks(bucket, reader.first_offsets([bucket])[bucket], end, form.records_of(_READ_ROWS)):
        is_packed = pc.and_(pc.is_null(records.column("key")), pc.is_valid(records.column("value")))
        chosen = records.filter(pc.or_(pc.is_in(records.column("key"), names), is_packed))
        changes = [
            LoggedChange(*change, decode_header(header, -1).schema)
            for key, value, header in zip(
                *(chosen.column(n).to_pylist() for n in ("key", "value", "header")), strict=True
            )
            for change in form.split(key, value)
        ]
        out.update((c.key, c.value) for c in committed.in_columns(changes) if c.key in out)
    return out
