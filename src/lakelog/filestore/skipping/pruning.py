"""Pruning of manifests, partitions, buckets and files by a filter (format sheet 4, 5.1)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final

import numpy as np
import polars as pl
import pyarrow as pa

from lakelog.filestore.metadata.levels import KeyRange
from lakelog.filestore.metadata.schemas import Schemas
from lakelog.filestore.skipping.predicate import (
    And,
    Bounds,
    ColumnBounds,
    Compare,
    IsNull,
    Or,
    Predicate,
    equal_values,
    literal,
    restrict_to,
)
from lakelog.options.option import Options
from lakelog.options.table import BUCKET_FUNCTION
from lakelog.paimon.metadata.column_stats import stats_bounds
from lakelog.paimon.metadata.data_file import DataFileMeta, SimpleStats
from lakelog.paimon.metadata.manifest import ManifestEntry, ManifestFileMeta
from lakelog.paimon.rows.bucket import row_hashes
from lakelog.paimon.rows.partition import decode_partition, partition_types
from lakelog.paimon.schema.schema import TableSchema
from lakelog.paimon.types.arrow import arrow_type
from lakelog.paimon.types.evolution import same_type
from lakelog.paimon.types.types import DataType

_MOST_KEYS: Final = 1000
"""Maximum bucket keys of a filter; a filter with more prunes no bucket."""
_MOST_PARTITIONS: Final = 100
"""Maximum requested partitions that prune manifests; more prune no manifest."""


@dataclass(frozen=True)
class Pruning:
    """The pruning tests of one plan, with the requested ``partitions`` and ``buckets`` (None: all).

    Newer rows are merged with the files of the buckets ``merged`` (partition, bucket; None: all), and may be folded
    with rows that do not match the filter yet.
    """

    schemas: Schemas
    filter: Predicate | None = None
    partitions: frozenset[bytes] | None = None
    buckets: frozenset[int] | None = None
    merged: frozenset[tuple[bytes, int]] | None = frozenset()
    _buckets_by_total: dict[int, frozenset[int] | None] = field(default_factory=dict, compare=False)
    _partition_answers: dict[bytes, bool] = field(default_factory=dict, compare=False)

    @property
    def _schema(self) -> TableSchema:
        return self.schemas.paths.schema

    @cached_property
    def _on_partition(self) -> Predicate | None:
        return restrict_to(self.filter, self._schema.partition_keys)

    @cached_property
    def _on_key(self) -> Predicate | None:
        return restrict_to(self.filter, self._schema.trimmed_primary_keys)

    @cached_property
    def _partitions_asked(self) -> Predicate | None:
        """The requested partitions as a condition on their columns; None if all or too many."""
        keys = self._schema.partition_keys
        if self.partitions is None or not keys or len(self.partitions) > _MOST_PARTITIONS:
            return None
        rows = (decode_partition(partition, self._schema) for partition in self.partitions)
        return Or(*(And(*map(_is, keys, row)) for row in rows))

    @property
    def wants_all(self) -> bool:
        """True if there is nothing to skip by."""
        return self.filter is None and self.partitions is None and self.buckets is None

    def wants_manifest(self, meta: ManifestFileMeta) -> bool:
        """Returns whether a manifest may have requested entries.

        It does not test the bucket of a key, because a manifest list lacks the bucket counts of its partitions, and
        other engines may rescale a partition to a bucket count that is in no schema.
        """
        return self._wants_partitions(meta) and self._wants_buckets(meta)

    def _wants_partitions(self, meta: ManifestFileMeta) -> bool:
        tests = [p for p in (self._on_partition, self._partitions_asked) if p is not None]
        if not tests:
            return True
        rows = meta.num_added_files + meta.num_deleted_files
        keys, types = self._schema.partition_keys, partition_types(self._schema)
        bounds = _bounds(meta.partition_stats, keys, types, rows)
        return all(test.may_match(bounds) for test in tests)

    def _wants_buckets(self, meta: ManifestFileMeta) -> bool:
        low, high = meta.min_bucket, meta.max_bucket
        return low is None or high is None or _any_between(self.buckets, low, high)

    def wants_entry(self, entry: ManifestEntry) -> bool:
        """Returns whether a file's partition, bucket and key range match; the same for its ADD and its DELETE."""
        if not self.wants_bucket(entry.partition, entry.bucket, entry.total_buckets):
            return False
        return self._on_key is None or self._on_key.may_match(self._key_bounds(entry.file))

    def wants_bucket(self, partition: bytes, bucket: int, total_buckets: int) -> bool:
        """Returns whether a bucket may have requested rows."""
        if self.buckets is not None and bucket not in self.buckets:
            return False
        if self.partitions is not None and partition not in self.partitions:
            return False
        buckets = self._wanted_buckets(total_buckets)
        return (buckets is None or bucket in buckets) and self._wants_partition(partition)

    def within(self, bucket_key: tuple[bytes, int]) -> Pruning:
        """The tests of the files of one bucket."""
        is_merged = self.merged is None or bucket_key in self.merged
        return replace(self, filter=None) if is_merged and self.filter is not None else self

    def may_have_rows(self, file: DataFileMeta) -> bool:
        """Returns whether a file may have matching rows, by its value statistics.

        Only for files whose rows hide no older rows of other files: append tables, and sections of one run.
        """
        return self.filter is None or self.filter.may_match(self._value_bounds(file))

    def _wants_partition(self, partition: bytes) -> bool:
        if self._on_partition is None:
            return True
        answer = self._partition_answers.get(partition)
        if answer is None:
            values = decode_partition(partition, self._schema)
            exact = {
                name: ColumnBounds(value, value, int(value is None), 1)
                for name, value in zip(self._schema.partition_keys, values, strict=True)
            }
            answer = self._partition_answers[partition] = self._on_partition.may_match(exact)
        return answer

    def _wanted_buckets(self, total: int) -> frozenset[int] | None:
        if total not in self._buckets_by_total:
            self._buckets_by_total[total] = _buckets_of(self.filter, self._schema, total)
        return self._buckets_by_total[total]

    def _key_bounds(self, file: DataFileMeta) -> Bounds:
        keys = self._schema.trimmed_primary_keys
        key_range = KeyRange.of(self._schema)
        bounds = dict(_bounds(file.key_stats, keys, key_range.types, file.row_count))
        # the key range itself bounds the first key column, and is never truncated, regardless of the statistics
        bounds[keys[0]] = ColumnBounds(key_range.low(file)[0], key_range.high(file)[0], 0, file.row_count)
        return bounds

    def _value_bounds(self, file: DataFileMeta) -> Bounds:
        written = self.schemas.get(file.schema_id)
        names = written.field_names if file.value_stats_cols is None else file.value_stats_cols
        fields = {f.id: (at, f) for at, f in enumerate(written.select(names))}
        types = tuple(f.type for _, f in fields.values())
        file_ids = {f.id for f in written.fields}
        bounds = {}
        for name in self.filter.columns if self.filter else ():
            column = self._schema.field(name)
            if column.id not in file_ids:
                bounds[name] = ColumnBounds(None, None, file.row_count, file.row_count)
            elif column.id in fields and same_type(fields[column.id][1].type, column.type):
                bounds[name] = _one(file.value_stats, types, fields[column.id][0], file.row_count)
        return bounds


def _is(column: str, value: Any) -> Predicate:
    return IsNull(column) if value is None else Compare(column, "=", value)


def _any_between(buckets: frozenset[int] | None, low: int, high: int) -> bool:
    return buckets is None or any(low <= b <= high for b in buckets)


def _bounds(
    stats: SimpleStats, names: tuple[str, ...], types: tuple[DataType, ...], rows: int
) -> Mapping[str, ColumnBounds]:
    return {name: _one(stats, types, at, rows) for at, name in enumerate(names)}


def _one(stats: SimpleStats, types: tuple[DataType, ...], at: int, rows: int) -> ColumnBounds:
    low, high, nulls = stats_bounds(stats, types, at)
    return ColumnBounds(low, high, nulls, rows)


def _buckets_of(filter: Predicate | None, schema: TableSchema, total: int) -> frozenset[int] | None:
    """The buckets of the bucket keys in a filter; None if the filter has none or too many."""
    keys = schema.select(schema.bucket_keys)
    if filter is None or total <= 1 or not keys or Options(schema.options).need(BUCKET_FUNCTION) != "default":
        return None
    choices: list[tuple[Any, ...]] = []
    for key in keys:
        named = equal_values(filter, key.name)
        if named is None:
            return None
        choices.append(named)
    if math.prod(len(named) for named in choices) > _MOST_KEYS:
        return None
    rows = [row for row in itertools.product(*choices) if None not in row]
    if not rows:
        return frozenset()
    columns = [exact_column([row[at] for row in rows], arrow_type(key.type)) for at, key in enumerate(keys)]
    if any(column is None for column in columns):
        return None
    hashes = row_hashes(columns, [key.type for key in keys])
    return frozenset(np.abs(np.fmod(hashes, np.int32(total))).tolist())


def exact_column(values: Sequence[Any], kind: pa.DataType) -> pa.Array | None:
    """Values of a filter as a column of a type; None if the type cannot represent each of them exactly.

    The values are hashed, so equal values must have equal bits, and floats are never exact.
    """
    # Arrow imports pandas for Python values, which takes longer than the rest of a plan; polars does not
    if pa.types.is_integer(kind) and all(type(v) is int and abs(v) < 1 << 63 for v in values):
        try:
            return pl.Series(values, dtype=pl.Int64).to_arrow().cast(kind)
        except pa.ArrowInvalid:
            return None
    if pa.types.is_string(kind) and all(isinstance(v, str) for v in values):
        return pl.Series(values, dtype=pl.String).to_arrow().cast(kind)
    scalars = [literal(v, kind) for v in values]
    # equal floats may have different bits, and so different hashes
    if pa.types.is_floating(kind) or any(s.type != kind for s in scalars):
        return None
    return pa.array([s.value if pa.types.is_timestamp(kind) else s.as_py() for s in scalars], kind)
