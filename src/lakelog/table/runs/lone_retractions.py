"""Lone retractions: a -U without a later insertion of its key, for example if Spark sent the halves to two tasks.

A -U that equals the newest insertion of its key is a retraction: it deletes the key. One with other values is the old
half of the update that has made this insertion, and deletes nothing. Without any insertion it deletes its key.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from lakelog.filestore.read.split_reader import engine_of
from lakelog.merge.changes import same_rows
from lakelog.merge.numbers import order_numbers
from lakelog.paimon.rows.row_kind import INSERT, UPDATE_AFTER, UPDATE_BEFORE
from lakelog.paimon.schema.schema import TableSchema
from lakelog.table.model.attempt import KIND_COLUMN, ORDER_COLUMN, StagedRun
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.model.epoch_record import EpochRecord
from lakelog.table.runs.runs import run_from_ipc, run_to_ipc
from lakelog.table.runs.sequencing import BucketKey

Indices = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


def lone_retractions(rows: pa.Table, kinds: np.ndarray, schema: TableSchema) -> tuple[Mask, Indices]:
    """Marks each -U that neither has a later insertion of its key nor equals the newest one.

    ``rows`` are in order. Also returns the position of the newest insertion of each row's key (-1: none).
    """
    newest = _newest_insertions(rows, kinds, schema)
    lone: Mask = (kinds == UPDATE_BEFORE) & (newest < np.arange(len(kinds)))
    late = np.flatnonzero(lone & (newest >= 0))
    if len(late):
        names = schema.field_names
        old, new = rows.select(names).take(pa.array(late)), rows.select(names).take(pa.array(newest[late]))
        lone[late] = ~same_rows(old, new, names)
    return lone, newest


def _newest_insertions(rows: pa.Table, kinds: np.ndarray, schema: TableSchema) -> Indices:
    keys, at = list(schema.primary_keys), np.arange(len(kinds), dtype=np.int64)
    ages = at
    fields = engine_of(schema).sequence_fields
    if fields:
        columns = [pa.concat_arrays(rows.column(name).chunks) for name in fields]
        ages = np.empty_like(at)
        by_age = np.lexsort((at, order_numbers(columns, engine_of(schema).smallest_is_newest)))
        ages[by_age] = at
    is_added = (kinds == INSERT) | (kinds == UPDATE_AFTER)
    frame = pl.DataFrame(pa.table({name: rows.column(name) for name in keys}))
    named = frame.with_columns(pl.Series("_lakelog_age", np.where(is_added, ages, -1)))
    newest: Indices = named.select(pl.col("_lakelog_age").max().over(keys)).to_series().to_numpy()
    return np.where(newest < 0, -1, by_age[newest]) if fields else newest


def place_retractions(records: Sequence[EpochRecord], table: DynamicTable) -> list[EpochRecord]:
    """The records with each old half of an update before all other rows of its epoch (order -1).

    Called before runs of decided epochs are sequenced. The insertions of the same keys are read from large runs, too.
    Records without lone retractions, nearly always all of them, are returned unchanged.
    """
    return [_placed(record, table) if any(run.retractions for run in _runs(record)) else record for record in records]


def _runs(record: EpochRecord) -> list[StagedRun]:
    return [run for attempt in record.attempts for run in attempt.runs]


def _placed(record: EpochRecord, table: DynamicTable) -> EpochRecord:
    by_bucket: dict[BucketKey, list[StagedRun]] = {}
    for run in _runs(record):
        by_bucket.setdefault((run.partition, run.bucket), []).append(run)
    placed = {
        id(run): moved
        for runs in by_bucket.values()
        if any(run.retractions for run in runs)
        for run, moved in _placed_runs(runs, table)
    }
    attempts = (replace(a, runs=tuple(placed.get(id(run), run) for run in a.runs)) for a in record.attempts)
    return replace(record, attempts=tuple(attempts))


def _placed_runs(runs: Sequence[StagedRun], table: DynamicTable) -> list[tuple[StagedRun, StagedRun]]:
    keys = list(table.schema.primary_keys)
    lone_runs = [(run, run_from_ipc(run.inline)) for run in runs if run.retractions]
    lone = pa.concat_tables([rows for _, rows in lone_runs])
    lone_keys = pl.DataFrame(lone.select(keys)).unique()
    others = [part for run in runs if not run.retractions for part in _rows_of_keys(run, lone_keys, lone.schema, table)]
    whole = pa.concat_tables([lone, *others]).combine_chunks()
    order = np.argsort(whole.column(ORDER_COLUMN).to_numpy(), kind="stable")
    rows = whole.take(pa.array(order)).combine_chunks()
    is_lone, newest = lone_retractions(rows, rows.column(KIND_COLUMN).to_numpy(), table.schema)
    is_late = np.empty(len(order), dtype=np.bool_)
    is_late[order] = is_lone & (newest >= 0)
    out, start = [], 0
    for run, part in lone_runs:
        orders = np.where(is_late[start : start + part.num_rows], -1, part.column(ORDER_COLUMN).to_numpy())
        start += part.num_rows
        by_order = np.argsort(orders, kind="stable")
        index, field = part.schema.get_field_index(ORDER_COLUMN), part.schema.field(ORDER_COLUMN)
        moved = part.set_column(index, field, pa.array(orders)).take(pa.array(by_order))
        out.append((run, replace(run, inline=run_to_ipc(moved))))
    return out


def _rows_of_keys(run: StagedRun, lone_keys: pl.DataFrame, schema: pa.Schema, table: DynamicTable) -> list[pa.Table]:
    """The rows of a run with one of the keys, with the columns of ``schema``; one file at a time."""
    parts = [run_from_ipc(run.inline)] if run.inline else []
    out = []
    for rows in parts:
        out.append(_with_keys(rows, lone_keys).cast(schema))
    for file in run.whole_files:
        rows = table.store.file_rows(run.partition, run.bucket, file, ORDER_COLUMN, KIND_COLUMN, -run.delta)
        out.append(_with_keys(rows, lone_keys).select(schema.names).cast(schema))
    return out


def _with_keys(rows: pa.Table, lone_keys: pl.DataFrame) -> pa.Table:
    keys = pl.DataFrame(rows.select(lone_keys.columns)).with_row_index("_lakelog_at")
    at = keys.join(lone_keys, on=lone_keys.columns, how="semi").get_column("_lakelog_at").sort().to_numpy()
    return rows.take(pa.array(at))
