"""What one look at a table finds: files, snapshots, log, writers; frozen values that become JSON as they are."""

from __future__ import annotations

from dataclasses import dataclass, field

BATCH, STREAM, FOLLOW = "batch", "stream", "follower"


@dataclass(frozen=True)
class BucketStats:
    """One bucket; ``partition`` as text like ``{2024-01-01}``. ``due_files`` and ``due_bytes``: what a compaction would
    take now. ``compactor``: host and process of the one that is at work on it, empty when nobody is.
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
class SnapshotFigures:
    """The history: ``expirable`` snapshots would be removed by an expiry now (one removes ``snapshot.expire.limit`` at
    most), ``held`` more if no consumer needed them, ``holder`` first of all.

    ``last_write_ms`` is the commit time of the newest snapshot that brought rows, as far as the last few tell.
    ``dead_run``: the newest run of maintenance, when its process died during it.
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
class LogBucketFigures:
    """One bucket of the log. Offsets: ``first`` that it holds, ``end`` behind its last record, ``decided`` up to which
    epochs are decided (at least), ``applied`` up to which the newest snapshot has it.

    ``lag``: records behind ``applied`` that may be rows. ``newest_ms``: append time of the last record, None where the
    log does not tell it cheaply; ``files_ms`` of the last one that is in the files; ``waiting_ms`` of the first one
    that is not. ``read_up_to``: all named readers and the files have what is before; None without a named reader.
    ``lost``: records that expired before the files had them.
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


@dataclass(frozen=True)
class WriterFigures:
    """A writer of the log: its newest decided and sealed epochs (-1: none), the decided ones that wait for a snapshot.

    ``kind``: ``batch``, ``stream`` or ``follower``. ``is_alive``: its lease has not run out. ``is_gone``: it has, and
    nobody has taken back yet what it may have left open. ``undecided_ms`` is when a batch writer came that has not
    decided.
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
class ReaderFigures:
    """A reader of the log with a ``consumer-id``: the records behind it, and when it last said where it is."""

    name: str
    lag: int
    moved_ms: int


@dataclass(frozen=True)
class LogFigures:
    """The log and what joins it to the files. ``trouble`` is why it could not be looked at; all else is empty then."""

    buckets: tuple[LogBucketFigures, ...] = ()
    writers: tuple[WriterFigures, ...] = ()
    readers: tuple[ReaderFigures, ...] = ()
    log_first: bool = False
    """Rows of nobody wait for a follower."""
    trouble: str = ""
    bad_records: tuple[str, ...] = ()
    """Records that readers could not read, as bucket-offset."""

    @property
    def lag(self) -> int | None:
        """Records of all buckets that may be rows and are not in the files; None when the log could not be read."""
        return None if self.trouble else sum(b.lag for b in self.buckets)

    @property
    def newest_ms(self) -> int | None:
        """When the newest record was appended."""
        return max((b.newest_ms for b in self.buckets if b.newest_ms is not None), default=None)

    @property
    def files_ms(self) -> int | None:
        """When the newest record was appended that the files have."""
        return max((b.files_ms for b in self.buckets if b.files_ms is not None), default=None)

    @property
    def waiting_ms(self) -> int | None:
        """When the oldest record was appended that the files do not have."""
        return min((b.waiting_ms for b in self.buckets if b.waiting_ms is not None), default=None)

    @property
    def open_epochs(self) -> int | None:
        """Decided epochs without a snapshot, and batch writers that have not decided; None when the log is unknown."""
        return None if self.trouble else sum(w.waiting + (w.undecided_ms is not None) for w in self.writers)

    @property
    def oldest_open_ms(self) -> int | None:
        """When the oldest of them was decided, or began."""
        times = [t for w in self.writers for t in (w.waiting_ms, w.undecided_ms) if t is not None]
        return min(times, default=None)


@dataclass(frozen=True)
class TableStats:
    """All that one look found at ``looked_ms``."""

    name: str
    looked_ms: int
    is_keyed: bool
    buckets: tuple[BucketStats, ...] = ()
    snapshots: SnapshotFigures = field(default_factory=SnapshotFigures)
    log: LogFigures | None = None

    @property
    def files(self) -> int:
        """Data files."""
        return sum(b.files for b in self.buckets)

    @property
    def bytes(self) -> int:
        """Bytes of the data files."""
        return sum(b.bytes for b in self.buckets)

    @property
    def small_files(self) -> int:
        """Data files below 70 % of the target size."""
        return sum(b.small_files for b in self.buckets)

    @property
    def level0_files(self) -> int:
        """Data files that no compaction has touched."""
        return sum(b.level0_files for b in self.buckets)

    @property
    def sorted_runs(self) -> int:
        """Sorted runs of all buckets."""
        return sum(b.sorted_runs for b in self.buckets)

    @property
    def most_runs(self) -> int:
        """The sorted runs of the bucket that has most."""
        return max((b.sorted_runs for b in self.buckets), default=0)

    @property
    def due(self) -> tuple[BucketStats, ...]:
        """The buckets that a compaction would change and nobody compacts now, the most sorted runs first."""
        due = (b for b in self.buckets if b.due_files and not b.compactor)
        return tuple(sorted(due, key=lambda b: -b.sorted_runs))
