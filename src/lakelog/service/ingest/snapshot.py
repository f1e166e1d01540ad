"""A consistent copy of tables without locks, and the LSN from which their changes follow.

A temporary slot exports a snapshot: it has all transactions that commit before the slot's consistent point, and none
after it. The server drops the slot when its connection ends, whatever ends it.
"""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from psycopg import sql
from pyarrow import csv

from lakelog.io.names import new_uuid
from lakelog.service.ingest.column_types import from_text
from lakelog.service.ingest.connection import Connection, Server
from lakelog.service.ingest.position import parse_lsn
from lakelog.service.ingest.source import PLUGIN, SourceTable

_ROWS: Final = 50_000
_BYTES: Final = 16 << 20
_LOCK: Final = 0x6C616B65
"""First half of the number of lakelog's advisory locks."""


@dataclass(frozen=True)
class Snapshot:
    """A connection that reads as of an LSN: transactions with a commit record before it are in the rows."""

    lsn: int
    connection: Connection

    def may_copy(self, slot: str) -> bool:
        """True if no other process copies the tables of a slot; it holds off others until the connection ends."""
        row = self.connection.execute(
            "SELECT pg_try_advisory_xact_lock(%s, %s)", (_LOCK, zlib.crc32(slot.encode()) >> 1)
        )
        return bool((row.fetchone() or (False,))[0])

    def read(self, table: SourceTable) -> Iterator[pa.RecordBatch]:
        """The rows of a table, in batches of at most some megabytes."""
        columns = sql.SQL(", ").join(sql.Identifier(name) for name, _ in table.columns)
        quoted = sql.SQL(", FORCE_QUOTE *" if len(table.columns) == 1 else "")  # NULL is an empty line
        statement = sql.SQL("COPY (SELECT {} FROM ONLY {}) TO STDOUT (FORMAT csv{})").format(
            columns, sql.Identifier(table.schema, table.name), quoted
        )
        with self.connection.cursor().copy(statement) as rows:
            chunks: list[bytes] = []
            size = 0
            for row in rows:  # the server sends one message per row
                chunks.append(bytes(row))
                size += len(row)
                if len(chunks) >= _ROWS or size >= _BYTES:
                    yield _batch(chunks, table)
                    chunks, size = [], 0
            if chunks:
                yield _batch(chunks, table)


@contextlib.contextmanager
def exported_snapshot(server: Server) -> Iterator[Snapshot]:
    """Opens a snapshot; waits for the transactions that are open now. Raises Unavailable, InvalidRequest."""
    with contextlib.closing(server.connect()) as connection:
        with contextlib.closing(server.connect(replication=True)) as exporter, server.errors():
            name = f"lakelog_copy_{new_uuid().replace('-', '')}"
            row = exporter.execute(
                sql.SQL(f"CREATE_REPLICATION_SLOT {{}} TEMPORARY LOGICAL {PLUGIN} EXPORT_SNAPSHOT").format(
                    sql.Identifier(name)
                )
            ).fetchone()
            assert row is not None
            connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            connection.execute(sql.SQL("SET TRANSACTION SNAPSHOT {}").format(sql.Literal(row[2])))
        yield Snapshot(parse_lsn(row[1]), connection)


def _batch(rows: list[bytes], table: SourceTable) -> pa.RecordBatch:
    """Rows of CSV as a batch. NULL is empty, and an empty text is quoted."""
    names = [name for name, _ in table.columns]
    places = [f"c{n}" for n in range(len(names))]
    data = b"".join(rows)
    if len(names) == 1:  # Arrow skips empty lines
        data = b"".join(b"\\N\n" if row == b"\n" else row for row in rows)
    read = csv.read_csv(
        pa.BufferReader(data),
        read_options=csv.ReadOptions(column_names=places, use_threads=False, block_size=len(data) + 1),
        parse_options=csv.ParseOptions(newlines_in_values=True),
        convert_options=csv.ConvertOptions(
            column_types=dict.fromkeys(places, pa.string()),
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
            null_values=["\\N"] if len(names) == 1 else [""],
        ),
    ).combine_chunks()
    (texts,) = read.to_batches()
    arrays = [from_text(texts.column(n), kind, name) for n, (name, kind) in enumerate(table.columns)]
    return pa.RecordBatch.from_arrays(arrays, names)
