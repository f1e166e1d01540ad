"""Turns decided epochs into one snapshot (RFC 2, step 4)."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from lakelog.errors import CommitConflict, NotFound
from lakelog.filestore.commit.request import CommitRequest
from lakelog.io.clock import sleep
from lakelog.io.logs import fields
from lakelog.io.metrics import METER
from lakelog.io.names import random_fraction
from lakelog.logstore.protocol.header import LOG_ONLY
from lakelog.options.metrics import SEAL_DURATION, SEALS
from lakelog.paimon.metadata.data_file import BucketFiles
from lakelog.paimon.metadata.snapshot import Snapshot
from lakelog.table.commit.committer import Committer
from lakelog.table.commit.markers import append_markers
from lakelog.table.commit.replacement import append_missing_changes
from lakelog.table.commit.sealed_state import sealed_state
from lakelog.table.maintenance.publish import publish_best_effort
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.model.epoch_record import EpochRecord
from lakelog.table.model.log_state import LogState, MarkerCounts, WriterState, newest_state, state_at
from lakelog.table.model.waiting_epochs import WaitingEpochs, sealed_elsewhere, waiting_epochs
from lakelog.table.rejected.entries import RejectedEntries
from lakelog.table.runs.dynamic_buckets import (
    AssignedFiles,
    IndexReplaced,
    assign_files,
    forget_unassigned,
)
from lakelog.table.runs.level0_files import write_level0_files
from lakelog.table.runs.lone_retractions import place_retractions
from lakelog.table.runs.rebucketing import bucket_totals, in_buckets
from lakelog.table.runs.runs import adapt_to_schema, with_latest_columns
from lakelog.table.runs.sequencing import BucketKey, SequencedRuns, bucket_keys_of, sequence_runs
from lakelog.table.staging.watermark import watermark_of

_LOG = logging.getLogger("lakelog.seal")
_LONGEST_PAUSE_S = 0.2
_MANY_BUCKETS = 16
"""Number of buckets from which on their files are written in threads, because each file waits for the storage."""
_THREADS = 8


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
        found = waiting_epochs(table)
        records = list(itertools.takewhile(lambda r: r.writer != writer or r.epoch <= state.epoch, found.waiting))
        if not any(r.writer == writer for r in records):
            committer.search.run(table)
            append_markers(committer, found.sealed, (), found.state)
            return None
        # 2
        states = {writer: replace(state, once=committer.once)}
        for other in {r.writer: r for r in records if r.writer != writer}.values():
            helper = Committer(table.whole, other.writer, helps=True)
            helper.search = committer.search
            states[other.writer] = helper.verify(other)
        committer.search.run(table)
        try:
            with METER.step("seal", table=table.name, writer=writer, epoch=state.epoch) as span:
                # 3
                ready = level0_files_of(table, records, found.snapshot)
                table = ready.table
                # 4
                markers = MarkerCounts(
                    appended, committer.expected_markers(records)
                )  # missing ones may be appended already
                snapshot = _commit(committer, ready.made, found, records, states, markers)
                span.set(snapshot=snapshot.id)
        except _FoundAnother:
            continue  # its files may be in that snapshot, if its properties were changed: orphan cleaning knows
        except _SealedElsewhere:
            ready.delete_made()
            pause(attempt)
            continue
        except IndexReplaced:
            ready.delete_made()
            continue
        except NotFound:
            # The seal of another process has deleted large runs after it assigned their rows to dynamic buckets.
            now = state_at(table.store, table.store.latest_snapshot())
            if not any(now.holds(record) for record in records):
                raise
            continue
        except CommitConflict:
            # A rescale has changed the buckets of a partition.
            if bucket_totals(table, records, table.store.latest_snapshot()) == ready.totals:
                raise
            ready.delete_made()
            continue
        _count(table, records, snapshot, span.seconds)
        forget_unassigned(table, ready.runs)
        # 5, 6
        after = state_at(table.store, snapshot)
        committer.tip = max(committer.tip, after.chain)
        passed = [record for record in found.void if record.number <= after.chain]
        append_markers(committer, [*found.sealed, *passed], records, after)
        publish_best_effort(table)
        return snapshot
    return None


def pause(attempt: int) -> None:
    """Waits a short random time before the retry of a lost race, longer each time."""
    sleep(min(_LONGEST_PAUSE_S, 0.002 * 2 ** min(attempt, 10)) * random_fraction())


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
    found, made, sealers = waiting_epochs(table), list[Snapshot](), set[str]()
    waiting = found.waiting
    while waiting:  # one seal takes them all, unless another process seals the last and had not seen those before
        last = waiting[-1]
        sealers.add(last.writer)
        committer = Committer(table, last.writer, once=last.once, helps=True)
        committer.verify(last)
        made += [snapshot for snapshot in (seal(committer),) if snapshot is not None]
        state = newest_state(table.store)[1]
        waiting = tuple(record for record in waiting[:-1] if not state.holds(record))
    for writer in sorted({r.writer for r in found.sealed} - sealers):
        append_markers(Committer(table, writer), found.sealed, (), found.state)
    return made


def seal_decided(table: DynamicTable) -> None:
    """Seals every epoch that is decided now, so that the caller's write follows them. Raises Unavailable."""
    decided = {(r.writer, r.epoch) for r in waiting_epochs(table).waiting}
    for attempt in itertools.count():
        if decided.isdisjoint((r.writer, r.epoch) for r in waiting_epochs(table).waiting):
            return
        pause(attempt)
        seal_staged(table)


class _SealedElsewhere(Exception):
    """Another process sealed some of these epochs first."""


def _check_waiting(
    table: DynamicTable, latest: Snapshot | None, state: LogState, records: Sequence[EpochRecord]
) -> None:
    """Raises _SealedElsewhere if a snapshot has one of the epochs, which would then be in two."""
    try:
        if any(state.holds(r) or sealed_elsewhere(table, latest, r) is not None for r in records):
            raise _SealedElsewhere
    except NotFound:
        raise _SealedElsewhere from None


class _FoundAnother(Exception):
    """The file commit has found the snapshot of another sealer, which may lack some of these epochs."""


def log_only_from(records: Sequence[EpochRecord]) -> dict[int, int]:
    """Bucket → the log offset of the first row of these epochs that is in no file."""
    out: dict[int, int] = {}
    for attempt in (a for r in records for a in r.attempts if a.attempt.startswith(LOG_ONLY)):
        for part in attempt.appends:
            out[part.bucket] = min(part.first_offset, out.get(part.bucket, part.first_offset))
    return out


def _commit(
    committer: Committer,
    made: AssignedFiles,
    found: WaitingEpochs,
    records: Sequence[EpochRecord],
    states: Mapping[str, WriterState],
    markers: MarkerCounts,
) -> Snapshot:
    table, log_only = committer.table, log_only_from(records)
    rejected, built = RejectedEntries(table), dict[int, Mapping[str, str]]()

    def properties(latest: Snapshot | None) -> Mapping[str, str]:
        state = state_at(table.store, latest)
        _check_waiting(table, latest, state, records)
        made.check_index(table, latest)
        number = 1 if latest is None else latest.id + 1
        for writer, verified in sorted(states.items(), key=lambda item: item[0] == committer.writer):  # own state last
            own = [r for r in records if r.writer == writer]
            known = state.writers.get(writer)
            sealed = sealed_state(verified, own, [r for r in found.sealed if r.writer == writer], known, number)
            is_own = writer == committer.writer
            state = state.with_writer(writer, sealed, log_only, markers if is_own else MarkerCounts())
        state = replace(state, chain=max([state.chain, *(r.number for r in records)]))
        state = rejected.following(state, records)
        at_work = {*table.registered.writers(), *(r.writer for r in (*records, *found.sealed))}
        built[number] = state.without_finished(at_work).to_properties()
        return built[number]

    last = records[-1]
    request = CommitRequest(
        last.writer, last.epoch, "APPEND", made.files, prepare=properties, allow_empty=True, first_try=True
    )
    watermark = watermark_of(tuple(a for r in records for a in r.attempts))
    snapshot = table.store.commit(replace(request, index=made.index, watermark=watermark))
    _check_own(snapshot, built.get(snapshot.id))
    return snapshot


def _check_own(snapshot: Snapshot, built: Mapping[str, str] | None) -> None:
    """Raises _FoundAnother for a snapshot that does not have the log state that was built here.

    After a lost round, the file commit looks for its snapshot by the writer and epoch of the last record. Two sealers
    may have the same last record and other ones before it, because a listing of lanes is not atomic.
    """
    if built is None or not (snapshot.properties or {}).items() >= built.items():
        raise _FoundAnother


@dataclass(frozen=True)
class ReadyFiles:
    """Level-0 files of some epochs, their runs, and the table with a schema that has all their columns.

    ``totals`` are the numbers of buckets that differ from the table's (``bucket_totals``).
    """

    table: DynamicTable
    runs: Mapping[BucketKey, SequencedRuns]
    made: AssignedFiles
    totals: Mapping[bytes, int]

    def delete_made(self) -> None:
        """Deletes the files that were made for no snapshot. Large runs stay: another snapshot may reference them."""
        staged = (part.run for held in self.runs.values() for part in held.staged)
        self.made.delete(self.table, {file.file_name for run in staged for file in (*run.files, *run.changelog)})


def level0_files_of(table: DynamicTable, records: Sequence[EpochRecord], latest: Snapshot | None) -> ReadyFiles:
    """The rows of epochs as level-0 files based on a snapshot; no snapshot references them yet.

    Large runs are files already and are used unchanged, unless others have written to their bucket since.
    """
    table = with_latest_columns(table, records)
    totals = bucket_totals(table, records, latest)
    fitting = place_retractions(adapt_to_schema(in_buckets(records, table, totals), table.store), table)
    runs = sequence_runs(fitting, table.store.max_sequence_numbers(latest, bucket_keys_of(fitting)))
    return ReadyFiles(table, runs, level0_files(table, runs, latest, totals), totals)


def level0_files(
    table: DynamicTable,
    runs: Mapping[BucketKey, SequencedRuns],
    latest: Snapshot | None,
    totals: Mapping[bytes, int] | None = None,
) -> AssignedFiles:
    """Writes sequenced rows as level-0 files, and changelog files where needed; no snapshot references them yet.

    ``latest`` is the snapshot before them, None if an overwrite replaces all of it. ``totals`` are the bucket counts of
    partitions that differ from the table's.
    """
    if table.schema.has_dynamic_buckets:
        return assign_files(table, runs, latest)
    total, other = table.schema.num_buckets, totals or {}

    def written(bucket_key: BucketKey) -> BucketFiles:
        return write_level0_files(table, *bucket_key, other.get(bucket_key[0], total), runs[bucket_key])

    if len(runs) < _MANY_BUCKETS:
        return AssignedFiles(tuple(map(written, sorted(runs))))
    with ThreadPoolExecutor(_THREADS, "seal") as threads:
        return AssignedFiles(tuple(threads.map(written, sorted(runs))))
