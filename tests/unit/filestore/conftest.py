"""Small tables in memory, and what tests do with them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pytest

from lakelog.fileformat.parquet import ParquetFormat
from lakelog.filestore.commit.request import CommitRequest
from lakelog.filestore.store import FileStore
from lakelog.io.names import new_uuid
from lakelog.io.storage.file_io import FileIO
from lakelog.io.storage.memory import MemoryFileIO
from lakelog.paimon.metadata.data_file import BucketFiles
from lakelog.paimon.metadata.snapshot import Snapshot
from lakelog.paimon.rows.bucket import bucket_of_rows
from lakelog.paimon.rows.partition import encode_partition
from lakelog.paimon.schema.schema import new_schema
from lakelog.paimon.types.arrow import arrow_schema
from lakelog.paimon.types.types import parse_type

_PARQUET = ParquetFormat()
COLUMNS = (("id", "INT NOT NULL"), ("name", "STRING"), ("amount", "DOUBLE"))


@dataclass
class TestTable:
    """A file store, with short ways to write rows ``(kind, id, name, amount)`` and to read them."""

    __test__ = False

    store: FileStore

    def rows(self, *rows: tuple[Any, ...]) -> tuple[pa.Table, pa.Array]:
        schema = arrow_schema(self.store.schema.fields)
        names = schema.names
        columns = {name: [row[at + 1] for row in rows] for at, name in enumerate(names)}
        return pa.table(columns, schema=schema), pa.array([row[0] for row in rows], pa.int8())

    def staged(self, *rows: tuple[Any, ...], store: FileStore | None = None) -> tuple[BucketFiles, ...]:
        """Writes files for rows, numbered above the newest snapshot; commits nothing."""
        store = store or self.store
        table, kinds = self.rows(*rows)
        schema = store.schema
        buckets = bucket_of_rows(table, schema)
        places: dict[tuple[bytes, int], list[int]] = {}
        for at in range(table.num_rows):
            values = tuple(table.column(k)[at].as_py() for k in schema.partition_keys)
            places.setdefault((encode_partition(values, schema), int(buckets[at])), []).append(at)
        highest = store.max_sequence_numbers(store.latest_snapshot(), set(places))
        out = []
        for (partition, bucket), at in places.items():
            writer = store.bucket_writer(partition, bucket, highest.get((partition, bucket), -1) + 1)
            writer.write(table.take(pa.array(at)), kinds.take(pa.array(at)))
            out.append(BucketFiles(partition, bucket, schema.num_buckets, new_files=writer.finish()))
        return tuple(out)

    def insert(self, *rows: tuple[Any, ...], **request: Any) -> Snapshot:
        """Writes and commits rows."""
        files = self.staged(*rows)
        user = request.pop("user", None) or new_uuid()
        return self.store.commit(CommitRequest(user, request.pop("identifier", 1), "APPEND", files, **request))

    def rewritten(
        self, files: BucketFiles, change: Callable[[pa.Table], pa.Table], name: str | None = None, **meta: Any
    ) -> BucketFiles:
        """The same rows in a Parquet file with other columns, under another name."""
        (file,) = files.new_files
        path = self.store.paths.data_file(files.partition, files.bucket, file)
        rows = change(pa.Table.from_batches(_PARQUET.read(self.store.io, path)))
        new = replace(file, file_name=name or f"data-{new_uuid()}-0.parquet", **meta)
        path = self.store.paths.data_file(files.partition, files.bucket, new)
        _PARQUET.write(self.store.io, path, rows.to_batches(), rows.schema)
        return replace(files, new_files=(new,))

    def commit_files(self, *files: BucketFiles) -> None:
        """Commits staged files."""
        self.store.commit(CommitRequest(new_uuid(), 1, "APPEND", files))

    def read(self, columns: Sequence[str] | None = None, filter: Any = None, **plan: Any) -> list[dict[str, Any]]:
        """All rows, by id."""
        rows = self.store.read_table(self.store.plan(filter=filter, **plan), columns, filter).to_pylist()
        return sorted(rows, key=lambda row: str(row.get("id")).rjust(9))

    def ids(self, filter: Any = None, **plan: Any) -> list[int]:
        return [row["id"] for row in self.read(["id"], filter, **plan)]


MakeTable = Callable[..., TestTable]


@pytest.fixture
def make_table() -> MakeTable:
    """Makes a table; by default with columns id, name, amount, primary key id, one bucket, in memory."""

    def make(
        primary_keys: Sequence[str] = ("id",),
        partition_keys: Sequence[str] = (),
        columns: Sequence[tuple[str, str]] = COLUMNS,
        io: FileIO | None = None,
        path: str = "/t",
        **options: str,
    ) -> TestTable:
        given = {key.replace("_", "-"): value for key, value in options.items()}
        given.setdefault("bucket", "1" if primary_keys else "-1")
        given = {_DOTTED.get(key, key): value for key, value in given.items()}
        fields = [(name, parse_type(kind), None) for name, kind in columns]
        schema = new_schema(fields, primary_keys, partition_keys, given)
        io = io or MemoryFileIO(new_uuid())
        io.write(f"{path}/schema/schema-0", schema.to_json())
        return TestTable(FileStore(io, path, schema))

    return make


_DOTTED = {
    "num-sorted-run-compaction-trigger": "num-sorted-run.compaction-trigger",
    "manifest-merge-min-count": "manifest.merge-min-count",
    "manifest-full-compaction-threshold-size": "manifest.full-compaction-threshold-size",
    "commit-max-retries": "commit.max-retries",
    "commit-min-retry-wait": "commit.min-retry-wait",
    "commit-max-retry-wait": "commit.max-retry-wait",
    "deletion-vectors-enabled": "deletion-vectors.enabled",
    "row-tracking-enabled": "row-tracking.enabled",
    "sequence-field": "sequence.field",
    "metadata-stats-mode": "metadata.stats-mode",
}
