"""A stream of a table's files: one full state, then the changes of each new snapshot (format sheet 9)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from lakelog.errors import InvalidOption, InvalidRequest, NotFound
from lakelog.filestore.read.changes import CHANGELOG, DELTA, AnyChange, Changes, lowest_changelog_level, producer_of
from lakelog.filestore.read.plan import Split
from lakelog.filestore.skipping.predicate import Predicate
from lakelog.filestore.skipping.pruning import Pruning
from lakelog.options.boundary import Public
from lakelog.options.notebook import NotebookView
from lakelog.options.scan import (
    CONSUMER_ID,
    CONSUMER_IGNORE_PROGRESS,
    READ_CUT,
    SCAN_MODE,
    SCAN_SNAPSHOT,
    SCAN_TIMESTAMP,
    SCAN_TIMESTAMP_MILLIS,
    STREAM_OVERWRITE,
)
from lakelog.paimon.metadata.snapshot import OVERWRITE, Snapshot
from lakelog.paimon.schema.schema import TableSchema
from lakelog.table.read.base import TableScan, rows_of, without_kind
from lakelog.table.read.changes_scan import id_at_time, read_change, with_row_kind
from lakelog.table.read.time_travel import millis_of, newest_compaction

StreamSplit = Split | AnyChange


@dataclass(frozen=True)
class StreamStart:
    """The start of a stream: a snapshot to read in full (None: none), and the first whose changes it reads."""

    full: int | None
    next: int


@dataclass(frozen=True, repr=False)
class StreamPlan(Public, NotebookView):
    """One unit of a stream: a snapshot's changes, or its full state; the stream resumes with snapshot ``next``."""

    stream: FileStream
    snapshot_id: int
    next: int
    splits: tuple[StreamSplit, ...]

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """The rows in order, with a column ``_row_kind``."""
        for split in self.splits:
            yield from self.stream.read(split)

    def to_arrow(self) -> pa.Table:
        """All rows in one Arrow table."""
        return pa.Table.from_batches(self.to_batches(), self.stream.schema)

    def __repr__(self) -> str:
        return f"StreamPlan({self.stream.table.name}: snapshot {self.snapshot_id}, {len(self.splits)} splits)"

    def notebook_facts(self) -> Mapping[str, object]:
        """Table, snapshot and number of splits."""
        return {
            "table": self.stream.table.name,
            "snapshot": str(self.snapshot_id),
            "next": str(self.next),
            "splits": len(self.splits),
        }


@dataclass(frozen=True, repr=False)
class FileStream(TableScan):
    """The changes that a stream of the files emits, plan by plan. Rows have a ``_row_kind``.

    Tables without a changelog emit the rows of APPEND snapshots with the kinds they were written with. With a changelog
    producer they emit the changelog. Overwrites are skipped unless ``streaming-read-overwrite``.
    """

    @property
    def row_schema(self) -> TableSchema:
        """The table's columns and ``_row_kind``."""
        return with_row_kind(self.table.schema)

    def plan(self) -> Sequence[StreamSplit]:
        """The splits of all current plans."""
        return [split for plan in self.plans(self.start()) for split in plan.splits]

    def read(self, split: StreamSplit) -> Iterator[pa.RecordBatch]:
        """The changes of one split; called on executors too."""
        return rows_of(self, lambda columns, own: read_change(self.table.store, split, columns, own, False))

    def start(self) -> StreamStart:
        """The start of a new stream from the options; a consumer's position takes precedence. Raises InvalidOption."""
        options, store = self.table.options, self.table.store
        consumer = options.get_typed(CONSUMER_ID)
        if consumer is not None and not options.need(CONSUMER_IGNORE_PROGRESS):
            position = store.consumers.position(consumer)
            if position is not None:
                return self._from(position)
        mode = self._mode()
        if mode == "from-snapshot":
            return self._from(options.need(SCAN_SNAPSHOT))
        if mode == "from-timestamp":
            text = options.get_typed(SCAN_TIMESTAMP)
            millis = options.need(SCAN_TIMESTAMP_MILLIS) if text is None else millis_of(text)
            # changes committed at exactly this time belong to the stream
            return self._from(id_at_time(store, millis - 1, with_changelogs=True) + 1)
        if mode == "earliest":
            return self._from(1)
        newest = store.snapshots.latest_id()
        if newest is None:
            return StreamStart(None, 1)
        if mode == "latest":
            return StreamStart(None, newest + 1)
        if mode == "from-snapshot-full":
            newest = store.snapshot(options.need(SCAN_SNAPSHOT)).id
        if mode == "compacted-full" and (compacted := newest_compaction(store)) is not None:
            newest = compacted.id
        return StreamStart(newest, newest + 1)

    def plans(self, start: StreamStart) -> Iterator[StreamPlan]:
        """The plans from a start up to the newest snapshot; those without rows to read are skipped.

        Raises NotFound if an unread snapshot has expired.
        """
        if start.full is not None:
            yield self.full_plan(start.full)
        at = start.next
        while (plan := self.plan_of(at)) is not None:
            if plan.splits:
                yield plan
            at = plan.next

    def full_plan(self, snapshot_id: int) -> StreamPlan:
        """A full state; if the changelog is produced later, only the levels that the changelog covers."""
        schema, store = self.table.schema, self.table.store
        lowest = lowest_changelog_level(schema) if schema.is_keyed else 0
        splits = store.plan(snapshot_id, filter=self._own_filter, lowest_level=lowest)
        return StreamPlan(self, snapshot_id, snapshot_id + 1, tuple(splits))

    def plan_of(self, snapshot_id: int) -> StreamPlan | None:
        """The changes of one snapshot; None if it does not exist yet.

        Raises NotFound if it has expired, and TableReplaced.
        """
        snapshot = self.find(snapshot_id)
        if snapshot is None:
            return None
        store = self.table.store
        changes = Changes(store.manifests, store.schema, Pruning(store.schemas, self._own_filter))
        mode = DELTA if producer_of(store.schema) == "none" else CHANGELOG
        splits: list[AnyChange] = []
        if snapshot.commit_kind == OVERWRITE and self.table.options.need(STREAM_OVERWRITE):
            splits += changes.overwrite_of(snapshot)
        elif changes.has(snapshot, mode):
            splits += changes.of_snapshot(snapshot, mode)
        self.table.check_identity()
        return StreamPlan(self, snapshot_id, snapshot_id + 1, tuple(splits))

    def find(self, snapshot_id: int) -> Snapshot | None:
        """The snapshot, or its remaining changelog; None if it does not exist yet. Raises NotFound."""
        store = self.table.store
        with contextlib.suppress(NotFound):
            return store.change_history.get(snapshot_id)
        self.table.check_identity()
        earliest, latest = store.change_history.earliest_id(), store.snapshots.latest_id()
        if earliest is not None and snapshot_id < earliest:
            raise NotFound(
                f"snapshot {snapshot_id} of table {self.table.name} has expired before this stream read it (the "
                f"oldest is {earliest}): restart the stream, keep snapshots longer, or give the stream a "
                "'consumer-id'"
            )
        if snapshot_id > (latest or 0) + 1:
            raise InvalidRequest(
                f"this stream is at snapshot {snapshot_id}, but the newest of table {self.table.name} is {latest}: "
                "the table was recreated or rolled back. Restart the stream without its checkpoint"
            )
        return None

    def _from(self, snapshot_id: int) -> StreamStart:
        return StreamStart(None, max(snapshot_id, self.table.store.change_history.earliest_id() or 1))

    def _mode(self) -> str:
        options = self.table.options
        mode = options.need(SCAN_MODE)
        if READ_CUT.key in options:
            raise InvalidOption(f"'{READ_CUT.key}' is one moment, and a stream has no end: remove it")
        if mode == "incremental":
            raise InvalidOption("'scan.mode' = 'incremental' is a batch read: use spark.read or Table.scan")
        if mode != "default":
            return mode
        if options.get_typed(SCAN_SNAPSHOT) is not None:
            return "from-snapshot"
        has_time = SCAN_TIMESTAMP.key in options or SCAN_TIMESTAMP_MILLIS.key in options
        return "from-timestamp" if has_time else "latest-full"

    @property
    def _own_filter(self) -> Predicate | None:
        return without_kind(self.filter)
