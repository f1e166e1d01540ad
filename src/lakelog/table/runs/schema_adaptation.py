"""Rows that wait for the files, seen with another schema than the one they were written with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lakelog.filestore.read.schema_evolution import rows_as
from lakelog.filestore.store import FileStore
from lakelog.table.model.attempt import StagedRun
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.model.epoch_record import EpochRecord
from lakelog.table.runs.runs import run_from_ipc, run_to_ipc


def adapt_to_schema(records: Sequence[EpochRecord], store: FileStore) -> list[EpochRecord]:
    """The records with all inline rows as rows of the store's schema, by field id (format sheet 3.2).

    Called before runs of decided epochs are read or sealed. Records that have the schema, which is nearly always all of
    them, are answered as they are.
    """
    if all(run.schema_id == store.schema.id for run in _inline(records)):
        return list(records)
    return [
        replace(r, attempts=tuple(replace(a, runs=tuple(_run(run, store) for run in a.runs)) for a in r.attempts))
        for r in records
    ]


def with_latest_columns(table: DynamicTable, records: Sequence[EpochRecord]) -> DynamicTable:
    """The table with a schema that has every column of the records.

    Called before their rows go to files: a table that was opened before an ALTER TABLE would leave new columns out.
    """
    ids = [run.schema_id for run in _inline(records)]
    ids += [f.schema_id for r in records for a in r.attempts for run in a.runs for f in run.files]
    return table.with_newest_schema() if max(ids, default=0) > table.schema.id else table


def _inline(records: Sequence[EpochRecord]) -> list[StagedRun]:
    return [run for r in records for a in r.attempts for run in a.runs if run.inline]


def _run(run: StagedRun, store: FileStore) -> StagedRun:
    if not run.inline or run.schema_id == store.schema.id:
        return run
    rows = rows_as(run_from_ipc(run.inline), store.schemas.get(run.schema_id), store.schema)
    return replace(run, inline=run_to_ipc(rows), schema_id=store.schema.id)
