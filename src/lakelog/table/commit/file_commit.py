"""Commits the rows of epochs as files: makes level-0 files, commits them as one snapshot, and cleans up."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from lakelog.errors import CommitConflict
from lakelog.filestore.commit.lost_race import LostRace
from lakelog.filestore.commit.request import CommitRequest
from lakelog.paimon.metadata.data_file import BucketFiles
from lakelog.paimon.metadata.snapshot import APPEND, Snapshot
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.model.epoch_record import EpochRecord
from lakelog.table.runs.dynamic_buckets import AssignedFiles, assign_files, forget_unassigned
from lakelog.table.runs.level0_files import write_level0_files
from lakelog.table.runs.lone_retractions import place_retractions
from lakelog.table.runs.rebucketing import bucket_totals, in_buckets
from lakelog.table.runs.runs import adapt_to_schema, with_latest_columns
from lakelog.table.runs.sequencing import BucketKey, SequencedRuns, bucket_keys_of, sequence_runs
from lakelog.table.staging.watermark import watermark_of

Properties = Callable[[Snapshot | None], Mapping[str, str]]
"""Derives the log state of a snapshot from the one before it; may raise LostRace."""

_MANY_BUCKETS = 16
"""Number of buckets from which on their files are written in threads, because each file waits for the storage."""
_THREADS = 8


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
        staged = (part.run for runs in self.runs.values() for part in runs.staged)
        self.made.delete(self.table, {file.file_name for run in staged for file in (*run.files, *run.changelog)})

    def delete(self) -> None:
        """Deletes all files, those of large runs, too: nobody will commit these rows."""
        self.made.delete(self.table)
        forget_unassigned(self.table, self.runs)


def level0_files_of(table: DynamicTable, records: Sequence[EpochRecord], latest: Snapshot | None) -> ReadyFiles:
    """The rows of epochs as level-0 files based on a snapshot; no snapshot references them yet.

    Large runs are files already and are used unchanged, unless others have written to their bucket since.
    """
    table = with_latest_columns(table, records)
    totals = bucket_totals(table, records, latest)
    fitting = place_retractions(adapt_to_schema(in_buckets(records, table, totals), table.store), table)
    runs = sequence_runs(fitting, table.store.max_sequence_numbers(latest, bucket_keys_of(fitting)))
    return ReadyFiles(table, runs, level0_files(table, runs, latest, totals), totals)


@dataclass(frozen=True)
class FileCommit:
    """One try to commit the rows of some epochs as a snapshot, by the user and with the number of the last epoch.

    ``keeps_runs`` means that another try may use the large runs of the epochs. ``user`` replaces the name of the
    writer, where several commits of it must not be taken for one.
    """

    table: DynamicTable
    records: Sequence[EpochRecord]
    properties: Properties
    keeps_runs: bool = False
    allow_empty: bool = False
    user: str = ""

    def run(self, latest: Snapshot | None) -> Snapshot | None:
        """Commits on top of a snapshot; None if there are no files, and no empty snapshot is allowed.

        1 make the files · 2 commit them, if neither the index of dynamic buckets nor the number of buckets of a
        partition has changed since · 3 delete what was made for another index. Raises LostRace (the files are deleted),
        CommitConflict, CommitUnknown, Unavailable, and the errors of ``properties``.
        """
        # 1
        ready, built = level0_files_of(self.table, self.records, latest), dict[int, Mapping[str, str]]()
        if not self.allow_empty and not any(bucket.new_files for bucket in ready.made.files):
            return None
        # 2
        try:
            snapshot = ready.table.store.commit(self._request(ready, built, latest))
        except (LostRace, CommitConflict) as why:
            if self.keeps_runs:
                ready.delete_made()
            else:
                ready.delete()
            newest = ready.table.store.latest_snapshot()
            if isinstance(why, CommitConflict) and bucket_totals(ready.table, self.records, newest) != ready.totals:
                raise LostRace("other processes change the number of buckets of its partitions") from why
            raise
        # 3
        properties = built.get(snapshot.id)
        if properties is None or not (snapshot.properties or {}).items() >= properties.items():
            # After a lost round the commit looks for its snapshot by the last record. Two sealers may have the same
            # last record and other ones before it, because a listing of lanes is not atomic.
            raise LostRace("another process has committed some of its epochs")
        forget_unassigned(ready.table, ready.runs)
        return snapshot

    def _request(
        self, ready: ReadyFiles, built: dict[int, Mapping[str, str]], latest: Snapshot | None
    ) -> CommitRequest:
        last = self.records[-1]

        def prepare(newest: Snapshot | None) -> Mapping[str, str]:
            properties = self.properties(newest)
            ready.made.check_index(ready.table, newest)
            built[1 if newest is None else newest.id + 1] = properties
            return properties

        return CommitRequest(
            self.user or last.writer,
            last.epoch,
            APPEND,
            ready.made.files,
            prepare=prepare,
            allow_empty=self.allow_empty,
            first_try=True,
            index=ready.made.index,
            watermark=watermark_of(tuple(a for r in self.records for a in r.attempts)),
            after=latest,
        )


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
