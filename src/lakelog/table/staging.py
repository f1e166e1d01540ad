"""What an attempt stages: inline runs (Arrow IPC inside the epoch record) and level-0 data files."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakelog.spec.partition import encode_partition
from lakelog.table.attempt import KIND_COLUMN, ORDER_COLUMN, StagedRun
from lakelog.table.dynamic_table import DynamicTable

_LZ4 = pa.ipc.IpcWriteOptions(compression="lz4")


def run_to_ipc(rows: pa.Table) -> bytes:
    """An Arrow IPC stream (lz4) of one run."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema, options=_LZ4) as writer:
        writer.write_table(rows.combine_chunks())
    return bytes(sink.getvalue())


def run_from_ipc(data: bytes) -> pa.Table:
    """The reverse of ``run_to_ipc``."""
    with pa.ipc.open_stream(data) as reader:
        return reader.read_all()


def by_partition(rows: pa.Table, table: DynamicTable) -> Iterator[tuple[bytes, pa.Table]]:
    """Splits rows by the table's partition columns: (serialised partition row, rows)."""
    schema = table.schema
    keys = list(schema.partition_keys)
    if not keys:
        yield encode_partition((), schema), rows
        return
    numbered = rows.select(keys).append_column("_row", pa.array(np.arange(rows.num_rows)))
    groups = numbered.group_by(keys, use_threads=False).aggregate([("_row", "list")])
    for index in range(groups.num_rows):
        values = tuple(_exact(groups.column(key)[index]) for key in keys)
        chosen = groups.column("_row_list")[index].values
        yield encode_partition(values, schema), rows.take(chosen)


def _exact(value: pa.Scalar) -> Any:
    # Python's own timestamps have no nanoseconds
    return value.value if pa.types.is_timestamp(value.type) else value.as_py()


def write_run_files(
    table: DynamicTable, partition: bytes, bucket: int, rows: pa.Table, replaces: bool = False
) -> StagedRun:
    """Writes a large run as sorted level-0 data files at once; its sequence numbers are ``_order`` + delta.

    The delta puts them above all that the newest snapshot holds in the bucket; the seal shifts them when it must. With
    ``replaces`` the bucket will be empty by then, the order is the number, and no changes are told.
    """
    store = table.store
    delta = 0
    if not replaces:
        highest = store.max_sequence_numbers(store.latest_snapshot(), {(partition, bucket)})
        delta = highest.get((partition, bucket), -1) + 1 - pc.min(rows.column(ORDER_COLUMN)).as_py()
    tells = table.tells_changes and not replaces
    writer = table.store.bucket_writer(partition, bucket, tells_changes=tells)
    sequences = pc.add(rows.column(ORDER_COLUMN), pa.scalar(delta, pa.int64()))
    writer.write(rows.drop_columns([ORDER_COLUMN, KIND_COLUMN]), rows.column(KIND_COLUMN), sequences)
    return StagedRun(
        partition,
        bucket,
        rows.num_rows,
        files=writer.finish(),
        delta=delta,
        tells_changes=tells,
        changelog=writer.changelog_files,
    )
