"""The log partition of a row, and the buckets that may have its key (RFC 18)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow as pa

from lakelog.filestore.read.plan import Split
from lakelog.options.table import BUCKET
from lakelog.paimon.rows.bucket import Hashes, bucket_of_rows, rows_by_bucket
from lakelog.paimon.schema.schema import TableSchema
from lakelog.table.model.log_options import log_partitions


def is_aligned(schema: TableSchema) -> bool:
    """True if the bucket of a row is also its log partition."""
    return not schema.has_dynamic_buckets and log_partitions(schema) == max(1, schema.num_buckets)


def partitioned_schema(schema: TableSchema) -> TableSchema:
    """The schema with the log partitions as buckets, for the functions that compute a bucket."""
    return replace(schema, options={**schema.options, BUCKET.key: str(log_partitions(schema))})


def log_partition_of_rows(rows: pa.RecordBatch | pa.Table, schema: TableSchema) -> Hashes:
    """The log partition of every row (int32); the rows have the columns that decide it, by name."""
    return bucket_of_rows(rows, partitioned_schema(schema))


def common_divisor(schema: TableSchema, splits: Sequence[Split]) -> int:
    """The largest g for which the number of a row's log partition and of its bucket are equal modulo g. Pure."""
    return math.gcd(log_partitions(schema), *(max(1, split.total_buckets) for split in splits))


def may_hold(schema: TableSchema, split: Split, partition: int) -> bool:
    """True if a split of the files may have rows of a log partition. Pure."""
    divisor = common_divisor(schema, [split])
    return split.bucket % divisor == partition % divisor


def by_log_partition(
    rows: pa.RecordBatch, schema: TableSchema, bucket: int, total: int
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Rows of a bucket of ``total``, by log partition and in their order; an empty batch yields nothing."""
    if not rows.num_rows:
        return
    count = log_partitions(schema)
    if count in (1, total):
        yield (0 if count == 1 else bucket), rows
        return
    for partition, indices in rows_by_bucket(log_partition_of_rows(rows, schema)).items():
        yield partition, rows.take(pa.array(indices))
