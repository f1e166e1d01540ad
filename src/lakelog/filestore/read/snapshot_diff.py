"""Comparison of two states of a keyed table: new, changed and deleted rows (format sheet 13, mode diff).

It reads both states merged and in key order, and iterates them together, so memory is bounded.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakelog.filestore.metadata.levels import Key, KeyRange
from lakelog.filestore.read.changes import DiffSplit, with_kind_names
from lakelog.filestore.read.data_file_reader import DataFileReader, row_schema
from lakelog.filestore.read.plan import BucketKey, Split
from lakelog.filestore.read.split_reader import SplitReader
from lakelog.filestore.skipping.predicate import Predicate, restrict_to
from lakelog.merge.base import KIND_COLUMN, SEQUENCE_COLUMN, MergeEngine, Piece
from lakelog.merge.changes import equal
from lakelog.merge.runs import merge_runs
from lakelog.paimon.rows.row_kind import DELETE, INSERT, UPDATE_AFTER

BEFORE: Final = 0
AFTER: Final = 1
"""Sequence numbers of the rows of two states."""

ALL_BUCKETS: Final = -1
"""The bucket of a split with all buckets of a partition."""


def plan_diff(
    before: Sequence[Split], after: Sequence[Split], snapshot_id: int, moved: Collection[bytes] = ()
) -> list[DiffSplit]:
    """The buckets in which two states differ; skips buckets with the same files. Pure.

    ``moved`` are the partitions in which a key may have another bucket than before: each of them is one split.
    """
    by_bucket: dict[BucketKey, tuple[list[Split], list[Split]]] = {}
    for side, splits in enumerate((before, after)):
        for split in splits:
            bucket = ALL_BUCKETS if split.partition in moved else split.bucket
            by_bucket.setdefault((split.partition, bucket), ([], []))[side].append(split)
    return [
        DiffSplit(partition, bucket, tuple(old), tuple(new), snapshot_id)
        for (partition, bucket), (old, new) in by_bucket.items()
        if _contents(old) != _contents(new)
    ]


def rescaled_partitions(before: Sequence[Split], after: Sequence[Split]) -> set[bytes]:
    """The partitions whose number of buckets differs between two states. Pure."""
    totals = {split.partition: split.total_buckets for split in before}
    return {s.partition for s in after if totals.get(s.partition, s.total_buckets) != s.total_buckets}


def _contents(splits: Iterable[Split]) -> set[tuple[object, ...]]:
    # splits with the same files may have different deletion vectors
    return {(s.files, s.needs_merge, getattr(s, "vectors", ())) for s in splits}


def read_diff(
    files: DataFileReader,
    split: DiffSplit,
    columns: Sequence[str],
    filter: Predicate | None,
    keeps_deletes: bool,
) -> Iterator[pa.RecordBatch]:
    """The new and changed rows of the later state, with the table columns ``columns`` and then ``_row_kind``.

    ``keeps_deletes`` adds the last row of each deleted key with kind -D. ``filter`` applies to the result. Called on
    executors.
    """
    schema = files.paths.schema
    keys = schema.trimmed_primary_keys
    compared = list(schema.field_names)
    expression = None if filter is None else filter.to_arrow(row_schema(schema, compared, False))
    on_keys = restrict_to(filter, keys)
    reader = SplitReader(files, keeps_kinds=True)
    sides = [
        state_run(reader, splits, compared, on_keys, number)
        for number, splits in ((BEFORE, split.before), (AFTER, split.after))
    ]
    for batch in merge_runs(sides, keys, Difference(compared, keeps_deletes)):
        table = pa.Table.from_batches([batch])
        kept = table if expression is None else table.filter(expression)
        yield from (with_kind_names(rows, columns) for rows in kept.to_batches() if rows.num_rows)


def state_run(
    reader: SplitReader, splits: Sequence[Split], columns: Sequence[str], filter: Predicate | None, number: int
) -> Iterator[pa.RecordBatch]:
    """One state as a sorted run whose sequence number identifies the state."""
    schema = reader.files.paths.schema
    keys = KeyRange.of(schema)
    runs = [
        numbered(itertools.chain.from_iterable(reader.read(part, columns, filter) for part in chain), number)
        for chain in chains(splits, keys)
    ]
    return runs[0] if len(runs) == 1 else merge_runs(runs, schema.trimmed_primary_keys, _KeepNewest())


def chains(splits: Iterable[Split], keys: KeyRange) -> list[list[Split]]:
    """The minimum number of lists of split parts in which each part starts after the keys of the previous one. Pure.

    A merged split is one part. In other splits each file is a part, because their files are not ordered.
    """
    parts: list[Split] = []
    for split in splits:
        parts += [split] if split.needs_merge else [replace(split, files=(file,)) for file in split.files]
    ranges = sorted(
        ((min(map(keys.low, p.files)), max(map(keys.high, p.files)), p) for p in parts), key=lambda item: item[:2]
    )
    out: list[list[Split]] = []
    ends: list[tuple[Key, int]] = []
    for low, high, part in ranges:
        if ends and ends[0][0] < low:
            out[ends[0][1]].append(part)
            heapq.heapreplace(ends, (high, ends[0][1]))
        else:
            heapq.heappush(ends, (high, len(out)))
            out.append([part])
    return out


def numbered(batches: Iterator[pa.RecordBatch], number: int, keeps_deletes: bool = False) -> Iterator[pa.RecordBatch]:
    """The rows with a sequence number, without deleted ones unless ``keeps_deletes``."""
    for batch in batches:
        kinds = batch.column(KIND_COLUMN)
        rows = batch if keeps_deletes else batch.filter(pc.or_(pc.equal(kinds, INSERT), pc.equal(kinds, UPDATE_AFTER)))
        at = rows.schema.get_field_index(KIND_COLUMN)
        sequence = pa.array(np.full(rows.num_rows, number, dtype=np.int64))
        yield rows.add_column(at, pa.field(SEQUENCE_COLUMN, pa.int64(), nullable=False), sequence)


class _KeepNewest(MergeEngine):
    """Returns rows unchanged, because every key is unique."""

    sequence_fields: tuple[str, ...] = ()

    def __init__(self) -> None:
        self.ignore_delete = False

    def fold(self, piece: Piece) -> pa.Table:
        return piece.rows_at(piece.newest)


class Difference(MergeEngine):
    """Folds the old and the new row of each key to its change; ``columns`` are compared."""

    sequence_fields: tuple[str, ...] = ()

    def __init__(self, columns: Sequence[str], keeps_deletes: bool) -> None:
        self.ignore_delete = False
        self.columns, self.emits_deletes = tuple(columns), keeps_deletes

    def fold(self, piece: Piece) -> pa.Table:
        sizes = np.diff(piece.starts, append=piece.rows.num_rows)
        newest = piece.rows_at(piece.newest)
        is_after = newest.column(SEQUENCE_COLUMN).to_numpy() == AFTER
        both = sizes == 2
        changed = np.ones(len(sizes), dtype=np.bool_)
        if both.any():
            old, new = piece.rows_at(piece.starts[both]), piece.rows_at(piece.newest[both])
            changed[both] = ~np.logical_and.reduce([equal(old.column(c), new.column(c)) for c in self.columns])
        is_deleted = ~is_after
        kinds = np.where(is_deleted, DELETE, newest.column(KIND_COLUMN).to_numpy()).astype(np.int8)
        at = newest.schema.get_field_index(KIND_COLUMN)
        marked = newest.set_column(at, newest.schema.field(at), pa.array(kinds))
        return marked.filter(pa.array((is_after & changed) | (is_deleted & self.emits_deletes)))
