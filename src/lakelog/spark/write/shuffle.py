"""Brings the rows of a bucket into one Spark task before they are written, so that each bucket gets one sorted file.

Without it every task writes a file for every bucket that it has rows of: as many sorted runs as tasks, which readers
merge until a compaction. The bucket of a row is computed by Spark itself where the bucket key allows it: Murmur3 over
the words of the key's BinaryRow (format sheet 5.1), in numbers of 64 bits because Spark's do not wrap around.
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
from pyspark.sql.utils import is_remote

from lakelog.merge.table_rules import needs_lookup
from lakelog.options.option import Options
from lakelog.options.table import BUCKET_FUNCTION, COMPACTION_TRIGGER, WRITE_ONLY, WRITE_SHUFFLE
from lakelog.paimon.rows.binary_row import head_size
from lakelog.paimon.rows.bucket import bucket_of_rows
from lakelog.paimon.rows.murmur import ADD, C1, C2, M1, M2, MASK, SEED, mix_one
from lakelog.paimon.schema.schema import TableSchema
from lakelog.paimon.types.types import AtomicType, DataField
from lakelog.spark.runtime.types import arrow_function, column_of
from lakelog.spark.runtime.worker import prepare_worker
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.staging.conform import conform

_TASK_BYTES: Final = 16 << 20
"""What one task is worth, as Spark guesses the size of a frame: of files mostly their compressed size."""
_BUCKET: Final = "_lakelog_bucket"
_HASH: Final = "_lakelog_hash"
_WORD: Final = "_lakelog_word"
_SPARK_TYPES: Final = {"INT": "int", "DATE": "date", "BIGINT": "bigint"}
"""Types of key columns that Spark hashes itself, and their names there."""


def shuffled(frame: DataFrame, table: DynamicTable) -> DataFrame:
    """The frame's rows, those of one (partition, bucket) in one task, where ``write.shuffle`` asks for it.

    Called before a batch write from Spark. A frame stays as it is when the table has one bucket or the frame no column
    for the bucket key; with ``auto`` also when it is worth one task only, whose rows are few enough for the commit to
    put them together, when it comes in so few tasks that their runs are welcome, and on Spark Connect, which tells
    neither.
    """
    schema = table.schema
    wish = table.options.need(WRITE_SHUFFLE)
    known = set(schema.bucket_keys) | set(schema.partition_keys) <= set(frame.columns)
    if schema.num_buckets < 2 or not known or wish == "none" or (wish == "auto" and is_remote()):
        return frame
    tasks = schema.num_buckets
    if schema.partition_keys:  # the same bucket of two partitions need not be in one task
        tasks = max(tasks, int(frame.sparkSession.conf.get("spark.sql.shuffle.partitions") or 1))
    if wish == "auto":
        guessed = int(frame._jdf.queryExecution().optimizedPlan().stats().sizeInBytes())
        tasks = min(tasks, math.ceil(guessed / _TASK_BYTES))
        if tasks < 2 or _task_count(frame) <= _welcome_runs(table.options):
            return frame
    place = sf.col(_BUCKET).cast("bigint")
    if schema.partition_keys:
        place = place + sf.hash(*(column_of(k) for k in schema.partition_keys)).cast("bigint")
    numbered = with_bucket(frame, table, _BUCKET)
    return numbered.repartitionById(tasks, sf.pmod(place, sf.lit(tasks)).cast("int")).select(*_columns(frame))


def _task_count(frame: DataFrame) -> int:
    """The tasks in which a frame comes; what Spark decides only while it runs is not known here."""
    return int(frame._jdf.queryExecution().executedPlan().outputPartitioning().numPartitions())


def _welcome_runs(options: Options) -> int:
    """Runs that a write may add to a bucket at once: a shuffle costs as much as the write of the files itself.

    As many as start no compaction where others compact. Else two: more of like size are soon too much beside the
    oldest (``compaction.max-size-amplification-percent``) and would be written again. Where new rows are seen only
    after a compaction one run, which it takes as it is.
    """
    if needs_lookup(options):
        return 1
    return max(options.need(COMPACTION_TRIGGER) - 1, 1) if options.need(WRITE_ONLY) else 2


def with_bucket(
    frame: DataFrame, table: DynamicTable, name: str, columns: Mapping[str, str] | None = None
) -> DataFrame:
    """The frame with one more column of this name: the bucket of each row (int).

    ``columns`` has the frame's name of each column of the bucket key, where they are not called as in the table, and
    says that they are never NULL. Raises InvalidSchema, when it runs, for keys that do not fit the table.
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

    asked = arrow_function(buckets, "int")
    return frame.select(*_columns(frame), asked(*(column_of(k.name) for k in keys)).alias(name))


def _is_simple(frame: DataFrame, key: DataField) -> bool:
    """Whether a key column is a whole number that is never NULL, of the same type in the frame as in the table."""
    given = frame.schema[key.name].dataType.simpleString()
    root = key.type.root if isinstance(key.type, AtomicType) else ""
    return not key.type.nullable and _SPARK_TYPES.get(root) == given


def _buckets(schema: TableSchema, table: str, keys: Sequence[pa.Array]) -> pa.Array:
    """The buckets of keys, as the task that writes them will find them. Runs in Spark's workers."""
    prepare_worker()
    fields = schema.select(schema.bucket_keys)
    alone = replace(schema, fields=tuple(fields), primary_keys=(), partition_keys=(), options={})
    given = pa.RecordBatch.from_arrays(list(keys), [f.name for f in fields])
    rows, _ = conform(given, alone, table)
    return pa.array(bucket_of_rows(rows, schema))


def _hashed(frame: DataFrame, keys: Sequence[DataField], buckets: int, name: str) -> DataFrame:
    """Few steps of the hash in each projection: an expression holds a copy of all that it uses for each use."""
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
    """The two words of a key column's field, as numbers that are not negative."""
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
