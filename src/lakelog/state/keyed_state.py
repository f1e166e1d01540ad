"""The rows by key that a stream has given of one bucket, as sorted runs on disk; a save makes them durable.

``<directory>/at-<offset>`` (JSON, offset padded to 19 digits) names the runs that hold the state before the record at
that offset, newest first, and ``<directory>/<uuid>.arrow`` are the runs. Both are written once and never changed. What
a save holds follows from the log and from where the stream began, so it does not matter who made it, or how often.
"""

from __future__ import annotations

import base64
import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from lakelog.errors import Corrupt, LakelogError, NotFound
from lakelog.io.arrow_messages import MessageFile, UnpackLimit
from lakelog.io.journal import Journal
from lakelog.io.names import new_uuid
from lakelog.io.storage.file_io import FileIO
from lakelog.io.storage.storage_clock import StorageClock
from lakelog.merge.base import KIND_COLUMN, Indices, MergeEngine, Piece
from lakelog.merge.keys import Part, key_parts, key_starts, sort_rows, taken
from lakelog.merge.output import live_rows
from lakelog.merge.runs import merge_runs
from lakelog.paimon.rows.row_kind import INSERT
from lakelog.paimon.types.null_rows import cast_column
from lakelog.state.sorted_run import BLOCKS, BlockCache, KeyedRun, run_in_memory, write_run

_MOST_RUNS: Final = 12
_MOST_IN_MEMORY: Final = 32 << 20
"""Bytes of new rows of a bucket that are held before they are written as a run."""
_FIRST_KEYS: Final = UnpackLimit(rows=1 << 24, size=1 << 40)
_ORPHAN_MS: Final = 3_600_000
"""Age after which a run without a save is deleted. A younger one may get its save; an older one is of a dead task."""


Conform = Callable[[pa.RecordBatch, int | None], pa.RecordBatch]
"""A block and the id of its columns → the block with the columns of the state."""


class KeyedState:
    """The state of one bucket before the record at ``offset``. Not for several threads.

    One that is not ``durable`` is never saved, and deletes its files when they are merged. ``cache`` keeps blocks of
    the files that were read, ``memory`` bytes of new rows are held before they are written. ``columns`` is the id of
    the columns, which each run notes (None: not noted), and ``conform`` reads runs of others; by default by names.
    """

    def __init__(
        self,
        io: FileIO,
        directory: str,
        schema: pa.Schema,
        keys: Sequence[str],
        offset: int,
        durable: bool = True,
        cache: BlockCache | None = None,
        memory: int | None = None,
        columns: int | None = None,
        conform: Conform | None = None,
    ) -> None:
        self.offset, self._durable = offset, durable
        self._cache, self._memory = cache, _MOST_IN_MEMORY if memory is None else memory
        self._io, self._directory, self._schema, self._keys = io, directory, schema, tuple(keys)
        self._columns = columns
        self._conform: Conform = conform or (lambda block, _: conformed(block, schema))
        self._columns_of: dict[str, int | None] = {}
        self._files: list[KeyedRun] = []
        self._fresh: list[KeyedRun] = []
        self._fresh_bytes = 0
        self._open: dict[str, tuple[pa.NativeFile, MessageFile]] = {}
        self._saved, self._unsaved = offset, True

    @property
    def has_moved(self) -> bool:
        """True if the offset differs from that of the newest save, or of the start."""
        return self.offset != self._saved

    @property
    def saved(self) -> int:
        """The offset of the newest save, or of the start if there is none."""
        return self._saved

    @property
    def rows(self) -> int:
        """Number of rows in all runs, including replaced ones."""
        return sum(run.rows for run in (*self._fresh, *self._files))

    def find(self, wanted: Sequence[Part]) -> tuple[Indices, pa.Table]:
        """The positions of the keys that have a row, and the rows; ``wanted`` are sorted, each key once."""
        left = np.arange(len(wanted[0]))
        positions, rows = [], [self._schema.empty_table()]
        for run in (*self._fresh, *self._files):
            if not len(left):
                break
            hits, found = run.find([taken(part, left) for part in wanted])
            if len(hits):
                positions.append(left[hits])
                rows += [pa.Table.from_batches([batch]) for batch in found]
                left = np.delete(left, hits)
        every = pa.concat_tables(rows)
        is_live = pc.equal(every.column(KIND_COLUMN), INSERT)
        where = np.concatenate(positions) if positions else np.empty(0, dtype=np.int64)
        return where[is_live.to_numpy()], every.filter(is_live)

    def find_all(self, wanted: Sequence[Part]) -> tuple[Indices, pa.Table]:
        """The rows whose first key columns are in ``wanted`` (sorted, each once), and the position of each, in order.

        ``wanted`` may have fewer columns than the key.
        """
        positions, rows = [np.empty(0, dtype=np.int64)], [self._schema.empty_table()]
        for run in (*self._fresh, *self._files):
            hits, found = run.find_all(wanted)
            positions.append(hits)
            rows += [pa.Table.from_batches([batch]) for batch in found]
        every, where = pa.concat_tables(rows).combine_chunks(), np.concatenate(positions)
        if not every.num_rows:
            return where, every
        parts = key_parts(every.to_batches()[0], self._keys)
        order = sort_rows(parts)  # runs stand newest first, so the first row of a key is its newest
        newest = order[key_starts(parts, order)]
        kinds = every.column(KIND_COLUMN).to_numpy()[newest]
        live = newest[kinds == INSERT]
        return where[live], every.take(pa.array(live))

    def put(self, rows: pa.Table) -> None:
        """Takes newer rows, sorted by key, each key once: kind +I, or -D for a deleted key."""
        self._unsaved = True
        if not rows.num_rows:
            return
        self._fresh.insert(0, run_in_memory(self._keys, rows.select(self._schema.names).to_batches()))
        self._fresh_bytes += rows.nbytes
        if self._fresh_bytes > self._memory:
            self._flush()
            return
        count = _to_merge([run.rows for run in self._fresh])
        if count > 1:
            self._fresh[:count] = [run_in_memory(self._keys, self._merged(self._fresh[:count]))]

    def save(self) -> None:
        """Saves the state at its offset, unless another process has saved it."""
        if not self._unsaved and not self.has_moved:
            return
        before = {run.name for run in self._files}
        self._flush()
        if not _saves(self._io, self._directory).create(self.offset, self._to_json()):
            made = {run.name for run in self._files} - before
            self.close()
            for name in made:
                self._io.delete(f"{self._directory}/{name}")
            self._load(self.offset)
        self._saved, self._unsaved = self.offset, False

    def copy_to(self, other: KeyedState) -> None:
        """Puts all rows into a state that is empty, which is then before the same record."""
        for batch in self._merged([*self._fresh, *self._files]):
            other.put(pa.Table.from_batches([batch]))
        other.offset = self.offset

    def close(self) -> None:
        """Closes its files."""
        for file, _ in self._open.values():
            file.close()
        self._open.clear()

    def load(self, at_most: int) -> bool:
        """Loads the newest saved state at or before an offset; False if none exists."""
        offsets = [offset for offset in saved_offsets(self._io, self._directory) if offset <= at_most]
        if not offsets:
            return False
        self._load(offsets[-1])
        return True

    def _load(self, offset: int) -> None:
        self.close()
        path = _saves(self._io, self._directory).path(offset)
        with _reading(path):
            runs = _runs_of(self._io, path)
            self._columns_of = {r["name"]: r.get("columns") for r in runs}
            self._files = [self._run(r["name"], _bounds(r["bounds"]), r["rows"]) for r in runs]
        self._fresh, self._fresh_bytes, self.offset = [], 0, offset
        self._saved, self._unsaved = offset, False

    def _run(self, name: str, bounds: pa.RecordBatch, rows: int) -> KeyedRun:
        # keys keep their order and types, but ALTER TABLE may rename them
        bounds = pa.RecordBatch.from_arrays(
            bounds.columns, schema=pa.schema([self._schema.field(k) for k in self._keys])
        )
        return KeyedRun(self._keys, bounds, rows, lambda block: self._block(name, block), name)

    @property
    def disk_bytes(self) -> int:
        """Bytes of its files."""
        return sum(self._io.size(f"{self._directory}/{run.name}") for run in self._files)

    def _block(self, name: str, block: int) -> pa.RecordBatch:
        if self._cache is None:
            return self._read_block(name, block)
        return self._cache.get((self._directory, name, block), lambda: self._read_block(name, block))

    def _read_block(self, name: str, block: int) -> pa.RecordBatch:
        path = f"{self._directory}/{name}"
        with _reading(path):
            if name not in self._open:
                file = self._io.open_input(path)
                self._open[name] = file, MessageFile(file, BLOCKS)
            batch = self._open[name][1].batch(block)
        return self._conform(batch, self._columns_of.get(name, self._columns))

    def _flush(self) -> None:
        """Writes the rows in memory as a run, merged with the files that are not much larger."""
        fresh = sum(run.rows for run in self._fresh)
        count = _to_merge([fresh, *(run.rows for run in self._files)])
        if not self._fresh and count < 2:
            return
        old = self._files[: max(0, count - 1)]
        rest = self._files[len(old) :]
        rows: Iterable[pa.RecordBatch] = self._merged([*self._fresh, *old])
        if not rest:
            rows = (part for batch in rows for part in live_rows(pa.Table.from_batches([batch])).to_batches())
        name = f"{new_uuid()}.arrow"
        written = write_run(self._io, f"{self._directory}/{name}", self._keys, rows)
        self._files = [*([] if written is None else [self._run(name, *written)]), *rest]
        self._fresh, self._fresh_bytes = [], 0
        if not self._durable:
            for run in old:
                if run.name in self._open:
                    self._open.pop(run.name)[0].close()
                if self._cache is not None:
                    self._cache.forget(self._directory, run.name)
                self._io.delete(f"{self._directory}/{run.name}")

    def _merged(self, newest_first: Sequence[KeyedRun]) -> Iterator[pa.RecordBatch]:
        return merge_runs([run.batches() for run in reversed(newest_first)], self._keys, _Newest())

    def _to_json(self) -> bytes:
        runs = []
        for run in self._files:
            columns = self._columns_of.get(run.name, self._columns)
            noted = {} if columns is None else {"columns": columns}
            runs.append({"name": run.name, "rows": run.rows, "bounds": _text(run.bounds), **noted})
        return orjson.dumps({"runs": runs})


class _Newest(MergeEngine):
    """The row of the newest run wins."""

    sequence_fields: tuple[str, ...] = ()

    def __init__(self) -> None:
        self.ignore_delete = False

    def fold(self, piece: Piece) -> pa.Table:
        return piece.rows_at(piece.newest)


def saved_offsets(io: FileIO, directory: str) -> list[int]:
    """The offsets at which a state was saved, ascending."""
    return [*_saves(io, directory).files()]


def _saves(io: FileIO, directory: str) -> Journal:
    return Journal(io, directory, "at-")


def forget_old(io: FileIO, directory: str, before: int) -> None:
    """Deletes the saves that readers from offset ``before`` on do not need, and runs that only those use.

    Called by the process that knows the progress of the stream.
    """
    saves = _saves(io, directory)
    offsets = [*saves.files()]
    kept = next((o for o in reversed(offsets) if o <= before), None)
    if kept is None:
        return
    old: set[str] = set()
    named: set[str] = set()
    with contextlib.suppress(NotFound):
        for offset in offsets:
            (old if offset < kept else named).update(run["name"] for run in _runs_of(io, saves.path(offset)))
        clock, runs = StorageClock(io, directory.partition("/lakelog/")[0]), io.list(directory)
        left = {r.name for r in runs if r.name.endswith(".arrow") and clock.is_older(r.mtime_ms, _ORPHAN_MS)}
        for offset in offsets[: offsets.index(kept)]:
            io.delete(saves.path(offset))
        for name in (old | left) - named:
            with contextlib.suppress(LakelogError):
                io.delete(f"{directory}/{name}")


def _to_merge(sizes: Sequence[int]) -> int:
    """Number of the newest runs to merge, so that each remaining run is larger than all newer ones; 1 for none."""
    count, total = 1, sizes[0] if sizes else 0
    while count < len(sizes) and (sizes[count] <= total or len(sizes) - count >= _MOST_RUNS):
        total += sizes[count]
        count += 1
    return count


def conformed(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """A block with the current columns; those added after its write are NULL."""
    if batch.schema.equals(schema):
        return batch
    columns = [
        cast_column(batch.column(at), field.type)
        if (at := batch.schema.get_field_index(field.name)) >= 0
        else pa.nulls(batch.num_rows, field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _runs_of(io: FileIO, path: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = orjson.loads(io.read(path))["runs"]
    return found


def _text(bounds: pa.RecordBatch) -> str:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, bounds.schema) as writer:
        writer.write_batch(bounds)
    return base64.b64encode(sink.getvalue()).decode()


def _bounds(text: str) -> pa.RecordBatch:
    data = base64.b64decode(text)
    _FIRST_KEYS.check(data)
    return pa.ipc.open_stream(data).read_all().combine_chunks().to_batches()[0]


@contextlib.contextmanager
def _reading(path: str) -> Iterator[None]:
    """Context that reads a file of the state. Raises Corrupt, which names it."""
    try:
        yield
    except (pa.ArrowException, orjson.JSONDecodeError, KeyError, TypeError, ValueError) as why:
        raise Corrupt(f"'{path}' is no file of keyed state: {why}") from None
