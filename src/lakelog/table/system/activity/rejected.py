"""``$rejected``: the rows that writes and followers left out with ``on-bad-record`` = ``keep`` (RFC 16)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from lakelog.paimon.schema.schema import TableSchema
from lakelog.paimon.types.types import BYTES, AtomicType, DataField
from lakelog.table.model.rejected_entries import RejectedEntries, RejectedEntry
from lakelog.table.read.base import TableScan, chosen
from lakelog.table.staging.rejects import rejected_rows
from lakelog.table.staging.sources import text_of
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
    ("text", TEXT),
)


class Rejected(TableScan):
    """One row per rejected row or log record, with its bytes, place, reason and time; the oldest epoch first."""

    @property
    def row_schema(self) -> TableSchema:
        """The fixed columns: those of ``REJECTED_SCHEMA``, and ``text``, the value for people."""
        fields = tuple(DataField(at, name, kind) for at, (name, kind) in enumerate(_COLUMNS))
        return TableSchema(0, fields, len(fields) - 1)

    def plan(self) -> Sequence[RejectedEntry]:
        """One split per epoch with rejected rows."""
        return RejectedEntries(self.table).visible()

    def read(self, split: RejectedEntry) -> Iterator[pa.RecordBatch]:
        """The rows of an epoch that match."""
        for batch in rejected_rows(self.table, split):
            rows = pa.Table.from_batches([batch])
            yield from chosen(rows.append_column("text", text_of(rows)), self.schema, self.filter)
