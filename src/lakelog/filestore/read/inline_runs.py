"""Adds rows that are in no file yet to the splits of a plan (staged epochs, RFC 2)."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from lakelog.filestore.metadata.levels import Key, KeyRange, key_value
from lakelog.filestore.read.data_file_reader import row_schema
from lakelog.filestore.read.plan import BucketKey, Split, skips_level_zero
from lakelog.filestore.read.split_reader import engine_of, inline_rows
from lakelog.filestore.skipping.pruning import Pruning
from lakelog.merge.runs import fold_rows
from lakelog.paimon.schema.schema import TableSchema


def attach_runs(
    splits: dict[BucketKey, list[Split]],
    extra_runs: Mapping[BucketKey, Sequence[bytes]],
    schema: TableSchema,
    pruning: Pruning,
    snapshot_id: int | None,
    totals: Mapping[bytes, int],
) -> None:
    """Adds runs (Arrow IPC streams, see ``Split.inline_runs``) to the splits of their bucket, in place.

    Rows of keyed tables are sorted and folded here, then cut at the key ranges of the splits, so that parts of a bucket
    without new rows stay free of a merge. A bucket without files gets a split of its own. Tables whose new files are
    not visible yet (``skips_level_zero``) do not show these rows either. ``totals`` are the numbers of buckets of the
    partitions that have another number than the table.
    """
    if skips_level_zero(schema):
        return
    for (partition, bucket), runs in extra_runs.items():
        total = totals.get(partition, schema.num_buckets)
        if not pruning.wants_place(partition, bucket, total):
            continue
        held = splits.setdefault((partition, bucket), [])
        empty = Split(partition, bucket, total, (), schema.is_keyed, snapshot_id)
        if not schema.is_keyed:
            held.append(replace(empty, inline_runs=tuple(runs)))
            continue
        rows = inline_rows(runs, row_schema(schema, schema.field_names, True))
        rows = fold_rows(rows, schema.trimmed_primary_keys, engine_of(schema))
        if rows.num_rows:
            splits[partition, bucket] = _cut(rows, held or [empty], schema)


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
