"""A consistent view of the log, its writers and the newest snapshot, for reads that join the two stores."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from lakelog.errors import InvalidRequest, NotFound, OffsetExpired
from lakelog.logstore.clients import reader_for
from lakelog.options.log import EMIT_MODE, EXPIRED_OFFSETS
from lakelog.paimon.metadata.snapshot import Snapshot
from lakelog.table.log.committed_reader import only_control_records_expired
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.model.epoch_record import EpochRecord
from lakelog.table.model.log_state import FOLLOWER, LogState, forgotten_since
from lakelog.table.model.registrations import BATCH, STREAM, Registration
from lakelog.table.model.waiting_epochs import waiting_epochs

_ATTEMPTS = 3
_MAX_READS = 10
MOST_LAG = 1_000_000
"""Maximum lag to count, because a log whose offsets have gaps is read for it."""


@dataclass(frozen=True)
class WriterProgress:
    """A writer that may be active: its newest decided and its newest sealed epoch, -1 for none.

    ``settled`` and ``sealed_up_to`` are offsets by bucket: all its records below belong to epochs up to the decided, or
    up to the sealed one. ``since_ms`` is the time of its newest decision, or of its registration. ``is_alive`` means
    that its lease has not expired; ``is_dead`` that it has, and its open rows are not taken back yet.
    """

    decided: int
    sealed: int
    settled: Mapping[int, int]
    sealed_up_to: Mapping[int, int]
    since_ms: int
    is_batch: bool = False
    is_alive: bool = True
    is_dead: bool = False


@dataclass(frozen=True)
class LogView:
    """The result of ``capture``. ``epochs`` are decided and not in the snapshot; offsets are by bucket.

    ``state`` also has the writers that were sealed and have closed during the capture.
    """

    snapshot: Snapshot | None
    state: LogState
    epochs: tuple[EpochRecord, ...]
    writers: Mapping[str, WriterProgress]
    firsts: Mapping[int, int]
    ends: Mapping[int, int]
    unowned: Mapping[int, int]
    """Offsets from which rows without a writer (*log first*) are in no file, because no follower has processed them."""

    def starts(self, offsets: Iterable[Mapping[int, int]]) -> dict[int, int]:
        """The smallest offset of each bucket, including log-only rows, but not before the first offset of the log."""
        out: dict[int, int] = {}
        for one in (self.state.log_only, self.unowned, *offsets):
            for bucket, offset in one.items():
                out[bucket] = min(offset, out.get(bucket, offset))
        return {b: min(max(o, self.firsts.get(b, 0)), self.ends.get(b, 0)) for b, o in out.items()}


def capture(table: DynamicTable) -> LogView:
    """Reads the ends of the log, then writers and their decisions, then the snapshot, in this order.

    So each writer of a record in the log is found active, or it has finished, and its rows are in the snapshot or taken
    back. If there is a dead writer and the log has grown in the meantime, a take-over may have restored values
    older than the snapshot's. Then it reads everything again. Raises InvalidRequest for a table without a log,
    Unavailable, NotFound if expiry was faster each time.
    """
    for _ in range(_MAX_READS):
        view = _read_before_expiry(table)
        is_one_moment = not any(w.is_dead for w in view.writers.values())
        if is_one_moment or table.log is None or reader_for(table.log).end_offsets() == view.ends:
            break
    return view


def _read_before_expiry(table: DynamicTable) -> LogView:
    """Reads again if expiry deletes the snapshot meanwhile. Raises as ``capture``."""
    for _ in range(_ATTEMPTS):
        with contextlib.suppress(NotFound):
            return _read_once(table)
    return _read_once(table)


def _read_once(table: DynamicTable) -> LogView:
    if table.log is None:
        raise InvalidRequest(f"table {table.name} has no log: read its files ('read.mode'='file')")
    reader, before = reader_for(table.log), table.store.latest_snapshot()
    ends, firsts = reader.end_offsets(), reader.first_offsets()
    registered = table.registered.all()
    epochs = waiting_epochs(table)
    for record in epochs.waiting:  # its writer was taken for dead and forgotten while it decided
        if record.since:
            kind = BATCH if record.once else STREAM
            registered.setdefault(record.writer, Registration(record.time_ms, kind, settled={}))
    state = epochs.state
    state = replace(state, writers={**forgotten_since(table.store, before, epochs.snapshot), **state.writers})
    if table.publishes:  # the log has nothing that the files lack
        state = replace(state, offsets=ends)
    writers: dict[str, WriterProgress] = {}
    for writer, registration in registered.items():
        records = [r for r in epochs.waiting if r.writer == writer]
        if writer in state.writers or records or registration.is_open or writer == FOLLOWER:
            writers[writer] = _view(table, writer, registration, records, state)
    unowned = _unowned(table, state, writers, firsts)
    return LogView(epochs.snapshot, state, epochs.waiting, writers, firsts, ends, unowned)


def _unowned(
    table: DynamicTable, state: LogState, writers: Mapping[str, WriterProgress], firsts: Mapping[int, int]
) -> Mapping[int, int]:
    """The start of writerless rows that no file has; empty for a table without a follower that is not log first."""
    if FOLLOWER in state.writers:
        return state.writers[FOLLOWER].verified
    if FOLLOWER in writers:
        return writers[FOLLOWER].settled
    return firsts if table.options.need(EMIT_MODE) == "log" else {}


def _view(
    table: DynamicTable, writer: str, found: Registration, own: list[EpochRecord], state: LogState
) -> WriterProgress:
    known, sealed = state.writers.get(writer), state.sealed_epoch(writer)
    up_to: Mapping[int, int] = known.verified if known is not None else {}
    up_to = up_to or (own[0].since if own else {}) or table.registered.origin(writer)
    settled_by_lease = {} if own else found.settled or {}  # rows of epochs without a snapshot are stored below it
    up_to = {bucket: max(offset, settled_by_lease.get(bucket, 0)) for bucket, offset in up_to.items()}
    since = own[-1].since if own else {}
    settled = {bucket: max(offset, since.get(bucket, 0)) for bucket, offset in up_to.items()}
    decided = max([sealed, *(r.epoch for r in own)])
    times = [found.time_ms, *(r.time_ms for r in own), *([known.time_ms] if known is not None else [])]
    is_batch = found.is_batch or (known is not None and known.once)
    alive = found.is_alive
    is_dead = writer != FOLLOWER and not alive and found.is_open
    return WriterProgress(decided, sealed, settled, up_to, max(times), is_batch, alive or writer == FOLLOWER, is_dead)


def check_not_expired(table: DynamicTable, log_view: LogView, offsets: Iterable[Mapping[int, int]]) -> None:
    """Raises OffsetExpired if records after these offsets have expired that may be rows of no snapshot.

    Does nothing if ``scan.expired-offsets`` sets a fallback.
    """
    if table.options.need(EXPIRED_OFFSETS) != "error":
        return
    known = [(b, max(o, log_view.state.offsets.get(b, 0))) for one in offsets for b, o in one.items()]
    for bucket, seen in [*known, *log_view.unowned.items()]:
        first = log_view.firsts.get(bucket, 0)
        if seen < first and not only_control_records_expired(table, log_view.state, bucket, seen):
            raise OffsetExpired(
                f"bucket {bucket} of the log of table {table.name} starts at offset {first}, but the newest snapshot "
                f"covers it only up to {seen}: the rows in between have expired. Keep the log longer "
                f"('log-store.retention'), or read the remaining rows with '{EXPIRED_OFFSETS.key}'='earliest'"
            )
