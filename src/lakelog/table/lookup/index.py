"""The newest rows of a keyed table, or of one bucket, on local disk, indexed by columns of the key."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import pyarrow as pa

from lakelog.errors import InvalidRequest, InvalidSchema, NotFound
from lakelog.io.clock import monotonic_s
from lakelog.io.names import new_uuid
from lakelog.io.storage.local import ScratchFileIO
from lakelog.merge.base import KIND_COLUMN, Indices
from lakelog.merge.keys import Part, key_parts, key_starts, sort_rows
from lakelog.options.scan import SCAN_OPTIONS
from lakelog.paimon.rows.row_kind import DELETE, INSERT, ROW_KIND_COLUMN, UPDATE_AFTER, kinds_from_text
from lakelog.paimon.types.arrow import arrow_schema
from lakelog.paimon.types.null_rows import cast_column
from lakelog.state.keyed_state import KeyedState
from lakelog.state.sorted_run import BlockCache
from lakelog.table.log.partitions import is_aligned
from lakelog.table.lookup.source import LookupSource, source_of
from lakelog.table.model.dynamic_table import DynamicTable

_ATTEMPTS: Final = 3
_FRESH_BYTES: Final = 4 << 20
"""Size of new index rows in memory that triggers a write to disk."""


@dataclass(frozen=True)
class LookupSpec:
    """The spec of a lookup join: rows of a table by ``on``, any columns of its primary key; picklable.

    ``columns`` are the columns to return for a row.
    """

    table: DynamicTable
    on: tuple[str, ...]
    columns: tuple[str, ...]

    def __getstate__(self) -> dict[str, Any]:
        return {"table": self.table, "on": self.on, "columns": self.columns}

    def check(self) -> None:
        """Raises InvalidRequest for a table without a primary key or columns not in it, InvalidSchema for unknown ones.

        Called when the join is created.
        """
        schema = self.table.schema
        if self.table.view is not None or not schema.is_keyed:
            raise InvalidRequest(
                f"table {self.table.name} has no primary key: a lookup join finds rows by columns of the primary key"
            )
        for column in (*self.on, *self.columns):
            if column not in schema.field_names:
                known = ", ".join(schema.field_names)
                raise InvalidSchema(f"table {self.table.name} has no column '{column}'; it has: {known}")
        past = [key for key in self.table.hints if SCAN_OPTIONS.knows(key)]
        if past:
            raise InvalidRequest(
                f"option '{past[0]}' does not apply to a lookup join, which finds the newest rows of {self.table.name}"
            )
        other = [column for column in self.on if column not in schema.primary_keys]
        if other or not self.on:
            raise InvalidRequest(
                f"a lookup join with table {self.table.name} needs columns of its primary key "
                f"({', '.join(schema.primary_keys)})" + (f"; '{other[0]}' is not one of them" if other else "")
            )

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """The columns of the primary key, those of ``on`` first; sorted by them, rows are found by any of them."""
        return (*self.on, *(key for key in self.table.schema.primary_keys if key not in self.on))

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The columns in an index."""
        return (*self.keys, *(column for column in self.columns if column not in self.keys))

    @cached_property
    def key_schema(self) -> pa.Schema:
        """The columns ``on``."""
        whole = arrow_schema(self.table.schema.fields)
        return pa.schema([whole.field(column) for column in self.on])

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns to return for a row."""
        whole = arrow_schema(self.table.schema.fields)
        return pa.schema([whole.field(column) for column in self.columns])

    @property
    def determines_bucket(self) -> bool:
        """True if the columns of the join determine the bucket of the rows."""
        schema = self.table.schema
        if schema.num_buckets < 1 or (self.table.log is not None and not is_aligned(schema)):
            return False
        return set(schema.bucket_keys) <= set(self.on)


class LookupIndex:
    """The newest rows of one bucket of a table (None: of all), in a directory of this process. Thread-safe.

    It is rebuilt if the table cannot report its changes. ``as_of_s`` is the time (of ``monotonic_s``) up to which it
    has all rows, minus infinity before the first ``refresh``. ``begun`` is the number of builds from a snapshot.
    """

    def __init__(self, spec: LookupSpec, bucket: int | None, directory: str, cache: BlockCache) -> None:
        self.spec, self.as_of_s, self.begun = spec, float("-inf"), 0
        self._bucket, self._root, self._cache = bucket, directory, cache
        whole = arrow_schema(spec.table.schema.fields)
        fields = [pa.field(name, whole.field(name).type) for name in spec.names]
        self._schema = pa.schema([*fields, pa.field(KIND_COLUMN, pa.int8(), nullable=False)])
        self._refreshing, self._lock = threading.Lock(), threading.Lock()
        self._source: LookupSource | None = None
        self._is_closed = False
        self._state, self._directory = self._empty()

    def refresh(self, oldest_s: float = float("inf")) -> None:
        """Applies new changes, unless the index is already as of ``oldest_s`` or later.

        Raises Unavailable, OffsetExpired if the log has lost rows that no snapshot has, InvalidRequest as the sources.
        """
        with self._refreshing:
            if self.as_of_s >= oldest_s or self._is_closed:
                return
            started_s = monotonic_s()
            try:
                if self._source is None:
                    raise NotFound("not started")
                self._take(self._source)
            except NotFound:
                self._begin()
            self.as_of_s = started_s

    def find(self, keys: Sequence[Part]) -> tuple[Indices, pa.Table]:
        """The rows of keys (columns ``on``; sorted, unique) and the position of each row's key, in this order."""
        with self._lock:
            if len(self.spec.on) < len(self.spec.keys):
                positions, rows = self._state.find_all(keys)
            else:
                positions, rows = self._state.find(keys)
        order = np.argsort(positions, kind="stable")
        return positions[order], rows.select(list(self.spec.columns)).take(pa.array(order))

    @property
    def rows(self) -> int:
        """The number of rows in the index, including replaced ones."""
        with self._lock:
            return self._state.rows

    @property
    def disk_bytes(self) -> int:
        """The size of its files in bytes."""
        with self._lock:
            return self._state.disk_bytes

    def close(self) -> None:
        """Deletes its files."""
        with self._refreshing, self._lock:
            self._is_closed = True
            self._state.close()
            self._remove(self._directory)

    def _empty(self) -> tuple[KeyedState, str]:
        directory = f"{self._root}/{new_uuid()}"
        keys = self.spec.keys
        state = KeyedState(ScratchFileIO(), directory, self._schema, keys, 0, False, self._cache, _FRESH_BYTES)
        return state, directory

    def _begin(self) -> None:
        for attempt in range(1, _ATTEMPTS + 1):
            state, directory = self._empty()
            source = source_of(self.spec.table, self.spec.names, self._bucket)
            try:
                for batch in source.begin():
                    state.put(self._newest(batch, None))
                for batch in source.changes():
                    state.put(self._newest(batch, batch.column(ROW_KIND_COLUMN)))
                break
            except NotFound:  # the snapshot expired while it was read
                state.close()
                self._remove(directory)
                if attempt == _ATTEMPTS:
                    raise
            except BaseException:
                state.close()
                self._remove(directory)
                raise
        with self._lock:
            old, old_directory = self._state, self._directory
            self._state, self._directory = state, directory
        old.close()
        self._remove(old_directory)
        self._source = source
        self.begun += 1

    def _take(self, source: LookupSource) -> None:
        for batch in source.changes():
            rows = self._newest(batch, batch.column(ROW_KIND_COLUMN))
            with self._lock:
                self._state.put(rows)

    def _newest(self, batch: pa.RecordBatch, kinds: pa.Array | None) -> pa.Table:
        """The last row of each key, sorted by key, for the state. Without kinds all are inserts."""
        if not batch.num_rows:
            return self._schema.empty_table()
        parts = key_parts(batch, self.spec.keys)
        order = sort_rows(parts)
        last = order[np.append(np.flatnonzero(key_starts(parts, order))[1:], len(order)) - 1]
        numbers = np.full(len(last), INSERT, dtype=np.int8)
        if kinds is not None:
            kinds_of_rows = kinds_from_text(kinds, ROW_KIND_COLUMN).to_numpy()[last]
            numbers = np.where((kinds_of_rows == INSERT) | (kinds_of_rows == UPDATE_AFTER), INSERT, DELETE).astype(
                np.int8
            )
        chosen = batch.select(list(self.spec.names)).take(pa.array(last))
        columns = [cast_column(c, f.type) for c, f in zip(chosen.columns, self._schema, strict=False)]
        return pa.Table.from_arrays([*columns, pa.array(numbers)], schema=self._schema)

    def _remove(self, directory: str) -> None:
        self._cache.forget(directory)
        shutil.rmtree(directory, ignore_errors=True)
