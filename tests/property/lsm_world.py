"""A table in memory that is written, compacted and compared with a model, step by step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
from lsm_model import KINDS, Model, Told, Variant
from test_merge_engines import schema_of

from lakelog.catalog.base import Identifier, TableLocation
from lakelog.filestore.commit.request import CommitRequest
from lakelog.filestore.skipping.predicate import Compare
from lakelog.filestore.store import FileStore
from lakelog.io.names import new_uuid
from lakelog.io.storage.memory import MemoryFileIO
from lakelog.paimon.metadata.data_file import EMPTY_ROW, BucketFiles
from lakelog.paimon.metadata.snapshot import Snapshot
from lakelog.paimon.rows.bucket import bucket_of_rows
from lakelog.paimon.types.arrow import arrow_schema
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.read.file_stream import FileStream, StreamStart

BUCKETS = 2
LEVELS = 4
Change = tuple[int, int, Mapping[str, Any]]
"""Key, kind, values."""


def new_store(variant: Variant, options: Mapping[str, str]) -> FileStore:
    """A new table of the variant."""
    schema = schema_of(variant.table)
    own = {"bucket": str(BUCKETS), "num-levels": str(LEVELS), "num-sorted-run.compaction-trigger": "3"}
    merged = {**own, **schema.options, "merge-engine": variant.table.engine, **options}
    made = replace(schema, options=merged)
    io = MemoryFileIO(new_uuid())
    io.write("/w/db.db/t/schema/schema-0", made.to_json())
    return FileStore(io, "/w/db.db/t", made)


@dataclass
class World:
    """A table and its model."""

    variant: Variant
    model: Model
    store: FileStore
    told: list[Told] = field(default_factory=list)
    states: dict[int, dict[int, tuple[Any, ...]]] = field(default_factory=dict)

    def write(self, changes: Sequence[Change]) -> None:
        """Flushes and commits the rows that the model accepts."""
        kept = []
        for key, kind, values in changes:
            if not self.model.accepts(key, kind):
                continue
            is_bare = kind == 3 and self.variant.dies_once
            given = {name: None if is_bare else values[name] for name in self.variant.table.columns}
            self.model.write(key, kind, given)
            kept.append((key, kind, given))
        if not kept:
            return
        expected = self.model.flushed()
        store = self.store
        files = tuple(self._bucket_files(store, bucket, rows) for bucket, rows in self._by_bucket(kept).items())
        files = tuple(b for b in files if b.new_files or b.changelog_files)
        if files:
            made = store.commit(CommitRequest(new_uuid(), 1, "APPEND", files))
            self._check(made, expected)

    def compact(self, full: bool) -> None:
        """Compacts every bucket that has something to compact."""
        for partition, bucket in self.store.buckets_to_compact(full):
            made = self.store.compact(partition, bucket, full)
            if made is not None:
                live = self.store.live_entries(made, {partition}, {bucket})
                to_the_top = all(e.file.level == LEVELS - 1 for e in live)
                self._check(made, self.model.compacted(self._keys_of(bucket), to_the_top))

    def check_history(self) -> None:
        """Asserts that every snapshot has its rows, and the whole changelog equals those of the single steps."""
        for snapshot_id, state in self.states.items():
            assert self._read(snapshot_id) == state, f"snapshot {snapshot_id}"
        told = [row for plan in self._stream.plans(StreamStart(None, 1)) for row in _changes(plan.to_arrow())]
        assert sorted(told, key=_key) == sorted(self.told, key=_key)

    def _check(self, made: Snapshot, expected: list[Told]) -> None:
        (*plans,) = self._stream.plans(StreamStart(None, made.id))
        told = [row for plan in plans for row in _changes(plan.to_arrow())]
        assert sorted(told, key=_key) == expected, f"what snapshot {made.id} ({made.commit_kind}) tells"
        self.told += told
        state = self.model.state()
        assert self._read(None) == state
        self.states[made.id] = state
        self._check_filter("k", 2, state)
        self._check_filter(next(c for c, kind in self.variant.table.columns.items() if kind == "INT"), 1, state)

    def _check_filter(self, column: str, value: int, state: Mapping[int, tuple[Any, ...]]) -> None:
        at = ["k", *self.variant.table.columns].index(column)
        chosen = {key: values for key, values in state.items() if (key, *values)[at] == value}
        condition = Compare(column, "=", value)
        rows = self.store.read_table(self.store.plan(filter=condition), None, condition)
        assert _state(rows) == chosen, f"{column} = {value}"

    @property
    def _stream(self) -> FileStream:
        location = TableLocation(Identifier("db", "t"), self.store.table_path, self.store.schema, self.store.io)
        return FileStream(DynamicTable(location))

    def _read(self, snapshot_id: int | None) -> dict[int, tuple[Any, ...]]:
        return _state(self.store.read_table(self.store.plan(snapshot_id)))

    def _arrow(self, rows: Sequence[Change]) -> tuple[pa.Table, pa.Array]:
        target = arrow_schema(self.store.schema.fields)
        columns = [[key for key, _, _ in rows], *([v[n] for _, _, v in rows] for n in target.names[1:])]
        return pa.table(dict(zip(target.names, columns, strict=True)), target), pa.array(
            [k for _, k, _ in rows], pa.int8()
        )

    def _by_bucket(self, rows: Sequence[Change]) -> dict[int, list[Change]]:
        out: dict[int, list[Change]] = {}
        for row, bucket in zip(rows, bucket_of_rows(self._arrow(rows)[0], self.store.schema).tolist(), strict=True):
            out.setdefault(bucket, []).append(row)
        return out

    def _keys_of(self, bucket: int) -> list[int]:
        none = dict.fromkeys(self.variant.table.columns)
        return [key for key, _, _ in self._by_bucket([(key, 0, none) for key in self.model.rows]).get(bucket, ())]

    def _bucket_files(self, store: FileStore, bucket: int, rows: Sequence[Change]) -> BucketFiles:
        highest = store.max_sequence_numbers(store.latest_snapshot(), {(EMPTY_ROW, bucket)})
        writer = store.bucket_writer(EMPTY_ROW, bucket, highest.get((EMPTY_ROW, bucket), -1) + 1)
        writer.write(*self._arrow(rows))
        new = writer.finish()
        return BucketFiles(EMPTY_ROW, bucket, BUCKETS, new, changelog_files=writer.changelog_files)


def _changes(rows: pa.Table) -> list[Told]:
    return [(key, values.pop("_row_kind"), tuple(values.values())) for key, values in _by_key(rows)]


def _state(rows: pa.Table) -> dict[int, tuple[Any, ...]]:
    found = [(key, tuple(values.values())) for key, values in _by_key(rows)]
    assert len(dict(found)) == len(found), "a key has two rows"
    return dict(found)


def _by_key(rows: pa.Table) -> list[tuple[int, dict[str, Any]]]:
    return [(row.pop("k"), row) for row in rows.to_pylist()]


def _key(told: Told) -> int:
    assert told[1] in KINDS
    return told[0]
