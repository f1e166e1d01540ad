"""The task of a lookup join: looks up the rows of its partition in this worker's indexes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakelog.io.clock import monotonic_s, sleep
from lakelog.merge.base import Indices
from lakelog.options.lookup import LOOKUP_RETRIES, LOOKUP_RETRY_DELAY
from lakelog.spark.runtime.types import conform
from lakelog.spark.runtime.worker import prepare_worker
from lakelog.table.lookup.index import LookupSpec
from lakelog.table.lookup.index_cache import LookupTable, lookup_tables
from lakelog.table.lookup.source import Matches, find_matches, merged, missing

_MOST_HELD = 100_000
"""Maximum number of rows that wait together for a retry of their lookup."""


@dataclass(frozen=True)
class LookupTask:
    """Joins batches with their matches; picklable, called once per partition.

    ``keys`` are the batch's columns for ``spec.on``, ``bucket`` the column with the bucket of a row (None: uses the
    index of all buckets), ``kept`` the output columns of the batch. They are followed by the columns of ``found`` (in
    Spark's types), or with ``nested`` by one column of this name: the array of all matched rows.
    """

    spec: LookupSpec
    name: str
    keys: tuple[str, ...]
    bucket: str | None
    kept: tuple[str, ...]
    found: pa.Schema
    is_left: bool
    nested: str | None = None

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The joined rows; retried rows are last."""
        prepare_worker()
        options = self.spec.table.options
        attempts = options.need(LOOKUP_RETRIES)
        table, began = None, monotonic_s()
        held: list[pa.RecordBatch] = []
        for batch in batches:
            if not batch.num_rows:
                continue
            if table is None:
                table = lookup_tables(_local_directory()).table(self.spec, self.name)
            every = np.arange(batch.num_rows)
            matches = self._find_matches(table, batch, every, began)
            waiting = missing(matches, every, self._keys_of(batch)) if attempts else every[:0]
            if len(waiting):
                held.append(batch.take(pa.array(waiting)))
            yield from self._joined(batch, matches, np.setdiff1d(every, waiting))
            if sum(h.num_rows for h in held) >= _MOST_HELD:
                yield from self._retry(table, pa.concat_batches(held), attempts)
                held = []
        if held and table is not None:
            yield from self._retry(table, pa.concat_batches(held), attempts)

    def _retry(self, table: LookupTable, batch: pa.RecordBatch, attempts: int) -> Iterator[pa.RecordBatch]:
        """Retries the lookup of rows without a match, a few times."""
        delay = self.spec.table.options.need(LOOKUP_RETRY_DELAY).total_seconds()
        for attempt in range(1, attempts + 1):
            sleep(delay)
            every = np.arange(batch.num_rows)
            matches = self._find_matches(table, batch, every, monotonic_s(), again=True)
            found = np.unique(matches.left)
            left = np.setdiff1d(every, found)
            yield from self._joined(batch, matches, every if attempt == attempts else found)
            if not len(left):
                return
            batch = batch.take(pa.array(left))

    def _find_matches(
        self, table: LookupTable, batch: pa.RecordBatch, every: Indices, since_s: float, again: bool = False
    ) -> Matches:
        keys, parts = self._keys_of(batch), []
        empty = self.spec.schema.empty_table()
        for bucket, rows in self._by_bucket(batch, every):
            index = table.index(bucket, since_s)
            as_of = index.as_of_s
            parts.append(find_matches(keys, self.spec.key_schema, rows, index.find, empty))
            if not again:
                table.stats.answered(len(rows), 1000 * (monotonic_s() - as_of))
        matches = merged(parts)
        matched = len(np.unique(matches.left))
        table.stats.found += matched
        if again:
            table.stats.retried += len(every)
            table.stats.late += matched
        return matches

    def _by_bucket(self, batch: pa.RecordBatch, every: Indices) -> Iterator[tuple[int | None, Indices]]:
        if self.bucket is None:
            yield None, every
            return
        buckets = batch.column(self.bucket).to_numpy()
        for bucket in np.unique(buckets).tolist():
            yield bucket, np.flatnonzero(buckets == bucket)

    def _keys_of(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        lengths = self.spec.table.schema.padded_columns
        columns = [
            pc.utf8_rpad(batch.column(key), lengths[own], " ") if own in lengths else batch.column(key)
            for key, own in zip(self.keys, self.spec.on, strict=True)
        ]
        return pa.RecordBatch.from_arrays(columns, list(self.spec.on))

    def _joined(self, batch: pa.RecordBatch, matches: Matches, rows: Indices) -> Iterator[pa.RecordBatch]:
        """The results for some rows of a batch; in a left join including those without a match."""
        if self.nested is not None:
            if len(rows):
                yield self._with_array(batch, matches, rows, self.nested)
            return
        pairs = matches.with_missing(rows) if self.is_left else matches
        if not len(pairs.left):
            return
        left = batch.select(list(self.kept)).take(pa.array(pairs.left))
        right = pairs.right_rows().rename_columns(self.found.names).combine_chunks().to_batches()[0]
        yield pa.RecordBatch.from_arrays(
            [*left.columns, *conform(right, self.found).columns], schema=pa.schema([*left.schema, *self.found])
        )

    def _with_array(self, batch: pa.RecordBatch, matches: Matches, rows: Indices, name: str) -> pa.RecordBatch:
        left = batch.select(list(self.kept)).take(pa.array(rows))
        counts = np.bincount(np.searchsorted(rows, matches.left), minlength=len(rows))
        offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
        found = matches.rows.take(pa.array(matches.right)).rename_columns(self.found.names).combine_chunks()
        batches = found.to_batches() or [pa.RecordBatch.from_pylist([], schema=found.schema)]
        structs = pa.StructArray.from_arrays(conform(batches[0], self.found).columns, fields=list(self.found))
        field = pa.field("element", structs.type, nullable=False)
        arrays = pa.ListArray.from_arrays(pa.array(offsets), structs, type=pa.list_(field))
        return pa.RecordBatch.from_arrays(
            [*left.columns, arrays], schema=pa.schema([*left.schema, pa.field(name, arrays.type, nullable=False)])
        )


def _local_directory() -> str | None:
    """Spark's local directory for this worker; None: the default of the machine."""
    return os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0] or None
