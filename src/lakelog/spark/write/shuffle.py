"""Shuffles the rows of a bucket into one Spark task before the write, so that each bucket gets one sorted file.

Otherwise every task writes a file for each of its buckets: as many sorted runs as tasks, which readers merge until a
compaction. If the bucket key allows it, Spark itself computes the bucket of a row: Murmur3 over the words of the key's
BinaryRow (format sheet 5.1), in 64-bit numbers because Spark's do not wrap around.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import IntegerType
from pyspark.sql.utils import is_remote

from lakelog.merge.table_rules import needs_lookup
from lakelog.options.option import Options
from lakelog.options.table import BUCKET_FUNCTION, COMPACTION_TRIGGER, WRITE_ONLY, WRITE_SHUFFLE
from lakelog.paimon.rows.binary_row import head_size
from lakelog.paimon.rows.bucket import bucket_of_rows
from lakelog.paimon.rows.murmur import ADD, C1, C2, M1, M2, MASK, SEED, mix_one
from lakelog.paimon.schema.schema import TableSchema
from lakelog.paimon.types.types import AtomicType, DataField
from lakelog.spark.compat.arrow import with_arrow_column
from lakelog.spark.compat.partition_ids import by_partition_id
from lakelog.spark.runtime.types import column_of
from lakelog.spark.runtime.worker import prepare_worker
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.staging.conform import conform

_TASK_BYTES: Final = 16 << 20
"""Input size per task, by Spark's estimate of the frame; for files mostly their compressed size."""
_BUCKET: Final = "_lakelog_bucket"
_HASH: Final = "_lakelog_hash"
_WORD: Final = "_lakelog_word"
_SPARK_TYPES: Final = {"INT": "int", "DATE": "date", "BIGINT": "bigint"}
"""Types of key columns that Spark hashes itself, and their Spark names."""


def shuffled(frame: DataFrame, table: DynamicTable) -> DataFrame:
    """The frame's rows, with each (partition, bucket) in one task, if ``write.shuffle`` requests it.

    Called before a batch write from Spark. A frame is unchanged if the table has one bucket or the frame no column for
    the bucket key. With ``auto`` it is also unchanged in three cases: it is small enough for one task, whose rows the
    commit can combine; it has so few tasks that their runs are acceptable; or on Spark Connect, which reports neither.
    """
    schema = table.schema
    wish = table.options.need(WRITE_SHUFFLE)
    known = set(schema.bucket_keys) | set(schema.partition_keys) <= set(frame.columns)
    if schema.num_buckets < 2 or not known or wish == "none" or (wish == "auto" and is_remote()):
        return frame
    tasks = schema.num_buckets
    if schema.partition_keys:  # the same bucket of two partitions may be in different tasks
        tasks = max(tasks, int(frame.sparkSession.conf.get("spark.sql.shuffle.partitions") or 1))
    if wish == "auto":
        guessed = int(frame._jdf.queryExecution().optimizedPlan().stats().sizeInBytes())
        tasks = min(tasks, math.ceil(guessed / _TASK_BYTES))
        if tasks < 2 or _task_count(frame) <= _max_new_runs(table.options):
            return frame
    task_number = sf.col(_BUCKET).cast("bigint")
    if schema.partition_keys:
        task_number = task_number + sf.hash(*(column_of(k) for k in schema.partition_keys)).cast("bigint")
    numbered = with_bucket(frame, table, _BUCKET)
    spread = by_partition_id(numbered, tasks, sf.pmod(task_number, sf.lit(tasks)).cast("int"))
    return spread.select(*_columns(frame))


def _task_count(frame: DataFrame) -> int:
    """The number of tasks of a frame, without decisions that Spark makes at run time."""
    return int(frame._jdf.queryExecution().executedPlan().outputPartitioning().numPartitions())


def _max_new_runs(options: Options) -> int:
    """Number of runs that a write may add to a bucket at once; a shuffle costs as much as writing the files.

    If others compact, it is the largest number that starts no compaction. Otherwise it is two. More of similar size
    soon exceed the limit relative to the oldest (``compaction.max-size-amplification-percent``) and would be rewritten.
    If new rows are visible only after a compaction, it is one run, which the compaction uses unchanged.
    """
    if needs_lookup(options):
        return 1
    return max(options.need(COMPACTION_TRIGGER) - 1, 1) if options.need(WRITE_ONLY) else 2


def with_bucket(
    frame: DataFrame, table: DynamicTable, name: str, columns: Mapping[str, str] | None = None
) -> DataFrame:
    """The frame with one more column of this name: the bucket of each row (int).

    ``columns`` maps each column of the bucket key to the frame's name, if they differ, and implies that they are never
    NULL. Raises InvalidSchema, at run time, for keys that do not fit the table.
    """
    schema = table.schema
    keys = schema.select(schema.bucket_keys)
    if columns is not None:
        keys = tuple(replace(k, name=columns[k.name], type=k.type.with_nullable(False)) for k in keys)
    default = schema.options.get(BUCKET_FUNCTION.key, BUCKET_FUNCTION.default) == BUCKET_FUNCTION.default
    if default and all(_is_simple(frame, key) for key in keys):
        return _hashed(frame, keys, schema.num_buckets, name)
    where = table.name

    def buckets(*columns: pa.Array) -> pa.Array:
        return _buckets(schema, where, columns)

    return with_arrow_column(frame, name, buckets, IntegerType(), [k.name for k in keys])


def _is_simple(frame: DataFrame, key: DataField) -> bool:
    """True if a key column is an integer that is never NULL, of the same type in the frame as in the table."""
    kind = frame.schema[key.name].dataType.simpleString()
    root = key.type.root if isinstance(key.type, AtomicType) else ""
    return not key.type.nullable and _SPARK_TYPES.get(root) == kind


def _buckets(schema: TableSchema, table: str, keys: Sequence[pa.Array]) -> pa.Array:
    """The buckets of keys, as computed by the writing task. Runs in Spark's workers."""
    prepare_worker()
    fields = schema.select(schema.bucket_keys)
    alone = replace(schema, fields=tuple(fields), primary_keys=(), partition_keys=(), options={})
    given = pa.RecordBatch.from_arrays(list(keys), [f.name for f in fields])
    rows, _ = conform(given, alone, table)
    return pa.array(bucket_of_rows(rows, schema))


def _hashed(frame: DataFrame, keys: Sequence[DataField], buckets: int, name: str) -> DataFrame:
    """A few steps of the hash per projection, because an expression copies its inputs for each use."""
    columns = _columns(frame)

    def step(before: DataFrame, **new: Column) -> DataFrame:
        return before.select(*columns, *(value.alias(column) for column, value in new.items()))

    start = SEED
    for _ in range(head_size(len(keys)) // 4):
        start = mix_one(start, 0)
    words = [word for key in keys for word in _words(key)]
    out = step(frame, **{_HASH: sf.lit(start).cast("bigint")})
    for word in words:
        out = step(out, **{_HASH: sf.col(_HASH), _WORD: _times(word, C1)})
        out = step(out, **{_HASH: sf.col(_HASH), _WORD: _times(_rotated(sf.col(_WORD), 15), C2)})
        mixed = _rotated(sf.col(_HASH).bitwiseXOR(sf.col(_WORD)), 13)
        out = step(out, **{_HASH: (mixed * 5 + sf.lit(int(ADD))).bitwiseAND(sf.lit(MASK))})
    length = head_size(len(keys)) + 8 * len(keys)
    out = step(out, **{_HASH: _times(_folded(sf.col(_HASH).bitwiseXOR(sf.lit(length).cast("bigint")), 16), M1)})
    out = step(out, **{_HASH: _times(_folded(sf.col(_HASH), 13), M2)})
    out = step(out, **{_HASH: _folded(sf.col(_HASH), 16)})
    # the distance from 0 of the signed hash
    distance = sf.when(sf.col(_HASH) >= sf.lit(1 << 31), sf.lit(1 << 32) - sf.col(_HASH)).otherwise(sf.col(_HASH))
    return step(out, **{name: (distance % sf.lit(buckets)).cast("int")})


def _words(key: DataField) -> list[Column]:
    """The two words of a key column's field, as non-negative numbers."""
    column = column_of(key.name)
    root = key.type.root if isinstance(key.type, AtomicType) else ""
    number = (sf.unix_date(column) if root == "DATE" else column).cast("bigint")
    low = number.bitwiseAND(sf.lit(MASK))
    return [low, sf.shiftrightunsigned(number, 32) if root == "BIGINT" else sf.lit(0).cast("bigint")]


def _times(value: Column, factor: np.uint32) -> Column:
    """The lowest 32 bits of a product, in two parts that fit into 64."""
    low, high = int(factor) & 0xFFFF, int(factor) >> 16
    upper = (value * sf.lit(high)).bitwiseAND(sf.lit(0xFFFF))
    return (value * sf.lit(low) + sf.shiftleft(upper, 16)).bitwiseAND(sf.lit(MASK))


def _rotated(value: Column, bits: int) -> Column:
    left = sf.shiftleft(value, bits).bitwiseAND(sf.lit(MASK))
    return left.bitwiseOR(sf.shiftright(value, 32 - bits))


def _folded(value: Column, bits: int) -> Column:
    return value.bitwiseXOR(sf.shiftright(value, bits))


def _columns(frame: DataFrame) -> list[Column]:
    return [column_of(name) for name in frame.columns]
