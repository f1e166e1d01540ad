"""The two rows of an update that fall over two batches of a task: both are judged with the second batch."""

from __future__ import annotations

import pyarrow as pa

from lakelog.errors import InvalidSchema
from lakelog.paimon.types.arrow import plain_batch
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.rejected.sources import BEFORE, GivenRows


class UpdatePairs:
    """Holds back a -U at the end of a batch until its +U comes; one for a task that may reject rows."""

    def __init__(self, table: DynamicTable) -> None:
        self._table = table
        self._held: pa.RecordBatch | None = None

    def whole(self, batch: pa.RecordBatch, first: int) -> GivenRows:
        """The rows of a batch after the one that was held back; ``first`` is the number of the first of them.

        Raises InvalidSchema if the columns change within an update.
        """
        held, self._held, batch = self._held, None, plain_batch(batch)
        if held is not None:
            batch = self._joined(held, batch)
        source = GivenRows.of(batch, self._table, first)
        if not source.kinds or source.kinds[-1] != BEFORE:
            return source
        end = batch.num_rows - 1
        self._held = batch.slice(end)
        return GivenRows(source.batch.slice(0, end), source.kinds[:end], first, source.schema_id)

    def rest(self, first: int) -> GivenRows | None:
        """The row that is still held back at the end; None if there is none."""
        held, self._held = self._held, None
        return None if held is None else GivenRows.of(held, self._table, first)

    def _joined(self, first: pa.RecordBatch, batch: pa.RecordBatch) -> pa.RecordBatch:
        if first.schema == batch.schema:
            return pa.concat_batches([first, batch])
        try:
            both = pa.concat_tables(
                [pa.Table.from_batches([part]) for part in (first, batch)], promote_options="default"
            )
        except (pa.ArrowInvalid, pa.ArrowTypeError) as why:
            raise InvalidSchema(
                f"the columns of the rows for table {self._table.name} change between -U and +U of an update: {why}. "
                f"Write both with the same columns"
            ) from None
        return pa.concat_batches(both.to_batches())
