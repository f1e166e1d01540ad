"""Batch read of a table without Spark: the newest snapshot and the decided epochs beside it, as Arrow."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from lakelog.errors import InvalidSchema, NotFound
from lakelog.filestore.filter import In, Predicate
from lakelog.filestore.scan import Split
from lakelog.spec.arrow import arrow_schema
from lakelog.table.attempt import KIND_COLUMN, ORDER_COLUMN
from lakelog.table.dynamic_buckets import assign_runs, has_dynamic_buckets
from lakelog.table.dynamic_table import DynamicTable
from lakelog.table.evolve import in_schema
from lakelog.table.log_state import state_at
from lakelog.table.sequencing import SequencedRuns, places_of, sequence_runs
from lakelog.table.staging import run_to_ipc

_ATTEMPTS = 3


@dataclass(frozen=True)
class Scan:
    """A batch read: nothing is read before one of the methods is called.

    Without ``snapshot_id`` it reads the newest state: the newest snapshot and all epochs that are decided but not yet
    sealed (RFC 2), so a row is there as soon as its micro-batch is done.
    """

    table: DynamicTable
    columns: tuple[str, ...] | None = None
    filter: Predicate | None = None
    snapshot_id: int | None = None

    def select(self, columns: Sequence[str] | None) -> Scan:
        """The same scan of other columns; raises InvalidSchema for an unknown one."""
        known = self.table.schema.field_names
        for column in columns or ():
            if column not in known:
                raise InvalidSchema(f"table {self.table.name} has no column '{column}'; it has: {', '.join(known)}")
        return replace(self, columns=None if columns is None else tuple(columns))

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the result."""
        whole = arrow_schema(self.table.schema.fields)
        return whole if self.columns is None else pa.schema([whole.field(c) for c in self.columns])

    def plan(self) -> list[Split]:
        """The splits to read, pruned by partition, bucket, key range and statistics; picklable."""
        for _ in range(_ATTEMPTS):
            # a seal that comes between deletes the runs that it has given their buckets
            with contextlib.suppress(NotFound):
                return self._plan()
        return self._plan()

    def _plan(self) -> list[Split]:
        store = self.table.store
        if self.snapshot_id is not None:
            return list(store.plan(snapshot_id=self.snapshot_id, filter=self.filter))
        # the records first: an epoch that is sealed in between is then in the snapshot
        records = self.table.staged.all_records()
        snapshot = store.latest_snapshot()
        if not records:
            return [] if snapshot is None else list(store.plan(snapshot_id=snapshot.id, filter=self.filter))
        state = state_at(store, snapshot)
        records = in_schema([r for r in records if r.epoch > state.sealed_epoch(r.writer)], store)
        highest = store.max_sequence_numbers(snapshot, places_of(records))
        waiting = sequence_runs(records, highest)
        if has_dynamic_buckets(self.table.schema):
            waiting = assign_runs(self.table, waiting, snapshot)
        extra = {place: [_extra_run(rows) for rows in self._all_inline(place, runs)] for place, runs in waiting.items()}
        return list(
            store.plan(snapshot_id=0 if snapshot is None else snapshot.id, filter=self.filter, extra_runs=extra)
        )

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        """The rows of one split; called on executors too."""
        yield from self.table.store.read_split(split, columns=self.columns, filter=self.filter)

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """All rows, batch by batch, in bounded memory."""
        for split in self.plan():
            yield from self.read(split)

    def to_reader(self) -> pa.RecordBatchReader:
        """The batches as an Arrow reader (for DuckDB, polars, pandas)."""
        return pa.RecordBatchReader.from_batches(self.schema, self.to_batches())

    def to_arrow(self) -> pa.Table:
        """All rows in one Arrow table."""
        return self.to_reader().read_all()

    def of_keys(self, keys: pa.Table) -> pa.Table:
        """The rows of some primary keys (a table of the key columns)."""
        first = keys.column_names[0]
        values = tuple(v for v in keys.column(first).unique().to_pylist())
        found = replace(self, filter=In(first, values)).to_arrow()
        return found.join(keys, keys.column_names, join_type="left semi")

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def _all_inline(self, place: tuple[bytes, int], runs: SequencedRuns) -> list[pa.Table]:
        store = self.table.store
        rows = list(runs.inline)
        for file, shift in runs.files:
            rows.append(store.file_rows(place[0], place[1], file, ORDER_COLUMN, KIND_COLUMN, shift))
        return rows


def _extra_run(rows: pa.Table) -> bytes:
    names = {ORDER_COLUMN: "_SEQUENCE_NUMBER", KIND_COLUMN: "_VALUE_KIND"}
    return run_to_ipc(rows.rename_columns([names.get(n, n) for n in rows.column_names]))
