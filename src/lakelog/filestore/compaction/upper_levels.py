"""Lookup of keys in the levels above the output of a compaction (format sheet 7)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from lakelog.filestore.compaction.lookup_cache import process_cache
from lakelog.filestore.metadata.levels import KeyRange, SortedRun, sorted_runs
from lakelog.filestore.read.data_file_reader import DataFileReader
from lakelog.merge.base import Indices
from lakelog.merge.keys import Key, Part, find_keys, key_at, key_parts, taken
from lakelog.options.option import Options
from lakelog.paimon.index.deletion_vector import Positions
from lakelog.paimon.metadata.data_file import DataFileMeta
from lakelog.paimon.schema.schema import TableSchema
from lakelog.paimon.types.arrow import arrow_type


@dataclass(frozen=True)
class Hits:
    """Rows of one data file with requested keys.

    ``keys`` are the indices of the keys in the request, ``positions`` the positions of the rows in the file, ``rows``
    the rows with the columns of the finder.
    """

    file: DataFileMeta
    keys: Indices
    positions: Indices
    rows: pa.RecordBatch


@dataclass(frozen=True)
class UpperFiles:
    """The unchanged files of a bucket in a compaction, which are all older than the compacted files.

    ``deleted`` are the deleted positions of the files with a deletion vector.
    """

    reader: DataFileReader
    partition: bytes
    bucket: int
    files: tuple[DataFileMeta, ...]
    deleted: Mapping[str, Positions]

    def finder(self, with_rows: bool) -> UpperLevels:
        """A finder that reads the key columns only, or whole rows with ``_SEQUENCE_NUMBER`` and ``_VALUE_KIND``."""
        schema = self.reader.paths.schema
        columns = schema.field_names if with_rows else schema.trimmed_primary_keys
        runs = sorted_runs(self.files, KeyRange.of(schema))
        return UpperLevels([_Level(run, self, columns, with_rows) for run in runs], len(schema.trimmed_primary_keys))

    def keyed_batches(self, file: DataFileMeta, columns: Sequence[str], with_rows: bool) -> Iterator[_KeyedBatch]:
        """The rows of a file in batches."""
        schema = self.reader.paths.schema
        names = schema.trimmed_primary_keys
        deleted = self.deleted.get(file.file_name)
        path = self.reader.paths.data_file(self.partition, self.bucket, file)
        # branches share files, and one schema id may have different columns in two branches
        copy = f"{self.reader.io.absolute(path)} {schema.id} {schema.select(columns)} {with_rows}"
        rows = process_cache().batches(
            copy,
            lambda: self.reader.read(self.partition, self.bucket, file, columns, with_rows),
            Options(schema.options),
        )
        first = 0
        for batch in rows:
            if batch.num_rows:
                yield _KeyedBatch(file, first, batch, key_parts(batch, names), deleted)
            first += batch.num_rows


class UpperLevels:
    """Looks up keys in increasing order over all calls, so that each file is read at most once.

    Buffers one batch of each level.
    """

    def __init__(self, levels: Sequence[_Level], key_columns: int) -> None:
        self._levels = levels
        self._key_columns = key_columns

    def find(self, keys: Sequence[Part]) -> Iterator[Hits]:
        """The newest row of each key with a row; ``keys`` are sorted, distinct key columns (``merge.keys``)."""
        left = np.arange(len(keys[0]))
        for level in self._levels:
            if not len(left):
                return
            keys_left = [taken(part, left) for part in keys]
            low, high = key_at(keys_left, 0), key_at(keys_left, len(left) - 1)
            seen = np.zeros(len(left), dtype=np.bool_)
            for stretch in level.between(low, high):
                at = stretch.rows_of(keys_left)
                hits = np.flatnonzero(at >= 0)
                if len(hits):
                    seen[hits] = True
                    positions = at[hits]
                    rows = stretch.batch.take(pa.array(positions))
                    yield Hits(stretch.file, left[hits], stretch.first + positions, rows)
            left = left[~seen]


@dataclass(frozen=True)
class _KeyedBatch:
    """A batch of a file; ``first`` is the position of its first row."""

    file: DataFileMeta
    first: int
    batch: pa.RecordBatch
    parts: list[Part]
    deleted: Positions | None

    @property
    def low(self) -> Key:
        return key_at(self.parts, 0)

    @property
    def high(self) -> Key:
        return key_at(self.parts, self.batch.num_rows - 1)

    def rows_of(self, keys: Sequence[Part]) -> Indices:
        """The row of each key; -1 for a key without a row or with a deleted one."""
        at = find_keys(keys, self.parts)
        if self.deleted is None or not len(self.deleted):
            return at
        positions = self.first + at
        nearest = np.minimum(np.searchsorted(self.deleted, positions), len(self.deleted) - 1)
        return np.where(self.deleted[nearest] == positions, -1, at)


class _Level:
    """The files of one level, read from the smallest key to the largest."""

    def __init__(self, run: SortedRun, source: UpperFiles, columns: Sequence[str], with_rows: bool) -> None:
        schema = source.reader.paths.schema
        self._files = deque((file, *_key_range(file, schema)) for file in run.files)
        self._read: Callable[[DataFileMeta], Iterable[_KeyedBatch]] = lambda f: source.keyed_batches(
            f, columns, with_rows
        )
        self._stretches: Iterator[_KeyedBatch] = iter(())
        self._held: _KeyedBatch | None = None

    def between(self, low: Key, high: Key) -> Iterator[_KeyedBatch]:
        """The batches with possible keys from ``low`` to ``high``."""
        while self._fill(low, high):
            batches = self._held
            if batches is None or batches.low > high:
                return
            yield batches
            if batches.high > high:
                return
            self._held = None

    def _fill(self, low: Key, high: Key) -> bool:
        """Returns whether a batch does not end before ``low``; opens no files outside of the key range."""
        while self._held is None or self._held.high < low:
            self._held = next(self._stretches, None)
            if self._held is not None:
                continue
            while self._files and self._files[0][2] < low:
                self._files.popleft()
            if not self._files or self._files[0][1] > high:
                return False
            self._stretches = iter(self._read(self._files.popleft()[0]))
        return True


def _key_range(file: DataFileMeta, schema: TableSchema) -> tuple[Key, Key]:
    """The smallest and the largest key of a file, comparable with those of rows."""
    keys = KeyRange.of(schema)
    fields = schema.select(schema.trimmed_primary_keys)
    ends = zip(fields, keys.low(file), keys.high(file), strict=True)
    batch = pa.record_batch({f.name: _values([low, high], arrow_type(f.type)) for f, low, high in ends})
    parts = key_parts(batch, [f.name for f in fields])
    return key_at(parts, 0), key_at(parts, 1)


def _values(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    # nanoseconds have no zone
    if pa.types.is_timestamp(kind) and kind.unit == "ns":
        return pa.array(values, pa.timestamp("ns")).cast(kind)
    return pa.array(values, kind)
