"""The write buffer of one bucket: accepts rows in any order, returns them sorted, one row per key."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import pyarrow as pa

from lakelog.io.names import new_uuid
from lakelog.io.storage.local import ScratchFileIO
from lakelog.merge.base import KeepAll, MergeEngine
from lakelog.merge.runs import fold_rows, merge_runs, sort_run
from lakelog.options.option import Options
from lakelog.options.table import WRITE_BUFFER_SIZE
from lakelog.paimon.schema.schema import TableSchema

_SPILL_ROWS = 65536


@dataclass
class Memtable:
    """Rows with sequence numbers, sorted when read.

    Above ``limit`` bytes the buffered rows are sorted (and folded if that does not change the result) and spilled to a
    local file. A read merges the spilled runs with the rest, so memory is bounded. ``close`` deletes the spilled files.
    """

    keys: tuple[str, ...]
    engine: MergeEngine
    limit: int
    _rows: list[pa.Table] = field(default_factory=list)
    _bytes: int = 0
    _spilled: list[str] = field(default_factory=list)
    _disk: ScratchFileIO = field(default_factory=ScratchFileIO)

    def add(self, rows: pa.Table) -> None:
        """Adds rows with ``_SEQUENCE_NUMBER`` and ``_VALUE_KIND``."""
        if rows.num_rows == 0:
            return
        self._rows.append(rows)
        self._bytes += rows.nbytes
        if self._bytes > self.limit:
            self._spill()

    def sorted_batches(self) -> Iterator[pa.RecordBatch]:
        """All rows: sorted by key, one row per key."""
        if not self._spilled:
            yield from (
                fold_rows(pa.concat_tables(self._rows), self.keys, self.engine).to_batches() if self._rows else ()
            )
            return
        rest = self._sorted()
        runs = [self._read(path) for path in self._spilled]
        if rest is not None:
            runs.append(iter(rest.to_batches(max_chunksize=_SPILL_ROWS)))
        yield from merge_runs(runs, self.keys, self.engine)

    def close(self) -> None:
        """Discards the rows and deletes the spilled files."""
        self._rows.clear()
        self._bytes = 0
        for path in self._spilled:
            self._disk.delete(path)
        self._spilled.clear()

    def _sorted(self) -> pa.Table | None:
        if not self._rows:
            return None
        return sort_run(pa.concat_tables(self._rows), self.keys, self.engine)

    def _spill(self) -> None:
        rows = self._sorted()
        path = f"{tempfile.gettempdir()}/lakelog-spill-{new_uuid()}.arrow"
        self._spilled.append(path)
        options = pa.ipc.IpcWriteOptions(compression="lz4")
        try:
            if rows is not None:
                with (
                    self._disk.open_output(path) as sink,
                    pa.ipc.new_stream(sink, rows.schema, options=options) as stream,
                ):
                    stream.write_table(rows, max_chunksize=_SPILL_ROWS)
        except BaseException:
            self.close()  # the write ends here, so its spilled files must not fill the disk
            raise
        self._rows.clear()
        self._bytes = 0

    def _read(self, path: str) -> Iterator[pa.RecordBatch]:
        with self._disk.open_input(path) as source, pa.ipc.open_stream(source) as stream:
            yield from stream


@dataclass
class RowsApart:
    """Rows that stay beside the folded ones, by number: each number has at most one row of a key."""

    schema: TableSchema
    _held: list[Memtable] = field(default_factory=list)

    def add(self, rows: Iterable[pa.Table]) -> None:
        """Adds rows: the n-th table to those of number n."""
        for number, table in enumerate(rows):
            if number == len(self._held):
                limit = int(Options(self.schema.options).need(WRITE_BUFFER_SIZE))
                self._held.append(Memtable(self.schema.trimmed_primary_keys, KeepAll(self.schema), limit))
            self._held[number].add(table)

    def sorted_batches(self) -> Iterator[Iterator[pa.RecordBatch]]:
        """The rows of each number, sorted by key."""
        return (batch.sorted_batches() for batch in self._held)

    def close(self) -> None:
        """Discards the rows and deletes the spilled files."""
        for file in self._held:
            file.close()
