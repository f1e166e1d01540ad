"""The log state in a snapshot: per writer the last epoch and verified offsets, per bucket the next offset.

It is stored in the snapshot's ``properties`` (format sheet, 2). Snapshots of other engines do not inherit the map. The
reader finds the newest state by walking back, and each commit of lakelog writes it again.
"""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import orjson
from cachetools import LRUCache, cached

from lakelog.errors import Corrupt, NotFound
from lakelog.filestore.store import FileStore
from lakelog.io.clock import now_ms
from lakelog.paimon.metadata.snapshot import Snapshot
from lakelog.paimon.types.checked_values import checked, parsing
from lakelog.paimon.types.json_record import OPTIONAL, JsonRecord, int_keys, stored_as, text_keys
from lakelog.table.model.epoch_record import EpochRecord
from lakelog.table.model.registrations import REPLACEMENT
from lakelog.table.model.single_writer import OtherWriter, StreamingRun

_ATTEMPTS = 20
FOLLOWER: Final = "follower"
"""The writer that makes files from rows without a writer; its verified offsets are its progress."""
COPY_AGAIN: Final = "copy"
"""The position of a source whose next copy replaces the rows of its table."""
_WRITERS = "lakelog.writers"
_OFFSETS = "lakelog.log-offsets"
_LOG_ONLY = "lakelog.log-only"
_MARKERS = "lakelog.log-told"
_CHAIN = "lakelog.chain"
_REJECTED = "lakelog.rejected"
_AHEAD = "lakelog.log-ahead"
_MISSING = "lakelog.log-missing"
_LOG = "lakelog.log-generation"
_REJECTED_LIST: Final = re.compile(r"\d{13}-\d{1,12}-[0-9a-f-]{36}\.json")
_MOST_HELD_BYTES: Final = 8 << 20
"""Bytes of parsed states that a process keeps."""
KEPT_STREAMS: Final = 1_000
"""Number of streaming writers in a state: those that have sealed last. An earlier one is forgotten."""
KEPT_BATCHES: Final = 100
"""The same for batch writers that have ended and that a suspended process may still ask for."""
KEPT_EPOCHS: Final = 100
"""Number of sealed epochs of a streaming writer whose row counts a state keeps. Spark keeps as many in a checkpoint."""


@dataclass(frozen=True)
class WriterState(JsonRecord):
    """The last sealed epoch of a writer, and the log offset per bucket up to which it is healed.

    ``once`` marks a batch writer, which has one epoch only; ``ended`` one that must not resume. ``unmarked`` are the
    sealed epochs whose ``commit`` control records may still be missing, with the digests of their decisions.
    ``sealed_in`` is the id of the first snapshot with each of them, the order of their markers (absent in a state that
    an early version wrote). ``run`` is the run of a streaming query that sealed last, ``digest`` that of the decision
    about the last epoch. ``rows`` are the row counts of a streaming writer's last epochs without a gap, at most
    ``KEPT_EPOCHS``. The last one is that of ``epoch`` (empty in a state that an earlier version wrote). ``counted`` is
    the end of the healed region per bucket where it is higher than ``verified``, because records of later epochs lie
    between: corrections in between may name records before ``verified``. ``position`` is that of the writer's source
    after the last epoch, in the writer's own form; "" for a writer that has none. ``undone`` means that a rollback has
    taken rows of that source out of the table since; it stays until the source is copied again (``COPY_AGAIN``).
    ``corrected`` means that the log has
    corrections of its records: a suspended healer may append one of them again. ``number`` is the id of the snapshot
    that sealed its last epoch, 0 if an earlier version wrote it.
    """

    epoch: int
    verified: Mapping[int, int]
    time_ms: int = field(metadata=stored_as("time"))
    once: bool = False
    ended: bool = field(default=False, metadata=OPTIONAL)
    unmarked: Mapping[int, str] = field(default_factory=dict, metadata=stored_as("telling", optional=True))
    sealed_in: Mapping[int, int] = field(default_factory=dict, metadata=OPTIONAL)
    run: StreamingRun | None = field(default=None, metadata=OPTIONAL)
    digest: str = field(default="", metadata=OPTIONAL)
    rows: tuple[int, ...] = field(default=(), metadata=OPTIONAL)
    counted: Mapping[int, int] = field(default_factory=dict, metadata=OPTIONAL)
    position: str = field(default="", metadata=OPTIONAL)
    undone: bool = field(default=False, metadata=OPTIONAL)
    corrected: bool = field(default=False, metadata=OPTIONAL)
    number: int = field(default=0, metadata=OPTIONAL)

    def without_log(self) -> WriterState:
        """The same epochs without their places in a log, which is no longer that of the table."""
        return replace(self, verified={}, counted={}, unmarked={}, sealed_in={}, corrected=False)

    def digest_of(self, epoch: int) -> str:
        """The digest of the decision about a sealed epoch, "" if the state has not kept it."""
        return self.digest if epoch == self.epoch else self.unmarked.get(epoch, "")

    def rows_of(self, epoch: int) -> int | None:
        """The row count of a sealed epoch, 0 if it was never decided; None if the state has not kept it."""
        at = len(self.rows) - 1 - (self.epoch - epoch)
        return self.rows[at] if 0 <= at < len(self.rows) else None


@dataclass(frozen=True)
class MarkerCounts:
    """Control records by bucket: ``appended`` after the verified offsets before a seal, ``coming`` from the seal."""

    appended: Mapping[int, int] = field(default_factory=dict)
    coming: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True)
class LogState:
    """Writers by id, and the log offset per bucket that the snapshot's rows correspond to.

    ``log_only`` is the offset of the first log-only row, per bucket that has any. ``markers`` is the number of
    control records after the offset of a bucket once all sealed epochs have markers; never too high. ``chain`` is the
    last link of a keyed table's chain in the snapshot, 0 for none. ``rejected`` are the names of the lists of rejected
    rows (RFC 16). ``ahead`` is the offset per bucket below which the log has rows that a rollback of the files alone
    has taken out of them. ``missing`` are the snapshots whose changes are not in the log yet, by the writer of
    these changes (RFC 21). ``log`` is the generation of the log that begins, or has ended, with an earlier snapshot
    or this one (RFC 27).
    """

    writers: Mapping[str, WriterState] = field(default_factory=dict)
    offsets: Mapping[int, int] = field(default_factory=dict)
    log_only: Mapping[int, int] = field(default_factory=dict)
    markers: Mapping[int, int] = field(default_factory=dict)
    chain: int = 0
    rejected: tuple[str, ...] = ()
    ahead: Mapping[int, int] = field(default_factory=dict)
    missing: Mapping[str, int] = field(default_factory=dict)
    log: int = 0

    def with_log(self, generation: int) -> LogState:
        """The state of the first snapshot with this generation of the log: it has all rows, and the new log none."""
        if generation <= self.log:
            return self
        there = {name: writer.without_log() for name, writer in self.writers.items() if name != FOLLOWER}
        return LogState(there, chain=self.chain, rejected=self.rejected, log=generation)

    def with_missing(self, writer: str, snapshot: int) -> LogState:
        """The state of a snapshot that replaces files; ``writer`` will append its changes to the log.

        The files have the rows of that writer already, so readers of this snapshot skip them.
        """
        sealed = WriterState(0, {}, now_ms(), once=True, number=snapshot)
        return replace(self, writers={**self.writers, writer: sealed}, missing={**self.missing, writer: snapshot})

    def without_missing(self, writer: str) -> LogState:
        """The state once the log has the changes of a writer."""
        return replace(self, missing={name: number for name, number in self.missing.items() if name != writer})

    def with_writer(
        self,
        writer: str,
        state: WriterState,
        log_only: Mapping[int, int] | None = None,
        counts: MarkerCounts | None = None,
    ) -> LogState:
        """The state after a seal by this writer, of epochs whose rows are only in the log from ``log_only`` on.

        Offsets never decrease. ``counts`` are the control records of the seal.
        """
        offsets, markers, counts = dict(self.offsets), dict(self.markers), counts or MarkerCounts()
        for bucket, offset in state.verified.items():
            if offset > offsets.get(bucket, -1):  # markers of others may be on either side of it
                offsets[bucket], markers[bucket] = offset, counts.appended.get(bucket, 0)
        for bucket, count in counts.coming.items():
            markers[bucket] = markers.get(bucket, 0) + count
        known = {bucket: count for bucket, count in markers.items() if count}
        writers = {**self.writers, writer: state}
        log_only = {**(log_only or {}), **self.log_only}
        return replace(self, writers=writers, offsets=offsets, log_only=log_only, markers=known)

    def holds(self, record: EpochRecord) -> bool:
        """True if the snapshot contains the record's epoch or a decision that replaces the record."""
        return record.epoch <= self.sealed_epoch(record.writer) or 0 < record.number <= self.chain

    def without_finished(self, at_work: Collection[str]) -> LogState:
        """The state without batch writers that have closed, and without the oldest of those that stay for others.

        ``at_work`` are the writers with a registration or records, listed after this state was read. No clock decides:
        a closed writer has nothing to commit or to mark. Whoever still holds a record of it, because it was suspended,
        finds it in an earlier snapshot (``sealed_before``). These stay, the ones that have sealed last: streaming
        writers, which resume; batch writers that another process has ended, that have corrections in the log
        (``late_rows``), or whose epochs have no offsets; those of missing changes, which several processes append.
        """
        kept, streams, batches = set[str](), list[str](), list[str]()
        for writer, state in self.writers.items():
            if writer == FOLLOWER or writer in self.missing or state.position:  # it would write the same rows again
                kept.add(writer)
            elif not state.once:
                streams.append(writer)
            elif writer in at_work:
                kept.add(writer)
            elif state.ended or state.corrected or not state.verified or writer.startswith(REPLACEMENT):
                batches.append(writer)

        def order(writer: str) -> tuple[int, int]:
            return self.writers[writer].number, self.writers[writer].time_ms

        for names, most in ((streams, KEPT_STREAMS), (batches, KEPT_BATCHES)):
            kept.update(sorted(names, key=order)[-most:])
        return replace(self, writers={w: s for w, s in self.writers.items() if w in kept})

    def sealed_epoch(self, writer: str) -> int:
        """The last epoch of the writer that is in a snapshot, -1 if there is none."""
        state = self.writers.get(writer)
        return -1 if state is None else state.epoch

    def other_streaming(self, writer: str) -> list[OtherWriter]:
        """The other streaming writers that have not ended."""
        return [
            OtherWriter(name, state.epoch, state.time_ms, state.run)
            for name, state in self.writers.items()
            if name != writer and not state.ended and state.run is not None
        ]

    def run_of(self, writer: str, run_id: str, staged: Mapping[str, int]) -> StreamingRun:
        """The run of a query that commits from now on; ``staged`` are the newest decided epochs of all writers."""
        known = self.writers.get(writer)
        if known is not None and known.run is not None and known.run.id == run_id:
            return known.run  # Spark now commits in another process
        met = {name: epoch for name, epoch in staged.items() if name != writer and epoch >= 0}
        for other in self.other_streaming(writer):
            met[other.name] = max(other.epoch, met.get(other.name, -1))
        return StreamingRun(run_id, now_ms(), met)

    def to_properties(self) -> dict[str, str]:
        """The entries of the snapshot's ``properties``."""
        writers = {writer: state.to_values() for writer, state in self.writers.items()}
        out = {_WRITERS: orjson.dumps(writers).decode(), _OFFSETS: orjson.dumps(text_keys(self.offsets)).decode()}
        more = {_LOG_ONLY: self.log_only, _MARKERS: self.markers, _AHEAD: self.ahead}
        out |= {key: orjson.dumps(text_keys(values)).decode() for key, values in more.items() if values}
        out |= {_CHAIN: str(self.chain)} if self.chain else {}
        out |= {_MISSING: orjson.dumps(self.missing).decode()} if self.missing else {}
        out |= {_LOG: str(self.log)} if self.log else {}
        return out | ({_REJECTED: " ".join(self.rejected)} if self.rejected else {})


def state_of(snapshot: Snapshot) -> LogState | None:
    """The state in one snapshot, None if another engine wrote it."""
    with parsing(f"snapshot {snapshot.id}"):
        return state_from(snapshot.properties or {})


def state_from(properties: Mapping[str, str]) -> LogState | None:
    """The reverse of ``to_properties``; None without a state."""
    if _WRITERS not in properties:
        return None
    maps = (properties.get(key, "{}") for key in (_OFFSETS, _LOG_ONLY, _MARKERS, _AHEAD, _MISSING))
    numbers = properties.get(_CHAIN, "0"), properties.get(_LOG, "0")
    return _parse(properties[_WRITERS], *numbers, properties.get(_REJECTED, ""), *maps)


def _held_bytes(state: LogState) -> int:
    """About the memory of a state and of its text."""
    return 2_000 + 1_000 * len(state.writers)


# each commit reads the newest state, which only a seal changes
@cached(LRUCache(_MOST_HELD_BYTES, getsizeof=_held_bytes), lock=threading.Lock(), info=True)
def _parse(writers: str, chain: str, log: str, rejected: str, *maps: str) -> LogState:
    states = {writer: WriterState.from_values(values) for writer, values in orjson.loads(writers).items()}
    *by_bucket, missing = (orjson.loads(text) for text in maps)
    offsets, log_only, markers, ahead = map(int_keys, by_bucket)
    lists = tuple(rejected.split())
    wrong = [name for name in lists if not _REJECTED_LIST.fullmatch(name)]
    if wrong:
        raise Corrupt(f"{wrong[0][:100]!r} is not the name of a list of rejected rows")
    return checked(LogState(states, offsets, log_only, markers, int(chain), lists, ahead, missing, int(log)))


def state_at(store: FileStore, snapshot: Snapshot | None) -> LogState:
    """The newest state at or before a snapshot; empty if there is none.

    Raises NotFound if the snapshot is no longer the newest and its state has expired. The caller then restarts with the
    newest snapshot, whose state expiry keeps.
    """
    oldest = snapshot
    for before in store.snapshots.backwards(snapshot) if snapshot is not None else ():
        state = state_of(before)
        if state is not None:
            return state
        oldest = before
    if snapshot is not None and oldest is not None and oldest.id > 1 and store.snapshots.latest_id() != snapshot.id:
        raise _expired(store, snapshot)
    return LogState()


def forgotten_since(store: FileStore, before: Snapshot | None, snapshot: Snapshot | None) -> dict[str, WriterState]:
    """The writers in the states of all snapshots from one to another, each with its newest state.

    A read that begins after ``before``, and ends with ``snapshot``, knows by them the writers that have closed
    meanwhile. Raises NotFound if one of the states has expired.
    """
    out: dict[str, WriterState] = {}
    first = 0 if before is None else before.id
    if snapshot is None or snapshot.id <= first:
        return out
    for older in store.snapshots.backwards(snapshot):
        state = state_of(older)
        out = {**({} if state is None else state.writers), **out}
        if older.id == 1 or (state is not None and older.id <= first):
            return out
    raise _expired(store, snapshot)


def sealed_before(store: FileStore, snapshot: Snapshot | None, record: EpochRecord) -> WriterState | None:
    """The state of a batch writer in the snapshot that sealed an epoch, if the newest state has forgotten the writer.

    A process may have read or decided the epoch before it was suspended. The snapshot that seals an epoch covers the
    log beyond its rows, as do all later ones, so the search ends at the first one that does not. Usually that is the
    newest one. None if no snapshot has the epoch. Raises NotFound if a snapshot that may have it has expired.
    """
    parts = [part for attempt in record.attempts for part in attempt.appends]
    starts = {part.bucket: part.first_offset for part in parts} or record.since
    if snapshot is None or not record.once or not starts:
        return None
    for older in store.snapshots.backwards(snapshot):
        state = state_of(older)
        if state is not None:
            covered = [state.offsets.get(bucket, 0) > offset for bucket, offset in starts.items()]
            if not (all(covered) if parts else any(covered)):
                return None
            if (known := state.writers.get(record.writer)) is not None:
                return known if known.epoch >= record.epoch else None
        if older.id == 1:
            return None
    raise _expired(store, snapshot)


def _expired(store: FileStore, snapshot: Snapshot) -> NotFound:
    return NotFound(f"a state before snapshot {snapshot.id} of table {store.paths.table} has expired; read it again")


def carried_state(store: FileStore, latest: Snapshot | None) -> dict[str, str]:
    """The log state that a commit other than a seal copies, so that expiry never deletes it.

    The commit copies an empty state too. The next commit need not search for it, and expiry need not keep the last
    snapshot that has one.
    """
    return state_at(store, latest).to_properties()


def newest_state(store: FileStore) -> tuple[Snapshot | None, LogState]:
    """The newest snapshot and its state, read consistently."""
    for _ in range(_ATTEMPTS):
        snapshot = store.latest_snapshot()
        # Expiry may run during other commits; the next commit copies the state.
        with contextlib.suppress(NotFound):
            return snapshot, state_at(store, snapshot)
    return snapshot, state_at(store, snapshot)
