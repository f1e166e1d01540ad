"""Changes of snapshots as rows with kinds, from delta and changelog files (format sheet 9).

The driver plans them per bucket, and executors read them. Rows are returned as written, not merged, in file order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import pyarrow as pa

from lakelog.errors import InvalidOption, NotFound, UnsupportedFeature
from lakelog.filestore.metadata.levels import highest_level
from lakelog.filestore.metadata.manifests import Manifests
from lakelog.filestore.read.data_file_reader import DataFileReader, row_schema
from lakelog.filestore.read.plan import Split, skips_level_zero
from lakelog.filestore.skipping.predicate import Predicate
from lakelog.filestore.skipping.pruning import Pruning
from lakelog.merge.base import KIND_COLUMN
from lakelog.merge.changes import compared_columns
from lakelog.merge.table_rules import engine_class, log_content
from lakelog.options.changelog import CHANGELOG_PRODUCER
from lakelog.options.log import CHANGE_TRACKING, INPUT, LOG_ENABLED
from lakelog.options.notebook import NotebookView
from lakelog.options.option import Options
from lakelog.options.scan import STREAM_OVERWRITE
from lakelog.options.table import DELETION_VECTORS, MERGE_ENGINE
from lakelog.paimon.metadata.data_file import DataFileMeta
from lakelog.paimon.metadata.manifest import ADD, DELETE, ManifestEntry
from lakelog.paimon.metadata.snapshot import APPEND, OVERWRITE, Snapshot
from lakelog.paimon.rows.murmur import murmur_one
from lakelog.paimon.rows.row_kind import KIND_FIELD, NAMES
from lakelog.paimon.schema.schema import DYNAMIC_BUCKET, POSTPONE_BUCKET, TableSchema
from lakelog.paimon.types.java_hash_order import slot_of

DELTA: Final = "delta"
CHANGELOG: Final = "changelog"
DIFF: Final = "diff"
AUTO: Final = "auto"

_KINDS: Final = pa.array(NAMES)
_RETRACTED_KINDS: Final = pa.array(["-D", "+U", "-U", "+I"])


@dataclass(frozen=True, repr=False)
class ChangeSplit(NotebookView):
    """Files of one bucket whose rows are changes, in order, read without a merge. Picklable.

    ``retracts`` inverts the kinds of removed rows: +I becomes -D, +U becomes -U, and vice versa.
    """

    partition: bytes
    bucket: int
    files: tuple[DataFileMeta, ...]
    snapshot_id: int
    retracts: bool = False

    def __repr__(self) -> str:
        rows = f"{len(self.files)} files, {self.row_count} rows"
        return f"ChangeSplit(snapshot {self.snapshot_id}, bucket {self.bucket}: {rows})"

    def notebook_facts(self) -> Mapping[str, object]:
        return _facts(self, len(self.files))

    @property
    def row_count(self) -> int:
        """Rows in the files."""
        return sum(f.row_count for f in self.files)


@dataclass(frozen=True, repr=False)
class DiffSplit(NotebookView):
    """The splits of two states of one bucket to compare, in key order. Picklable."""

    partition: bytes
    bucket: int
    before: tuple[Split, ...]
    after: tuple[Split, ...]
    snapshot_id: int

    def __repr__(self) -> str:
        return f"DiffSplit(snapshot {self.snapshot_id}, bucket {self.bucket}: {self.row_count} rows to compare)"

    def notebook_facts(self) -> Mapping[str, object]:
        return _facts(self, sum(len(split.files) for split in (*self.before, *self.after)))

    @property
    def row_count(self) -> int:
        """Rows in the files of both states."""
        return sum(s.row_count for s in (*self.before, *self.after))


AnyChange = ChangeSplit | DiffSplit


def _facts(split: AnyChange, files: int) -> Mapping[str, object]:
    return {"snapshot": str(split.snapshot_id), "bucket": split.bucket, "files": files, "rows": split.row_count}


def mode_of(mode: str, schema: TableSchema) -> str:
    """The mode of a table, with ``auto`` resolved to its changelog if it has one, else to its delta."""
    if mode != AUTO:
        return mode
    return DELTA if producer_of(schema) == "none" else CHANGELOG


def producer_of(schema: TableSchema) -> str:
    """The table's changelog producer; ``none`` when its changes are not tracked."""
    options = Options(schema.options)
    return options.need(CHANGELOG_PRODUCER) if options.need(CHANGE_TRACKING) else "none"


def lowest_changelog_level(schema: TableSchema) -> int:
    """The lowest level that the changelog of a table with a key covers: a compaction into it produces the changelog."""
    return {"lookup": 1, "full-compaction": highest_level(schema)}.get(producer_of(schema), 0)


def check_producer(schema: TableSchema) -> None:
    """Raises InvalidOption for a changelog producer that does not go with the table.

    Called for CREATE TABLE and ALTER TABLE. It checks the format's rules and one more. A table's log already is its
    changelog of producer ``input``, in an order that several writers of one bucket cannot produce in files.
    """
    options = Options(schema.options)
    producer = producer_of(schema)
    has_log = options.need(LOG_ENABLED)
    if has_log and not options.need(CHANGE_TRACKING):
        raise InvalidOption(
            f"'{CHANGE_TRACKING.key}' = 'false' declares that no reader follows changes, but '{LOG_ENABLED.key}' = "
            "'true' creates a log for such readers: remove one of the two"
        )
    why = None
    if not schema.is_keyed and producer != "none":
        why = "needs a primary key, and the table has none: every row of it is an insert"
    elif producer not in (fitting := engine_class(options).changelog_producers):
        why = f"does not go with '{MERGE_ENGINE.key}' = '{options.need(MERGE_ENGINE)}': take {' or '.join(fitting)}"
    elif producer == "full-compaction" and options.need(DELETION_VECTORS):
        why = f"does not go with '{DELETION_VECTORS.key}' = 'true': take lookup"
    elif producer in ("lookup", "full-compaction") and options.need(STREAM_OVERWRITE):
        why = f"does not go with '{STREAM_OVERWRITE.key}' = 'true': streams would read changes twice"
    elif producer == "input" and has_log and log_content(options) == INPUT:
        why = (
            "does not go with a log, which has every row as it was written: omit the option, or use lookup or "
            "full-compaction for readers of the files"
        )
    if why is not None:
        raise InvalidOption(f"option '{CHANGELOG_PRODUCER.key}' = '{producer}' {why}")
    compared_columns(schema)


def _oldest_wins(schema: TableSchema) -> bool:
    return schema.is_keyed and engine_class(Options(schema.options)).oldest_wins


@dataclass(frozen=True)
class Changes:
    """Plans the changes of snapshots of one table."""

    manifests: Manifests
    schema: TableSchema
    pruning: Pruning = field(compare=False)

    def has(self, snapshot: Snapshot, mode: str) -> bool:
        """Returns whether a snapshot has changes: new rows (mode delta), or changelog files."""
        if mode == CHANGELOG:
            return snapshot.changelog_manifest_list is not None
        return snapshot.commit_kind == APPEND

    def of_snapshot(self, snapshot: Snapshot, mode: str) -> list[ChangeSplit]:
        return self._splits(self._entries(snapshot, mode), snapshot.id)

    def of_snapshots(self, snapshots: Iterable[Snapshot], mode: str) -> list[ChangeSplit]:
        """The changes of several snapshots for a batch read, in snapshot order within each bucket.

        Overwrites are skipped. Compactions are skipped in mode delta and included in mode changelog. Files of level 0
        are skipped if the table's batch reads skip them (deletion vectors, merge engines whose oldest row wins). Files
        without a bucket (postponed) are always skipped, as in every batch read.
        """
        lowest = 1 if skips_level_zero(self.schema) or _oldest_wins(self.schema) else 0
        entries: list[ManifestEntry] = []
        last = 0
        for snapshot in snapshots:
            last = snapshot.id
            if self.has(snapshot, mode) and snapshot.commit_kind != OVERWRITE:
                listed = self._entries(snapshot, mode)
                entries += [e for e in listed if e.file.level >= lowest and e.bucket != POSTPONE_BUCKET]
        return self._splits(entries, last)

    def overwrite_of(self, snapshot: Snapshot) -> list[ChangeSplit]:
        """The rows that an overwrite removed (tables with a primary key only) and added."""
        retracted = self._splits(self._entries(snapshot, DELTA, DELETE), snapshot.id) if self.schema.is_keyed else []
        return [*(replace(split, retracts=True) for split in retracted), *self.of_snapshot(snapshot, DELTA)]

    def _entries(self, snapshot: Snapshot, mode: str, kind: int = ADD) -> list[ManifestEntry]:
        name = snapshot.changelog_manifest_list if mode == CHANGELOG else snapshot.delta_manifest_list
        out: list[ManifestEntry] = []
        for meta in () if name is None else self.manifests.read_list(name):
            if self.pruning.wants_manifest(meta):
                kept = (
                    e for e in self.manifests.read(meta.file_name) if e.kind == kind and self.pruning.wants_entry(e)
                )
                out += in_reading_order(kept)
        return out

    def _splits(self, entries: Iterable[ManifestEntry], snapshot_id: int) -> list[ChangeSplit]:
        by_bucket: dict[bytes, dict[int, list[DataFileMeta]]] = {}
        skips_postponed = producer_of(self.schema) != "none"
        for entry in entries:
            if entry.bucket != POSTPONE_BUCKET or not skips_postponed:
                by_bucket.setdefault(entry.partition, {}).setdefault(entry.bucket, []).append(entry.file)
        unaware = not self.schema.is_keyed and self.schema.num_buckets == DYNAMIC_BUCKET
        out = []
        for partition, buckets in by_bucket.items():
            for bucket, files in buckets.items():
                ordered = sorted(files, key=lambda f: f.min_sequence_number) if unaware else files
                out.append(ChangeSplit(partition, bucket, tuple(ordered), snapshot_id))
        return out


def in_reading_order(entries: Iterable[ManifestEntry]) -> list[ManifestEntry]:
    """The entries of one manifest in the order of the format's reference reader.

    That reader groups them by (partition, bucket, number of buckets) in a hash table. This function reproduces the
    order of the hash table, so changes of different buckets have the same order.
    """
    by_bucket: dict[tuple[bytes, int, int], list[ManifestEntry]] = {}
    slots = 16
    for entry in entries:
        # the hash table grows on the first access while it is over-full, not when it becomes over-full
        if len(by_bucket) > slots * 3 // 4:
            slots *= 2
        by_bucket.setdefault((entry.partition, entry.bucket, entry.total_buckets), []).append(entry)
    # within one slot the newest entry is first
    newest_first = list(reversed(by_bucket))
    ordered = sorted(newest_first, key=lambda bucket_key: _slot(bucket_key, slots))
    return [entry for bucket_key in ordered for entry in by_bucket[bucket_key]]


def _slot(bucket_key: tuple[bytes, int, int], slots: int) -> int:
    partition, bucket, total = bucket_key
    # a serialised row begins with a prefix of four bytes
    return slot_of(31 * (31 * (31 + murmur_one(partition[4:])) + bucket) + total, slots)


def read_changes(
    files: DataFileReader, split: ChangeSplit, columns: Sequence[str], filter: Predicate | None
) -> Iterator[pa.RecordBatch]:
    """The matching rows of a split, with the table columns ``columns`` and ``_row_kind`` as the last column.

    Called on executors. Raises NotFound if expiry has removed a file.
    """
    schema = files.paths.schema
    needed = [*columns, *sorted((filter.columns if filter else frozenset()) - set(columns))]
    expression = None if filter is None else filter.to_arrow(row_schema(schema, needed, False))
    names = _RETRACTED_KINDS if split.retracts else _KINDS
    for file in split.files:
        for batch in files.read(split.partition, split.bucket, file, needed, True):
            rows = pa.Table.from_batches([batch])
            kept = rows if expression is None else rows.filter(expression)
            yield from (with_kind_names(part, columns, names) for part in kept.to_batches() if part.num_rows)


def with_kind_names(batch: pa.RecordBatch, columns: Sequence[str], names: pa.Array = _KINDS) -> pa.RecordBatch:
    """The table columns ``columns`` of rows and ``_row_kind`` (text) from their ``_VALUE_KIND``."""
    arrays = [batch.column(name) for name in columns]
    fields = [batch.schema.field(name) for name in columns]
    return pa.RecordBatch.from_arrays(
        [*arrays, names.take(batch.column(KIND_COLUMN))], schema=pa.schema([*fields, KIND_FIELD])
    )


def check_range(first: int, last: int, earliest: int | None, latest: int | None, table: str) -> None:
    """Raises NotFound if some changes between two snapshots (the first excluded) have expired."""
    if earliest is None or latest is None or first < earliest - 1 or last > latest:
        has = "it has no snapshots" if earliest is None else f"it has snapshots {earliest} to {latest}"
        raise NotFound(
            f"table {table} has no changes between snapshots {first} and {last}: {has}. Older snapshots may have "
            "expired; start at a later one"
        )


def refuse_diff_without_key(schema: TableSchema) -> None:
    """Raises UnsupportedFeature for a comparison of two states of a table without a primary key."""
    if not schema.is_keyed:
        raise UnsupportedFeature(
            "option 'incremental-between-scan-mode' = 'diff' compares rows by their primary key, and this table has "
            "none: use 'delta', which returns the added rows"
        )
