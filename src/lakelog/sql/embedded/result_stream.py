"""The rows of a query batch by batch, for results that are never whole in memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from lakelog.sql.embedded.database import EmbeddedDatabase
from lakelog.sql.embedded.select import LocalSelect, raised


class ResultStream:
    """A running query of DuckDB. Iterated in one thread; ``interrupt`` is for any other.

    Its types need no second run: decimals are long from the beginning.
    """

    def __init__(self, select: LocalSelect, database: EmbeddedDatabase) -> None:
        """Prepares the query; ``schema`` is known before a row is computed. Raises the errors of the reads."""
        self._select = select
        self._db = select.opened(database)
        try:
            with raised(select):
                self._relation: Any = self._db.sql(select.long_text)
                self.schema = select.schema_of(self._relation.limit(0).to_arrow_table())
        except BaseException:
            self.close()
            raise

    def batches(self, rows: int) -> Iterator[pa.RecordBatch]:
        """The result in batches of at most ``rows``. Raises InvalidRequest for an error of a value, and of the reads.

        After ``interrupt`` raises KeyboardInterrupt.
        """
        with raised(self._select):
            reader = self._relation.to_arrow_reader(rows)
        while True:
            with raised(self._select):
                try:
                    batch = reader.read_next_batch()
                except StopIteration:
                    return
            yield pa.RecordBatch.from_arrays(
                [
                    column if column.type == field.type else column.cast(field.type)
                    for column, field in zip(batch.columns, self.schema, strict=True)
                ],
                schema=self.schema,
            )

    def interrupt(self) -> None:
        """Ends the computation of the next batch."""
        self._db.interrupt()

    def close(self) -> None:
        """Ends the query."""
        self._db.close()
