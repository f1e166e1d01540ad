"""``$rejected``: the rows that writes and followers left out with ``on-bad-record`` = ``keep`` (RFC 16)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from lakelog.errors import Corrupt, NotFound
from lakelog.paimon.schema.schema import TableSchema
from lakelog.paimon.types.types import BYTES, AtomicType, DataField
from lakelog.table.read.base import TableScan, chosen
from lakelog.table.rejected.entries import RejectedEntries, RejectedEntry, UnreadableEntries
from lakelog.table.rejected.rows import REJECTED_SCHEMA, UNREADABLE, rejected_rows
from lakelog.table.rejected.sources import text_of
from lakelog.table.system.metadata import INT, LONG, TEXT, Columns, needed

_COLUMNS: Columns = (
    ("time", needed(AtomicType("TIMESTAMP_LTZ", precision=3))),
    ("reason", needed(TEXT)),
    ("writer", needed(TEXT)),
    ("epoch", needed(LONG)),
    ("task", INT),
    ("row", LONG),
    ("topic", TEXT),
    ("bucket", INT),
    ("offset", LONG),
    ("format", needed(TEXT)),
    ("key", BYTES),
    ("value", needed(BYTES)),
    ("schema_id", LONG),
    ("text", TEXT),
)


class Rejected(TableScan):
    """One row per rejected row or log record, with its bytes, place, reason and time; the oldest file first."""

    @property
    def row_schema(self) -> TableSchema:
        """The fixed columns: those of ``REJECTED_SCHEMA``, and ``text``, the value for people."""
        fields = tuple(DataField(at, name, kind) for at, (name, kind) in enumerate(_COLUMNS))
        return TableSchema(0, fields, len(fields) - 1)

    def plan(self) -> Sequence[RejectedEntry | UnreadableEntries]:
        """One split per file of rejected rows, and per list of them that cannot be read."""
        found = RejectedEntries(self.table).visible()
        return [*found.unreadable, *found.entries]

    def read(self, split: RejectedEntry | UnreadableEntries) -> Iterator[pa.RecordBatch]:
        """The rows of a split that match. If the split is unreadable, one row with the error, which names the path."""
        for batch in self._rows(split):
            rows = pa.Table.from_batches([batch])
            yield from chosen(rows.append_column("text", text_of(rows)), self.schema, self.filter)

    def _rows(self, split: RejectedEntry | UnreadableEntries) -> Iterator[pa.RecordBatch]:
        if isinstance(split, UnreadableEntries):
            yield _unreadable(split.why, 0, "", -1)
            return
        try:
            yield from rejected_rows(self.table, split)
        except (Corrupt, NotFound) as why:
            if isinstance(why, Corrupt) or split.time_ms > RejectedEntries(self.table).oldest_ms:  # else expired by now
                yield _unreadable(str(why), split.time_ms, split.writer, split.epoch)


def _unreadable(why: str, time_ms: int, writer: str, epoch: int) -> pa.RecordBatch:
    row = {"time": time_ms, "reason": why, "writer": writer, "epoch": epoch, "format": UNREADABLE, "value": b""}
    return pa.RecordBatch.from_pylist([row], REJECTED_SCHEMA)
