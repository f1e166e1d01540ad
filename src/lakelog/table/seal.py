"""Turns decided epochs into one snapshot (RFC 2, step 4), and the thread that does it each ``commit.interval``."""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from lakelog.errors import CommitConflict, Fenced
from lakelog.filestore.commit_request import CommitRequest
from lakelog.io.clock import monotonic_s
from lakelog.io.logs import fields
from lakelog.io.metrics import METER
from lakelog.logstore.header import LOG_ONLY
from lakelog.options.log import COMMIT_INTERVAL
from lakelog.options.metrics import SEAL_DURATION, SEALS
from lakelog.options.table import WRITE_ONLY
from lakelog.spec.snapshot import Snapshot
from lakelog.table.bucket_count import bucket_totals, in_buckets
from lakelog.table.committer import Committer
from lakelog.table.compaction_worker import CompactionWorker, stop_workers, worker_for
from lakelog.table.dynamic_buckets import (
    AssignedFiles,
    IndexReplaced,
    assign_files,
    forget_unassigned,
    has_dynamic_buckets,
)
from lakelog.table.dynamic_table import DynamicTable
from lakelog.table.epoch_record import EpochRecord
from lakelog.table.event_time import watermark_of
from lakelog.table.evolve import in_schema, knowing_all
from lakelog.table.log_state import LogState, Tells, WriterState, newest_state, state_at
from lakelog.table.place_files import write_place
from lakelog.table.sequencing import Place, SequencedRuns, places_of, sequence_runs
from lakelog.table.streaming_run import StreamingRun
from lakelog.table.telling import owed, tell, tell_sealed

_LOG = logging.getLogger("lakelog.seal")
_ATTEMPTS = 8


def seal(committer: Committer) -> Snapshot | None:
    """Makes one snapshot of all epochs that are decided, healed and not sealed; None when there is nothing to do.

    1 read the epochs after the last sealed one · 2 write their rows as level-0 files · 3 commit, if the writer's last
    sealed epoch is still the one of step 1 · 4 append the ``commit`` control records, behind those that other writers
    owe of older snapshots · 5 forget the epoch records. A crash anywhere is repaired by the next seal, of whatever
    writer: the snapshot says which epochs it holds, and one of them that still has its epoch record may owe its control
    records.
    """
    with committer.lock:
        state, appended = committer.verified(), committer.appended()
    if state is None:
        return None
    table, writer = committer.table, committer.writer
    for _ in range(_ATTEMPTS):
        # 1
        latest, before = newest_state(table.store)
        base = before.sealed_epoch(writer)
        staged = table.staged.records(writer)
        records = [r for r in staged if base < r.epoch <= state.epoch]
        untold = owed(committer, [r for r in staged if r.epoch <= base], before)
        if not records:
            tell(committer, untold, before)
            return None
        telling = {r.epoch: r.digest for r in (*untold, *records)}
        sealed = replace(
            state,
            epoch=records[-1].epoch,
            once=committer.once,
            ended=committer.ended,
            telling=telling,
            run=committer.run or _run_of(before, writer),
        )
        try:
            with METER.step("seal", table=table.name, writer=writer, epoch=sealed.epoch) as told:
                # 2
                ready = level0_files_of(table, records, latest)
                table = ready.table
                # 3
                tells = Tells(appended, committer.tells(records))  # not what is owed: it may have been told
                snapshot = _commit(committer, ready.made, base, sealed, records, tells)
                told.tell(snapshot=snapshot.id)
        except _SealedElsewhere:
            continue
        except IndexReplaced:
            ready.made.delete(table)
            continue
        _count(table, records, snapshot, told.seconds)
        forget_unassigned(table, ready.runs)
        # 4, 5
        tell(committer, [*untold, *records], state_at(table.store, snapshot))
        return snapshot
    raise CommitConflict(f"table {table.name}: other processes keep sealing the epochs of writer {writer}; try again")


def _count(table: DynamicTable, records: Sequence[EpochRecord], snapshot: Snapshot, seconds: float) -> None:
    METER.add(SEALS, table=table.name)
    METER.observe(SEAL_DURATION, seconds, table=table.name)
    last, rows = records[-1], sum(record.row_count for record in records)
    told = fields(table=table.name, snapshot=snapshot.id, writer=last.writer, epoch=last.epoch, rows=rows)
    _LOG.info(
        "table %s: snapshot %d has %d epochs, %d rows, in %.3f s",
        table.name, snapshot.id, len(records), rows, seconds, extra={**told, "duration_s": round(seconds, 4)},
    )  # fmt: skip


def _run_of(state: LogState, writer: str) -> StreamingRun | None:
    known = state.writers.get(writer)
    return None if known is None else known.run


def seal_staged(table: DynamicTable) -> list[Snapshot]:
    """Seals, for every writer, the micro-batches that are decided but in no snapshot yet.

    Called when the streams that wrote them have stopped, so that other engines see all rows at once. A writer that
    goes on in another process is left to it. Appends the control records that a writer owes, too.
    """
    made = (seal_writer(table, writer) for writer in table.staged.writers())
    return [snapshot for snapshot in made if snapshot is not None]


def seal_writer(table: DynamicTable, writer: str) -> Snapshot | None:
    """Seals what a writer has decided and tells what it has sealed; None when there is nothing to seal."""
    epochs = table.staged.epochs(writer)
    if not epochs:
        return None
    committer = Committer(table, writer)
    tell_sealed(committer)
    if epochs[-1] <= newest_state(table.store)[1].sealed_epoch(writer):
        return None
    with contextlib.suppress(Fenced):
        committer.commit(epochs[-1], [])
        return seal(committer)
    return None


class _SealedElsewhere(Exception):
    """Another process sealed epochs of this writer first."""


def log_only_from(records: Sequence[EpochRecord]) -> dict[int, int]:
    """Bucket → where the log begins to have rows of these epochs that are in no file."""
    out: dict[int, int] = {}
    for attempt in (a for r in records for a in r.attempts if a.attempt.startswith(LOG_ONLY)):
        for part in attempt.appends:
            out[part.bucket] = min(part.first_offset, out.get(part.bucket, part.first_offset))
    return out


def _commit(
    committer: Committer,
    made: AssignedFiles,
    base: int,
    sealed: WriterState,
    records: Sequence[EpochRecord],
    tells: Tells,
) -> Snapshot:
    table, writer = committer.table, committer.writer
    log_only = log_only_from(records)

    def properties(latest: Snapshot | None) -> Mapping[str, str]:
        state = state_at(table.store, latest)
        if state.sealed_epoch(writer) != base:
            raise _SealedElsewhere
        made.check_index(table, latest)
        known, number = state.writers.get(writer), 1 if latest is None else latest.id + 1
        before = {} if known is None else known.sealed_in
        sealed_in = {epoch: before.get(epoch, 0) if epoch <= base else number for epoch in sealed.telling}
        told = replace(sealed, sealed_in=sealed_in)
        return state.with_writer(writer, told, log_only, tells).without_old(table.staged).to_properties()

    request = CommitRequest(
        writer, sealed.epoch, "APPEND", made.files, prepare=properties, allow_empty=True, first_try=True
    )
    watermark = watermark_of(tuple(a for r in records for a in r.attempts))
    return table.store.commit(replace(request, index=made.index, watermark=watermark))


@dataclass(frozen=True)
class ReadyFiles:
    """Level-0 files of some epochs, the runs that they hold, and the table with a schema that knows all their
    columns.
    """

    table: DynamicTable
    runs: Mapping[Place, SequencedRuns]
    made: AssignedFiles


def level0_files_of(table: DynamicTable, records: Sequence[EpochRecord], latest: Snapshot | None) -> ReadyFiles:
    """The rows of epochs as level-0 files that are to follow a snapshot; nobody names them yet.

    Large runs are files already and are taken as they are, unless others have written to their bucket since.
    """
    table = knowing_all(table, records)
    totals = bucket_totals(table, records, latest)
    fitting = in_schema(in_buckets(records, table, totals), table.store)
    runs = sequence_runs(fitting, table.store.max_sequence_numbers(latest, places_of(fitting)))
    return ReadyFiles(table, runs, level0_files(table, runs, latest, totals))


def level0_files(
    table: DynamicTable,
    runs: Mapping[Place, SequencedRuns],
    latest: Snapshot | None,
    totals: Mapping[bytes, int] | None = None,
) -> AssignedFiles:
    """Writes sequenced rows as level-0 files, and changelog files where they are told; nobody names them yet.

    ``latest`` is the snapshot that they are to follow, None when an overwrite replaces all that it has;
    ``totals`` are the numbers of buckets of the partitions that have another number than the table.
    """
    if has_dynamic_buckets(table.schema):
        return assign_files(table, runs, latest)
    total, other = table.schema.num_buckets, totals or {}
    return AssignedFiles(
        tuple(
            write_place(table, partition, bucket, other.get(partition, total), held)
            for (partition, bucket), held in sorted(runs.items(), key=lambda item: item[0])
        )
    )


def _no(_: DynamicTable) -> None:
    """Nothing is done beside."""


class Sealer:
    """Seals the epochs of one streaming writer in the background, each ``commit.interval``, also when no more come.

    It lives in the Python process in which Spark commits, beside the worker that compacts the table; what one of them
    fails with is raised by the next ``notify``. ``beside`` is called after each seal.
    """

    def __init__(
        self, committer: Committer, worker: CompactionWorker | None = None, beside: Callable[[DynamicTable], None] = _no
    ) -> None:
        self._committer, self._beside = committer, beside
        self._worker = worker_for(committer.table) if worker is None else worker
        self._wake = threading.Event()
        self._failure: Exception | None = None
        self._last = float("-inf")
        self._thread: threading.Thread | None = None
        self._busy = threading.Lock()
        self._stopped = threading.Event()

    def notify(self) -> None:
        """Says that an epoch was decided and healed. Raises what the last seal or compaction failed with."""
        failure, self._failure = self._failure or self._worker.take_failure(), None
        if failure is not None:
            raise failure
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._run, name="lakelog-seal", daemon=True)
            self._thread.start()
        self._wake.set()

    def seal_now(self) -> Snapshot | None:
        """Seals at once, in the caller's thread."""
        with self._busy:
            self._last = monotonic_s()
            return seal(self._committer)

    def stop(self) -> None:
        """Ends after the seal that runs; epochs that wait for the next one are left to ``seal_staged``."""
        self._stopped.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        interval = self._committer.table.options.need(COMMIT_INTERVAL).total_seconds()
        while True:
            self._wake.wait()
            self._wake.clear()
            if self._stopped.wait(max(0.0, self._last + interval - monotonic_s())):
                return
            table = self._committer.table
            compacts = not table.options.need(WRITE_ONLY)
            try:
                if compacts:
                    self._worker.wait_for_room(table)
                if self._stopped.is_set():
                    return
                if self.seal_now() is not None and compacts:
                    self._worker.notify(table)
                self._beside(table)
            except Exception as failure:
                _LOG.warning("sealing table %s failed: %s", table.name, failure, extra=fields(table=table.name))
                self._failure = failure


_SEALERS: dict[tuple[int, str, str], Sealer] = {}
_SEALERS_LOCK = threading.Lock()


@atexit.register
def _stop_all() -> None:
    """Ends the threads of this process before the interpreter does: one that is inside Arrow then would crash it."""
    stop_workers()
    with _SEALERS_LOCK:
        for (process, *_), sealer in _SEALERS.items():
            if process == os.getpid():
                sealer.stop()


def sealer_for(committer: Committer, beside: Callable[[DynamicTable], None]) -> Sealer:
    """The sealer of a committer in this process, which calls ``beside`` after its seals."""
    with _SEALERS_LOCK:
        key = (os.getpid(), committer.table.identity.key, committer.writer)
        found = _SEALERS.get(key)
        if found is None:
            found = _SEALERS[key] = Sealer(committer, beside=beside)
        return found
