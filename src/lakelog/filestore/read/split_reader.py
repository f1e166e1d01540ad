"""Reads one split: merges overlapping runs, drops deletes, filters (format sheet 7)."""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakelog.errors import UnsupportedFeature
from lakelog.filestore.metadata.levels import Key, KeyRange, key_value, sorted_runs
from lakelog.filestore.metadata.schemas import Schemas
from lakelog.filestore.read.data_file_reader import (
    SYSTEM_COLUMNS,
    DataFileReader,
    check_complete,
    merge_batch_rows,
    row_schema,
)
from lakelog.filestore.read.deletion_vectors import vector_of
from lakelog.filestore.read.key_set import KeySet
from lakelog.filestore.read.plan import BucketKey, Split, skips_level_zero
from lakelog.filestore.skipping.predicate import Predicate, restrict_to
from lakelog.filestore.skipping.pruning import Pruning
from lakelog.merge import merge_engine
from lakelog.merge.base import KIND_COLUMN, SEQUENCE_COLUMN, KeepAll, MergeEngine, PickingEngine
from lakelog.merge.lowest_level import LowestLevel, with_level
from lakelog.merge.output import Output, in_age_order
from lakelog.merge.runs import merge_runs, sort_run
from lakelog.merge.table_rules import check_mergeable, needs_lookup
from lakelog.options.option import Options
from lakelog.options.table import MERGE_ENGINE
from lakelog.paimon.metadata.data_file import DataFileMeta
from lakelog.paimon.metadata.manifest import ManifestEntry
from lakelog.paimon.rows.row_kind import INSERT, UPDATE_AFTER
from lakelog.paimon.schema.schema import TableSchema
from lakelog.paimon.types.null_rows import cast_rows

_RUNS_AT_ONCE: Final = 4
"""Runs whose first batches are read in parallel."""


def engine_of(schema: TableSchema) -> MergeEngine:
    """The merge engine of a table. Raises InvalidOption for engine options that are incompatible with the columns."""
    return merge_engine(Options(schema.options).need(MERGE_ENGINE), schema)


def files_engine_of(schema: TableSchema) -> MergeEngine:
    """The engine that merges a table's files: ``LowestLevel`` if its compactions look up old values.

    Engines that select one of the rows select the same row without it. Raises InvalidOption as ``engine_of``.
    """
    engine = engine_of(schema)
    keeps_one = isinstance(engine, PickingEngine) and engine.folds_again
    return engine if keeps_one or not needs_lookup(Options(schema.options)) else LowestLevel(engine)


def inline_rows(split_runs: Sequence[bytes], schema: pa.Schema) -> pa.Table:
    """The rows of inline runs (Arrow IPC streams) as one table of these columns."""
    tables = []
    for data in split_runs:
        with pa.ipc.open_stream(data) as stream:
            tables.append(cast_rows(stream.read_all().select(schema.names), schema))
    return pa.concat_tables(tables) if tables else schema.empty_table()


@dataclass(frozen=True)
class SplitReader:
    """Reads splits of one table in bounded memory: two batches of each sorted run.

    With ``keeps_kinds`` every key, also a deleted one, has a row, with its kind in ``_VALUE_KIND``. ``only`` are the
    keys whose rows are returned, None for all; ``columns`` then include the key.
    """

    files: DataFileReader
    keeps_kinds: bool = False
    only: KeySet | None = None

    def read(
        self,
        split: Split,
        columns: Sequence[str] | None = None,
        filter: Predicate | None = None,
        newest: Iterable[pa.RecordBatch] | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """The rows of a split that match ``filter``, with the table columns ``columns`` (None: all), in batches.

        Called on executors. Keyed tables return the newest row of each key, and none for deleted keys. The kinds +I and
        +U are equivalent. ``newest`` is a sorted run of a keyed table that is newer than the split, with all table
        columns and the system columns. Raises NotFound if expiry has removed a file, Corrupt, UnsupportedFeature.
        """
        schema = self.files.paths.schema
        names = list(schema.field_names if columns is None else columns)
        output = [*names, KIND_COLUMN] if self.keeps_kinds else names
        unknown = set(names) - set(schema.field_names)
        needed = [*names, *sorted((filter.columns if filter else frozenset()) - set(names))]
        if unknown:
            schema.select(names)
        merges = split.needs_merge or newest is not None
        batches = self._merged(split, needed, filter, newest) if merges else self._plain(split, needed, filter)
        expression = None if filter is None else filter.to_arrow(row_schema(schema, needed, False))
        for batch in batches:
            rows = batch if expression is None else _matching(batch, expression)
            if rows.num_rows:
                yield rows if rows.schema.names == output else rows.select(output)

    def unfolded(self, split: Split) -> Iterator[pa.RecordBatch]:
        """All rows of a split that count, by key and age, with all columns and the system columns.

        For statements that write them elsewhere: rows that come later may have to be folded among them.
        """
        schema = self.files.paths.schema
        if not schema.is_keyed:
            return self._plain(split, schema.field_names, None)
        every = KeepAll(schema)
        engine = LowestLevel(every) if isinstance(files_engine_of(schema), LowestLevel) else every
        chosen = list(reversed(sorted_runs(split.files, KeyRange.of(schema))))
        batch_rows = merge_batch_rows([run.files for run in chosen])
        runs = [self._run(split, run.files, schema.field_names, None, True, batch_rows) for run in chosen]
        levels = [leveled(rows, run.level, engine) for rows, run in zip(runs, chosen, strict=True)]
        return merge_runs(levels, schema.trimmed_primary_keys, engine)

    def _plain(self, split: Split, columns: Sequence[str], filter: Predicate | None) -> Iterator[pa.RecordBatch]:
        for file in split.files:
            vector = vector_of(split.vectors, file.file_name)
            rows_of_file = self.files.read(
                split.partition, split.bucket, file, columns, self.keeps_kinds, filter, vector
            )
            if self.only is not None:
                rows_of_file = map(self.only.rows_of, rows_of_file)
            yield from self._kept(rows_of_file) if self.keeps_kinds else rows_of_file
        rows = inline_rows(split.inline_runs, row_schema(self.files.paths.schema, columns, True))
        yield from self._kept(rows.to_batches())

    def _merged(
        self,
        split: Split,
        columns: Sequence[str],
        filter: Predicate | None,
        newest: Iterable[pa.RecordBatch] | None,
    ) -> Iterator[pa.RecordBatch]:
        schema = self.files.paths.schema
        keys = schema.trimmed_primary_keys
        engine = files_engine_of(schema)
        needed = [*columns, *(k for k in keys if k not in columns)]
        needed += engine.needed_columns(needed)
        chosen = list(reversed(sorted_runs(split.files, KeyRange.of(schema))))
        # inline runs are newer than all files
        with_numbers = not (isinstance(engine, PickingEngine) and in_age_order(_numbers(run.files) for run in chosen))
        batch_rows = merge_batch_rows([run.files for run in chosen], len(needed) / len(schema.fields))
        runs: list[Iterator[pa.RecordBatch]] = []
        for run in chosen:
            # rows of the oldest run can be dropped early if newer rows replace them completely
            is_hidden = engine.number_decides and not runs and _is_oldest(run.files, split)
            pushed = filter if is_hidden else restrict_to(filter, keys)
            batches = self._run(split, run.files, needed, pushed, with_numbers, batch_rows)
            runs.append(leveled(batches, run.level, engine))
        rows = inline_rows(split.inline_runs, row_schema(schema, needed, True))
        if rows.num_rows:
            folded = sort_run(rows, keys, engine_of(schema))
            folded = folded if with_numbers else folded.drop_columns([SEQUENCE_COLUMN])
            runs.append(leveled(folded.to_batches(), 0, engine))
        if newest is not None:
            names = [*needed, *(SYSTEM_COLUMNS if with_numbers else (KIND_COLUMN,))]
            runs.append(leveled((batch.select(names) for batch in newest), 0, engine))
        read_columns = (*columns, KIND_COLUMN) if self.keeps_kinds else tuple(columns)
        output = Output(read_columns, with_deletes=self.keeps_kinds)
        yield from merge_runs(_started(runs), keys, engine, output)

    def _kept(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return (batch.drop_columns([SEQUENCE_COLUMN]) for batch in batches) if self.keeps_kinds else _live(batches)

    def _run(
        self,
        split: Split,
        files: Sequence[DataFileMeta],
        columns: Sequence[str],
        filter: Predicate | None,
        with_numbers: bool,
        batch_rows: int,
    ) -> Iterator[pa.RecordBatch]:
        for file in files:
            vector = vector_of(split.vectors, file.file_name)
            rows = self.files.read(
                split.partition, split.bucket, file, columns, True, filter, vector, batch_rows, with_numbers
            )
            yield from rows if self.only is None else map(self.only.rows_of, rows)


def _numbers(files: Sequence[DataFileMeta]) -> tuple[int, int]:
    return min(f.min_sequence_number for f in files), max(f.max_sequence_number for f in files)


def leveled(batches: Iterable[pa.RecordBatch], level: int, engine: MergeEngine) -> Iterator[pa.RecordBatch]:
    """The batches of a run, with its level if the engine needs it."""
    return (with_level(batch, level) for batch in batches) if isinstance(engine, LowestLevel) else iter(batches)


def _started(runs: Sequence[Iterator[pa.RecordBatch]]) -> list[Iterator[pa.RecordBatch]]:
    """The same runs, with their first batches read in parallel; after a filter a run is often a single batch."""
    if len(runs) < _RUNS_AT_ONCE:
        return list(runs)
    with ThreadPoolExecutor(_RUNS_AT_ONCE, thread_name_prefix="runs") as threads:
        firsts = list(threads.map(lambda run: next(run, None), runs))
    return [itertools.chain([first], run) for first, run in zip(firsts, runs, strict=True) if first is not None]


def _is_oldest(files: Sequence[DataFileMeta], split: Split) -> bool:
    newest = max(f.max_sequence_number for f in files)
    return all(f in files or f.min_sequence_number > newest for f in split.files)


def _live(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows except deletes, without the system columns."""
    for batch in batches:
        kinds = batch.column(KIND_COLUMN)
        is_row = pc.or_(pc.equal(kinds, INSERT), pc.equal(kinds, UPDATE_AFTER))
        rows = batch.drop_columns(list(SYSTEM_COLUMNS))
        yield rows if pc.all(is_row).as_py() else rows.filter(is_row)


def _matching(batch: pa.RecordBatch, expression: pc.Expression) -> pa.RecordBatch:
    batches = pa.Table.from_batches([batch]).filter(expression).combine_chunks().to_batches()
    return batches[0] if batches else batch.slice(0, 0)


def check_readable(schema: TableSchema) -> None:
    """Raises InvalidRequest for options that do not define how rows of one key are merged. Called before a plan.

    Raises UnsupportedFeature for options by which they are merged in a way that lakelog does not know.
    """
    if schema.is_keyed:
        check_mergeable(schema.options)
        engine_of(schema)


def check_files(entries: Iterable[ManifestEntry], schemas: Schemas) -> None:
    """Raises UnsupportedFeature for live files with only some columns of their rows. Called in a plan."""
    for entry in entries:
        if entry.file.write_cols is not None:
            check_complete(entry.file, schemas.get(entry.file.schema_id))


def check_row_ids(entries: Iterable[ManifestEntry]) -> None:
    """Raises UnsupportedFeature for files with the same rows (data evolution): the newer one replaces their columns.

    Called in the plan of a table that may have such files, with all live files, whatever is read.
    """
    numbered = [e for e in entries if e.file.first_row_id is not None]
    ordered = sorted(numbered, key=lambda e: (e.partition, e.bucket, e.file.first_row_id or 0))
    for older, newer in itertools.pairwise(ordered):
        is_same = (older.partition, older.bucket) == (newer.partition, newer.bucket)
        if is_same and (newer.file.first_row_id or 0) < (older.file.first_row_id or 0) + older.file.row_count:
            raise UnsupportedFeature(
                f"data files '{older.file.file_name}' and '{newer.file.file_name}' hold the same rows (data "
                "evolution), which lakelog cannot join: rewrite the table with another engine"
            )


def merged_buckets(
    schema: TableSchema, extra_runs: Mapping[BucketKey, Sequence[bytes]] | None
) -> frozenset[BucketKey] | None:
    """The buckets whose files no filter may skip by their values: newer rows (None: of all) are folded with theirs."""
    if not schema.is_keyed or engine_of(schema).number_decides:
        return frozenset()
    return None if extra_runs is None else frozenset(extra_runs)


def attach_runs(
    splits: dict[BucketKey, list[Split]],
    extra_runs: Mapping[BucketKey, Sequence[bytes]],
    schema: TableSchema,
    pruning: Pruning,
    snapshot_id: int | None,
    totals: Mapping[bytes, int],
) -> None:
    """Adds runs (Arrow IPC streams, see ``Split.inline_runs``) to the splits of their bucket, in place.

    Rows of keyed tables are sorted and folded, then divided at the key ranges of the splits, so that parts of a bucket
    without new rows need no merge. A bucket without files gets a new split. Tables whose new files are not visible yet
    (``skips_level_zero``) skip these rows, too. ``totals`` are the numbers of buckets of partitions where they differ
    from the table's.
    """
    if skips_level_zero(schema):
        return
    for (partition, bucket), runs in extra_runs.items():
        total = totals.get(partition, schema.num_buckets)
        if not pruning.wants_bucket(partition, bucket, total):
            continue
        bucket_splits = splits.setdefault((partition, bucket), [])
        empty = Split(partition, bucket, total, (), schema.is_keyed, snapshot_id)
        if not schema.is_keyed:
            bucket_splits.append(replace(empty, inline_runs=tuple(runs)))
            continue
        rows = inline_rows(runs, row_schema(schema, schema.field_names, True))
        rows = sort_run(rows, schema.trimmed_primary_keys, engine_of(schema))
        if rows.num_rows:
            splits[partition, bucket] = _cut(rows, bucket_splits or [empty], schema)


def _cut(rows: pa.Table, splits: Sequence[Split], schema: TableSchema) -> list[Split]:
    keys = KeyRange.of(schema)
    columns = [rows.column(k) for k in schema.trimmed_primary_keys]
    out: list[Split] = []
    start = 0
    for at, split in enumerate(splits):
        stop = rows.num_rows
        if at + 1 < len(splits):
            high = max(keys.high(f) for f in split.files)
            stop = bisect_right(range(stop), high, lo=start, key=lambda row: _key(columns, row))
        if stop > start:
            split = replace(split, needs_merge=True, inline_runs=(_to_ipc(rows.slice(start, stop - start)),))
        out.append(split)
        start = stop
    return out


def _key(columns: Sequence[pa.ChunkedArray], row: int) -> Key:
    """The key of a row, comparable with the keys of files."""
    return tuple(_value(column[row]) for column in columns)


def _value(scalar: pa.Scalar) -> Any:
    if pa.types.is_timestamp(scalar.type) and scalar.type.unit == "ns":
        return np.datetime64(scalar.value, "ns")
    return key_value(scalar.as_py())


def _to_ipc(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
        writer.write_table(rows)
    return bytes(sink.getvalue())
