"""Metrics of a table: files, snapshots, log, writers; immutable values that serialise to JSON."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar, Final, Self

from lakelog.io.clock import now_ms
from lakelog.io.machine import has_ended
from lakelog.io.storage.file_io import DiskSpace
from lakelog.table.model.service_report import ServiceReport
from lakelog.table.views.report import ViewReport
from lakelog.table.views.sources import SourceState

BATCH, STREAM, FOLLOW = "batch", "stream", "follower"
ENDED, FAILED = "ended", "failed"
DROPPED = "dropped"
SILENT_MS: Final = 420_000
"""Age of a report of ``lakelog ingest`` after which its process is taken for dead: longer than a run waits."""


@dataclass(frozen=True)
class BucketStats:
    """One bucket; ``partition`` is text like ``{2024-01-01}``, ``rows`` the number of row versions in the files.

    ``due_files`` and ``due_bytes`` are the input of a compaction now. ``compactor`` is the host and process that
    compacts the bucket, or empty.
    """

    partition: str
    bucket: int
    files: int
    bytes: int
    rows: int
    sorted_runs: int
    level0_files: int
    small_files: int
    due_files: int = 0
    due_bytes: int = 0
    compactor: str = ""


@dataclass(frozen=True)
class DeadRun:
    """A run of maintenance whose process died during it."""

    kind: str
    host: str
    process: int


@dataclass(frozen=True)
class SnapshotStats:
    """The history: an expiry now would remove ``expirable`` snapshots (at most ``snapshot.expire.limit`` at once).

    Consumers retain ``held`` more, ``holder`` the oldest of them. ``last_write_ms`` is the commit time of the newest
    snapshot that added rows, among the last few. ``dead_run`` is the newest run of maintenance, if its process died
    during it.
    """

    newest_id: int | None = None
    newest_ms: int | None = None
    last_write_ms: int | None = None
    kept: int = 0
    expirable: int = 0
    held: int = 0
    holder: str = ""
    tags: int = 0
    tags_over: int = 0
    old_partitions: int = 0
    full_compaction_due: bool = False
    unfinished_removals: int = 0
    orphans_cleaned_ms: int | None = None
    dead_run: DeadRun | None = None
    created_ms: int = 0


@dataclass(frozen=True)
class LogBucketStats:
    """One bucket of the log, with its offsets.

    ``first`` is its first offset, ``end`` the offset after its last record, ``decided`` a lower bound of the decided
    offsets, and ``applied`` the end of the records in the newest snapshot. ``lag`` is the number of rows that
    wait for the files. ``newest_ms`` is the append time of the last record, or None if the log cannot report
    it cheaply. ``files_ms`` is that of the last record in the files, ``waiting_ms`` that of the first one not in them.
    All named readers and the files have the records before ``read_up_to``, or None without a named reader. ``lost`` is
    the number of records that expired before the files had them. ``log_only`` rows will be in no file; ``unowned`` ones
    among the lag have no writer, and wait for a follower.
    """

    bucket: int
    first: int
    end: int
    decided: int
    applied: int
    lag: int
    newest_ms: int | None = None
    files_ms: int | None = None
    waiting_ms: int | None = None
    read_up_to: int | None = None
    lost: int = 0
    log_only: int = 0
    unowned: int = 0


@dataclass(frozen=True)
class WriterStats:
    """A writer of the log: its newest decided and sealed epochs (-1: none), the decided ones that wait for a snapshot.

    ``kind`` is ``batch``, ``stream`` or ``follower``. ``is_alive`` means that its lease has not expired. ``is_gone``
    means that it has, and its open rows are not taken back yet. ``undecided_ms`` is the start of a batch writer that
    has not decided.
    """

    name: str
    kind: str
    decided: int
    sealed: int
    waiting: int
    active_ms: int
    waiting_ms: int | None = None
    undecided_ms: int | None = None
    is_gone: bool = False
    is_alive: bool = True


@dataclass(frozen=True)
class ReaderStats:
    """A reader of the log with a ``consumer-id``: its lag in rows, and the time of its last report."""

    name: str
    lag: int
    moved_ms: int


@dataclass(frozen=True)
class LogStats:
    """The log and its relation to the files. ``trouble`` is the error if it could not be read; all else is then
    empty.
    """

    buckets: tuple[LogBucketStats, ...] = ()
    writers: tuple[WriterStats, ...] = ()
    readers: tuple[ReaderStats, ...] = ()
    log_only_kept: str = ""
    """What becomes of rows that only the log has, as a clause."""
    trouble: str = ""
    is_ahead: bool = False
    """True if the log has rows that a rollback of the files alone has taken out of them."""
    bad_records: tuple[str, ...] = ()
    """Unreadable records that readers have found, as bucket-offset."""
    expirable: bool = False
    """True if an expiry would remove records of the log, which are older than its retention."""
    unpublished_ms: int | None = None
    """The time of the oldest snapshot whose changes the log has not got yet; None if it has all."""

    @property
    def lag(self) -> int | None:
        """Number of rows in all buckets that wait for the files; None if the log is unreadable."""
        return None if self.trouble else sum(b.lag for b in self.buckets)

    @property
    def log_only(self) -> int | None:
        """Number of rows that will be in no file (``emit.mode`` = log); None if the log is unreadable."""
        return None if self.trouble else sum(b.log_only for b in self.buckets)

    @property
    def unowned(self) -> int:
        """Number of rows without a writer, which wait for a follower."""
        return sum(b.unowned for b in self.buckets)

    @property
    def log_first(self) -> bool:
        """True if rows without a writer wait for a follower."""
        return self.unowned > 0

    @property
    def newest_ms(self) -> int | None:
        """The append time of the newest record."""
        return max((b.newest_ms for b in self.buckets if b.newest_ms is not None), default=None)

    @property
    def files_ms(self) -> int | None:
        """The append time of the newest record in the files."""
        return max((b.files_ms for b in self.buckets if b.files_ms is not None), default=None)

    @property
    def waiting_ms(self) -> int | None:
        """The append time of the oldest row that waits for the files."""
        return min((b.waiting_ms for b in self.buckets if b.waiting_ms is not None), default=None)

    @property
    def open_epochs(self) -> int | None:
        """Number of decided epochs without a snapshot, and of undecided batch writers; None if the log is unknown."""
        return None if self.trouble else sum(w.waiting + (w.undecided_ms is not None) for w in self.writers)

    @property
    def oldest_open_ms(self) -> int | None:
        """The decision or start time of the oldest open epoch."""
        times = [t for w in self.writers for t in (w.waiting_ms, w.undecided_ms) if t is not None]
        return min(times, default=None)


@dataclass(frozen=True)
class IngestStats(ServiceReport):
    """What the process of ``lakelog ingest`` last reported of a table, at ``reported_ms``.

    ``source`` is the table there, ``server`` its host, port and database. ``state`` is ``copy``, ``stream``, ``wait``
    (for its server), ``ended`` (as its user wanted) or ``failed``; ``why`` is the reason of a wait or a failure.
    ``position`` is the LSN that is committed. ``lag_s`` is the age of the newest transaction at its commit here.
    ``unread_bytes`` is the WAL after the position, ``held_bytes`` the WAL that the server keeps for the slot.
    ``slot_state`` is PostgreSQL's ``wal_status`` ("" before version 13), or ``dropped``. ``is_gone`` means that the
    process has ended without a report. The source's own state would need its address and password, which a lake does
    not have.
    """

    service: ClassVar[str] = "ingest"

    source: str
    server: str
    slot: str
    state: str
    reported_ms: int
    position: str = ""
    lag_s: float = 0.0
    unread_bytes: int = 0
    held_bytes: int = 0
    slot_state: str = ""
    why: str = ""
    machine: str = ""
    process: int = 0
    is_gone: bool = False

    @property
    def is_open(self) -> bool:
        """True if the process has not reported its end."""
        return self.state not in (ENDED, FAILED)

    def as_of_now(self) -> Self:
        """The report with ``is_gone`` of now."""
        is_silent = now_ms() - self.reported_ms > SILENT_MS
        return replace(self, is_gone=self.is_open and (has_ended(self.machine, self.process) or is_silent))


@dataclass(frozen=True)
class ReplicaStats(ServiceReport):
    """The state of a replica: its source, and the source's snapshot that it has.

    ``complete_ms`` is the time (ms since 1970) up to which it has every committed row of the source, by the clock of
    the process that copies. ``error`` is why it did not copy at ``reported_ms``, "" if it did. ``promoted`` marks one
    that is a table of its own by now.
    """

    service: ClassVar[str] = "replica"

    source: str
    snapshot: int
    complete_ms: int
    reported_ms: int
    error: str = ""
    promoted: bool = False

    def lag_ms(self, now_ms: int) -> int:
        """The age of the newest state that it may lack: what a loss of the source loses at most."""
        return max(0, now_ms - self.complete_ms)

    def as_of_now(self) -> Self | None:
        """The report; None for a table that is no replica any more."""
        return None if self.promoted else self


@dataclass(frozen=True)
class ViewStats:
    """A materialized view: its sources, when it is refreshed, and what its process last said.

    ``every_ms`` is that of ``ViewDefinition``. ``trouble`` is the error if its position could not be read.
    """

    query: str
    refresh: str
    every_ms: int | None
    suspended: bool
    sources: tuple[SourceState, ...] = ()
    report: ViewReport | None = None
    trouble: str = ""

    def lag_ms(self, now_ms: int) -> int | None:
        """The longest lag of the sources, None if it is unknown for all."""
        return max((lag for one in self.sources if (lag := one.lag_ms(now_ms)) is not None), default=None)


@dataclass(frozen=True)
class TableStats:
    """All metrics of one collection, at ``looked_ms``."""

    name: str
    looked_ms: int
    is_keyed: bool
    buckets: tuple[BucketStats, ...] = ()
    snapshots: SnapshotStats = field(default_factory=SnapshotStats)
    log: LogStats | None = None
    exact_rows: int | None = None
    """Rows that a batch read returns; None if only a read can count them."""
    rejected: int = 0
    """Rows in ``$rejected``."""
    space: DiskSpace | None = None
    """The space of the disk of the table; None if its storage reports no limit."""
    ingest: IngestStats | None = None
    """The last report of ``lakelog ingest``; None for a table that it does not write."""
    undone: tuple[str, ...] = ()
    """The sources whose rows a rollback has taken out of the table (``WriterState.undone``)."""
    view: ViewStats | None = None
    """The materialized view that the table is; None for any other."""
    missing_views: tuple[tuple[str, str], ...] = ()
    """Consumers that keep snapshots for a materialized view that is not there, each with the name of the view."""
    replica: ReplicaStats | None = None
    """The last report of ``lakelog replicate``; None for a table that is no replica."""

    @property
    def rows(self) -> int:
        """The exact number of rows if it is known, else the number of their versions in the files."""
        return sum(b.rows for b in self.buckets) if self.exact_rows is None else self.exact_rows

    @property
    def rows_unit(self) -> str:
        """The unit of ``rows``: ``rows``, or ``row versions``, which are more if keys have several."""
        return "row versions" if self.exact_rows is None else "rows"

    @property
    def files(self) -> int:
        return sum(b.files for b in self.buckets)

    @property
    def bytes(self) -> int:
        """Size of the data files in bytes."""
        return sum(b.bytes for b in self.buckets)

    @property
    def small_files(self) -> int:
        """Number of data files below 70 % of the target size."""
        return sum(b.small_files for b in self.buckets)

    @property
    def level0_files(self) -> int:
        """Number of data files that no compaction has touched."""
        return sum(b.level0_files for b in self.buckets)

    @property
    def sorted_runs(self) -> int:
        """Number of sorted runs in all buckets."""
        return sum(b.sorted_runs for b in self.buckets)

    @property
    def most_runs(self) -> int:
        """The highest number of sorted runs in a bucket."""
        return max((b.sorted_runs for b in self.buckets), default=0)

    @property
    def due(self) -> tuple[BucketStats, ...]:
        """The buckets that a compaction would change and none compacts now, the most sorted runs first."""
        due = (b for b in self.buckets if b.due_files and not b.compactor)
        return tuple(sorted(due, key=lambda b: -b.sorted_runs))
