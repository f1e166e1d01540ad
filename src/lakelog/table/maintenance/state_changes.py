"""The changes of a table between two snapshots, as rows with kinds, bucket by bucket (RFC 14).

Keyed tables: the two merged states are compared, for the keys in the files that were committed in between. Tables
without a key: the rows of added and removed files, as a multiset.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from lakelog.errors import NotFound
from lakelog.filestore.metadata.levels import has_deletes
from lakelog.filestore.read.plan import BucketKey, Split, skips_level_zero
from lakelog.filestore.read.snapshot_diff import plan_diff, rescaled_partitions
from lakelog.filestore.read.transitions import Written, read_transitions
from lakelog.merge.table_rules import needs_lookup
from lakelog.options.option import Options
from lakelog.options.retention import RECORD_EXPIRE_TIME
from lakelog.paimon.metadata.data_file import DataFileMeta
from lakelog.paimon.metadata.manifest import ADD, ManifestEntry
from lakelog.paimon.metadata.snapshot import APPEND, COMPACT, OVERWRITE, Snapshot
from lakelog.paimon.rows.row_kind import ROW_KIND_COLUMN, with_kind
from lakelog.paimon.schema.schema import DYNAMIC_BUCKET
from lakelog.table.log.partitions import by_log_partition
from lakelog.table.log.row_hashes import row_hashes
from lakelog.table.model.dynamic_table import DynamicTable

_COUNTED_ROWS: Final = 1_000_000
"""Number of rows whose hashes are counted at a time."""

StateChanges = Iterator[tuple[int, pa.RecordBatch]]
"""(log partition, rows with the columns and ``_row_kind``); a -U is directly before its +U."""


def state_changes(
    table: DynamicTable,
    before: Snapshot | None,
    after: Snapshot | None,
    is_chain: bool = True,
    columns: Sequence[str] | None = None,
) -> StateChanges:
    """The changes that turn the rows of one snapshot into those of another one, which may be older.

    The rows have ``columns`` (None: all), which include the primary key. A row of a table with a key that changes in
    other columns only may be left out. Without ``is_chain``, one of the snapshots may be a tag or of a branch, so those
    between them say nothing.

    Memory is bounded; tables without a key keep 16 bytes per row of rewritten files. Raises NotFound if expiry has
    removed one of the snapshots.
    """
    names = list(table.schema.field_names if columns is None else columns)
    if table.schema.is_keyed:
        return _keyed_changes(table, before, after, is_chain, names)
    return _selected(_multiset_changes(table, before, after), names)


def _selected(changes: StateChanges, columns: Sequence[str]) -> StateChanges:
    return ((partition, batch.select([*columns, ROW_KIND_COLUMN])) for partition, batch in changes)


def _keyed_changes(
    table: DynamicTable, before: Snapshot | None, after: Snapshot | None, is_chain: bool, names: Sequence[str]
) -> StateChanges:
    store = table.store
    touched = _touched_files(table, before, after) if is_chain else None
    old, new = (store.plan(0 if snapshot is None else snapshot) for snapshot in (before, after))
    moved = _moved_partitions(table, old, new, before, after)
    for partition in sorted(moved):
        removed, added = ([s for s in splits if s.partition == partition] for splits in (old, new))
        if removed != added:
            yield from _selected(_surplus(table, removed, added), names)
    old, new = ([s for s in splits if s.partition not in moved] for splits in (old, new))
    for split in plan_diff(old, new, id_of(after)):
        total = (*split.before, *split.after)[0].total_buckets
        files = None if touched is None else touched.get((split.partition, split.bucket))
        if touched is not None and files is None:
            continue
        for batch in read_transitions(store.files, split, names, files):
            yield from by_log_partition(batch, table.schema, split.bucket, total)


def _moved_partitions(
    table: DynamicTable, old: Sequence[Split], new: Sequence[Split], before: Snapshot | None, after: Snapshot | None
) -> set[bytes]:
    """The partitions in which a key may have another bucket than before (RFC 18)."""
    moved = rescaled_partitions(old, new)
    if table.schema.num_buckets != DYNAMIC_BUCKET:
        return moved
    try:
        was_overwritten = any(s.commit_kind == OVERWRITE for s in _snapshots_between(table, before, after))
    except NotFound:
        was_overwritten = True
    return moved | ({split.partition for split in (*old, *new)} if was_overwritten else set())


def id_of(snapshot: Snapshot | None) -> int:
    """The number of a snapshot, 0 before the first one."""
    return 0 if snapshot is None else snapshot.id


def _touched_files(
    table: DynamicTable, before: Snapshot | None, after: Snapshot | None
) -> dict[BucketKey, Written] | None:
    """(Partition, bucket) → the files that have every key whose row may differ; None if a commit is unknown."""
    out: dict[BucketKey, Written] = {}
    is_forward = id_of(before) <= id_of(after)
    try:
        between = _snapshots_between(table, before, after)
    except NotFound:
        return None
    for snapshot in between:
        entries: dict[BucketKey, list[ManifestEntry]] = {}
        for entry in table.store.manifests.delta(snapshot):
            if snapshot.commit_kind != COMPACT or _is_shown_by_compaction(table, entry.file):
                entries.setdefault((entry.partition, entry.bucket), []).append(entry)
        for place, changed in entries.items():
            are_added = is_forward and snapshot.commit_kind == APPEND and all(e.kind == ADD for e in changed)
            out.setdefault(place, Written()).add([e.file for e in changed], are_added)
    return out


def _snapshots_between(table: DynamicTable, before: Snapshot | None, after: Snapshot | None) -> list[Snapshot]:
    """The snapshots after the older and up to the newer one. Raises NotFound if one of them has expired."""
    first, last = sorted((id_of(before), id_of(after)))
    if first and first not in table.store.snapshots.chain_ids():
        raise NotFound(f"snapshot {first} of table {table.name} has expired")
    return [table.store.snapshot(number) for number in range(first + 1, last + 1)]


def _is_shown_by_compaction(table: DynamicTable, file: DataFileMeta) -> bool:
    """True if a compaction that adds or removes this file may change the result of a batch read.

    A compaction with lookups folds the only row of a key, too. A retraction of a key that is not in the table is thus a
    row afterwards: a sum of -5, for example.
    """
    options = Options(table.schema.options)
    if options.get_typed(RECORD_EXPIRE_TIME) is not None:
        return True
    return file.level == 0 and (skips_level_zero(table.schema) or (needs_lookup(options) and has_deletes(file)))


def _multiset_changes(table: DynamicTable, before: Snapshot | None, after: Snapshot | None) -> StateChanges:
    store = table.store
    try:
        steps = _snapshots_between(table, before, after) if id_of(before) <= id_of(after) else None
    except NotFound:
        steps = None
    if steps is None:
        yield from _exchanged(table, before, after)
        return
    for snapshot in steps:
        if snapshot.commit_kind == APPEND:
            added = [e for e in store.manifests.delta(snapshot) if e.kind == ADD]
            for entry in sorted(added, key=lambda e: (e.bucket, e.file.min_sequence_number)):
                split = Split(entry.partition, entry.bucket, entry.total_buckets, (entry.file,), False)
                yield from _marked(table, split, "+I")
        elif snapshot.commit_kind != COMPACT:
            previous = snapshot.id - 1
            yield from _exchanged(table, store.snapshot(previous) if previous else None, snapshot)


def _exchanged(table: DynamicTable, before: Snapshot | None, after: Snapshot | None) -> StateChanges:
    """The rows of the files that only one of two states has; rows in both are left out."""
    old, new = (files_of(table, snapshot) for snapshot in (before, after))
    kept = {file_key(split) for split in old} & {file_key(split) for split in new}
    sides = ([split for split in splits if file_key(split) not in kept] for splits in (old, new))
    yield from exchanged_rows(table, *sides)


def exchanged_rows(table: DynamicTable, removed: Sequence[Split], added: Sequence[Split]) -> StateChanges:
    """The rows without a key that some files have more often than others: the removed ones first, in each bucket.

    Memory is bounded but for 16 bytes a row, and for the hash of each row that only one side has.
    """
    totals = {s.partition: s.total_buckets for s in removed}
    if any(totals.get(s.partition, s.total_buckets) != s.total_buckets for s in added):
        yield from _surplus(table, removed, added)
        return
    for bucket in sorted({s.bucket for s in (*removed, *added)}):
        sides = [[s for s in splits if s.bucket == bucket] for splits in (removed, added)]
        if all(sides):
            yield from _surplus(table, *sides)
            continue
        for kind, splits in zip(("-D", "+I"), sides, strict=True):
            for split in splits:
                yield from _marked(table, split, kind)


def files_of(
    table: DynamicTable, snapshot: Snapshot | None, partitions: Collection[bytes] | None = None
) -> list[Split]:
    """The files of a state in some partitions (None: all), each with its deletion vector."""
    splits = table.store.plan(0 if snapshot is None else snapshot, partitions=partitions)
    return [
        replace(s, files=(f,), snapshot_id=None, vectors=tuple(v for v in s.vectors if v.data_file == f.file_name))
        for s in splits
        for f in s.files
    ]


def file_key(split: Split) -> tuple[object, ...]:
    """What makes a file of ``files_of`` the same in two states: its rows are those of the other one."""
    return split.partition, split.bucket, split.files[0].file_name, split.vectors


def _surplus(table: DynamicTable, removed: Sequence[Split], added: Sequence[Split]) -> StateChanges:
    """The rows that one side has more often than the other: first the removed ones, then the new ones."""
    hashes = [_hashes(table, splits) for splits in (removed, added)]
    net = _net(*hashes)
    for kind, sign, splits, rows in zip(("-D", "+I"), (-1, 1), (removed, added), hashes, strict=True):
        is_surplus, start = _is_surplus(rows, net.with_columns(pl.col("n") * sign)), 0
        for split in splits:
            for bucket, batch in _marked(table, split, kind):
                chosen = is_surplus[start : start + batch.num_rows]
                start += batch.num_rows
                if chosen.any():
                    yield bucket, batch.filter(pa.array(chosen))


def _net(removed: pl.DataFrame, added: pl.DataFrame) -> pl.DataFrame:
    """The hashes that one side has more often, with the number ``n``: negative for removed rows."""
    parts = 1 + (len(removed) + len(added)) // _COUNTED_ROWS
    found = []
    for part in range(parts):  # what is grouped needs many times the memory of the hashes
        sides = zip((removed, added), (-1, 1), strict=True)
        counts = [
            rows.lazy().filter(pl.col("a") % parts == part).with_columns(pl.lit(sign, pl.Int64).alias("n"))
            for rows, sign in sides
        ]
        found.append(pl.concat(counts).group_by("a", "b").agg(pl.col("n").sum()).filter(pl.col("n") != 0).collect())
    return pl.concat(found)


def _is_surplus(rows: pl.DataFrame, net: pl.DataFrame) -> npt.NDArray[np.bool_]:
    """A mask with True for the first ``n`` rows of each hash in ``net``."""
    chosen = (
        rows.with_row_index("row")
        .lazy()
        .join(net.lazy().filter(pl.col("n") > 0), on=["a", "b"])
        .sort("row")
        .filter(pl.col("a").cum_count().over("a", "b").cast(pl.Int64) <= pl.col("n"))
        .select("row")
        .collect()
    )
    out = np.zeros(len(rows), dtype=np.bool_)
    out[chosen.to_series().to_numpy()] = True
    return out


def _hashes(table: DynamicTable, splits: Iterable[Split]) -> pl.DataFrame:
    parts = [row_hashes(table.schema, batch) for split in splits for _, batch in _marked(table, split, "+I")]
    return pl.concat(parts) if parts else pl.DataFrame(schema={"a": pl.UInt64, "b": pl.UInt64})


def _marked(table: DynamicTable, split: Split, kind: str) -> StateChanges:
    for batch in table.store.read_split(split):
        if batch.num_rows:
            yield from by_log_partition(with_kind(batch, kind), table.schema, split.bucket, split.total_buckets)
