"""Late retractions: a -U after the row that replaces it, for example if Spark sent the two to different tasks.

A task can only see its own rows, so it puts lone retractions (``table/runs/lone_retractions.py``) into a run of their
own. The seal sees those of all tasks and places them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakelog.merge.table_rules import engine_class
from lakelog.options.option import Options
from lakelog.paimon.rows.row_kind import UPDATE_AFTER, UPDATE_BEFORE
from lakelog.paimon.schema.schema import TableSchema
from lakelog.table.log.partitions import by_log_partition, is_aligned
from lakelog.table.log.record_schemas import converted, log_keys
from lakelog.table.model.attempt import KIND_COLUMN, StagedRun
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.model.epoch_record import EpochRecord
from lakelog.table.model.log_options import log_partitions
from lakelog.table.runs.lone_retractions import lone_retractions
from lakelog.table.runs.runs import run_from_ipc

Indices = npt.NDArray[np.int64]


def in_update_order(rows: pa.RecordBatch, kinds: np.ndarray, schema: TableSchema) -> Indices | None:
    """The order of a batch with each late -U right before the newest insertion of its key; None: unchanged.

    A -U that equals this insertion is not late.
    """
    if not _may_be_late(rows, kinds, schema):
        return None
    late, newest = lone_retractions(pa.Table.from_batches([rows]), kinds, schema)
    late &= newest >= 0
    if not late.any():
        return None
    order: Indices = np.argsort(np.where(late, newest - 0.5, np.arange(len(kinds))), kind="stable")
    return order


def split_retractions(rows: pa.Table, schema: TableSchema) -> tuple[pa.Table, pa.Table | None]:
    """A run (in order) without its lone -U rows; and those, if any."""
    kinds = rows.column(KIND_COLUMN).to_numpy()
    if not _may_be_late(rows, kinds, schema):
        return rows, None
    lone, _ = lone_retractions(rows, kinds, schema)
    if not lone.any():
        return rows, None
    return rows.filter(pa.array(~lone)), rows.filter(pa.array(lone))


def late_keys(table: DynamicTable, records: Iterable[EpochRecord]) -> Mapping[int, frozenset[bytes]]:
    """Log partition → the log keys with a -U that may follow the insertion that replaces it, of some epochs.

    Called when an epoch is decided, because the last record of such a key may delete it in the log. In a log partition
    with large runs, every lone -U may be one.
    """
    out: dict[int, frozenset[bytes]] = {}
    for record in records:
        for partition, keys in _late_keys(table, record).items():
            out[partition] = out.get(partition, frozenset()) | keys
    return out


def _late_keys(table: DynamicTable, record: EpochRecord) -> Mapping[int, frozenset[bytes]]:
    runs = [run for attempt in record.attempts for run in attempt.runs]
    inline = [run for run in runs if run.inline]
    if not any(run.retractions for run in inline):
        return {}
    alone = _keys_by_partition((run for run in inline if run.retractions), table)
    large = {part for run in runs if run.files for part in _partitions_of(run, table, alone)}
    others = (
        run for run in inline if not run.retractions and alone.keys() - large & set(_partitions_of(run, table, alone))
    )
    inserted = _keys_by_partition(others, table)
    late = {b: keys if b in large else keys & inserted.get(b, set()) for b, keys in alone.items()}
    return {partition: frozenset(keys) for partition, keys in late.items() if keys}


def _may_be_late(rows: pa.RecordBatch | pa.Table, kinds: np.ndarray, schema: TableSchema) -> bool:
    newest_wins = engine_class(Options(schema.options)).newest_wins
    if not schema.is_keyed or not newest_wins or not (kinds == UPDATE_BEFORE).any():
        return False
    return not _is_in_order(rows.select(list(schema.primary_keys)), kinds)


def _is_in_order(keys: pa.RecordBatch | pa.Table, kinds: np.ndarray) -> bool:
    """True if each -U is right before the +U of its key, as producers of changes write them."""
    before = np.flatnonzero(kinds == UPDATE_BEFORE)
    if before[-1] + 1 == len(kinds) or (kinds[before + 1] != UPDATE_AFTER).any():
        return False
    old, new = keys.take(pa.array(before)), keys.take(pa.array(before + 1))
    return all(pc.all(pc.equal(a, b), skip_nulls=False).as_py() for a, b in zip(old.columns, new.columns, strict=True))


def _partitions_of(run: StagedRun, table: DynamicTable, among: Iterable[int]) -> Iterable[int]:
    """The log partitions among these that may have the rows of a run."""
    written = table.store.schemas.get(run.files[0].schema_id if run.files else run.schema_id)
    return (run.bucket,) if is_aligned(written) else among


def _keys_by_partition(runs: Iterable[StagedRun], table: DynamicTable) -> dict[int, set[bytes]]:
    out: dict[int, set[bytes]] = {}
    for run in runs:
        rows, written = run_from_ipc(run.inline), table.store.schemas.get(run.schema_id)
        total = log_partitions(written) if is_aligned(written) else 0
        keys = table.schema.primary_keys
        for batch in rows.combine_chunks().to_batches():
            for partition, part in by_log_partition(batch, written, run.bucket, total):
                whole = pa.Table.from_batches([part])
                if written.id != table.schema.id:
                    whole = converted(whole, written, table.schema, keys)
                out.setdefault(partition, set()).update(log_keys(table, whole.select(keys)))
    return out
